/** Finds every git folder below a folder, wherever it hides: also among packages and inside of other git folders. */
import { Effect } from "effect"
import { entriesOf } from "./Entries.ts"

export interface FoundGit {
  readonly folders: ReadonlyArray<string>
  /** `.git` that are files and say where the folder is. */
  readonly pointers: ReadonlyArray<string>
}

/** As long as this the thread is held before others get a turn, in milliseconds; and all of it may take so long. */
const TURN = 8
const TIME_LIMIT = 10_000

/** Undefined when it takes too long. Links are not followed. */
export const gitBelow = Effect.fnUntraced(function* (places: ReadonlyArray<string>) {
  const [folders, pointers]: [Array<string>, Array<string>] = [[], []]
  const ahead = [...places]
  const began = performance.now()
  let turnBegan = began
  for (let folder = ahead.pop(); folder !== undefined; folder = ahead.pop()) {
    const now = performance.now()
    if (now - began > TIME_LIMIT) return undefined
    if (now - turnBegan > TURN) {
      yield* Effect.yieldNow
      turnBegan = performance.now()
    }
    const entries = entriesOf(folder)
    const names = new Set(entries.map(({ name }) => name))
    if (names.has("HEAD") && (names.has("commondir") || (names.has("objects") && names.has("refs")))) folders.push(folder)
    for (const entry of entries) {
      if (entry.isDirectory()) ahead.push(`${folder}/${entry.name}`)
      else if (entry.name === ".git" && entry.isFile()) pointers.push(`${folder}/.git`)
    }
  }
  return { folders, pointers } satisfies FoundGit
})
