/**
 * The files of one transaction in a journal folder, all named after it: `.plan` while it can be undone, then `.done`,
 * `.undone` or `.stuck`; `.n0`, `.n1`, … contents that come, `.o0`, … contents that were there, `.places` the folders it
 * has inside the workspace. A mark is set by one rename, so a crash finds it or not.
 */
import { Effect, Option, Schema } from "effect"
import { JournalPlan } from "../schema/Journal.ts"
import { ConfinedPath } from "../schema/Workspace.ts"
import type { PathFailure, Root } from "./Disk.ts"
import { toJson } from "./JsonText.ts"
import { inFolder } from "./PrivateFolder.ts"

/** A transaction in its journal folder. */
export interface Journaled {
  readonly folder: Root
  readonly name: string
}

/** `plan`: half of it may be done. `done`: it happened. `undone`: it did not. `stuck`: a person has to look. */
export type Mark = "plan" | "done" | "undone" | "stuck"

export const markPath = ({ name }: Journaled, mark: Mark | "tmp" | "places"): ConfinedPath => ConfinedPath.make(`${name}.${mark}`)

/** Name of the n-th file that comes (`n`) or that was there (`o`). */
export const filePath = ({ name }: Journaled, kind: "n" | "o", index: number): ConfinedPath => ConfinedPath.make(`${name}.${kind}${index}`)

const root = ConfinedPath.make("")
const privateMode = 0o600
const ignoreFile = ".gitignore"
const encoder = new TextEncoder()
const decodePlan = Schema.decodeUnknownOption(Schema.fromJsonString(JournalPlan))
const decodePlaces = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Array(ConfinedPath)))

/** Sets the mark from which on the transaction can be undone by anyone. All files it names lie ready. */
export const prepare = Effect.fnUntraced(function* (journaled: Journaled, plan: JournalPlan) {
  yield* journaled.folder.createFile(markPath(journaled, "plan"), encoder.encode(toJson(plan)), privateMode, plan.durable)
  if (plan.durable) yield* journaled.folder.syncDirectory(root)
})

/** Turns the plan into what became of it. With `revised`, that is kept in the plan's place. */
export const conclude = Effect.fnUntraced(function* (journaled: Journaled, mark: Mark, durable: boolean, revised?: JournalPlan) {
  const { folder } = journaled
  if (revised === undefined) yield* folder.rename(markPath(journaled, "plan"), markPath(journaled, mark))
  else {
    const text = encoder.encode(toJson(revised))
    yield* folder.createFile(markPath(journaled, "tmp"), text, privateMode, durable)
    yield* folder.rename(markPath(journaled, "tmp"), markPath(journaled, mark))
  }
  if (durable) yield* folder.syncDirectory(root)
  if (revised !== undefined) yield* removeMark(journaled, "plan")
})

export const isMarked = (journaled: Journaled, mark: Mark): Effect.Effect<boolean, PathFailure> =>
  Effect.map(journaled.folder.stat(markPath(journaled, mark)), (entry) => entry !== undefined)

export const removeMark = (journaled: Journaled, mark: Mark | "places"): Effect.Effect<void, PathFailure> =>
  removeIfThere(journaled.folder, markPath(journaled, mark))

/** What a mark says; undefined where it is not set, or was never written to its end. */
export const readMark = (journaled: Journaled, mark: Mark): Effect.Effect<JournalPlan | undefined, PathFailure> =>
  Effect.map(readText(journaled.folder, markPath(journaled, mark)), (text) => Option.getOrUndefined(decodePlan(text)))

/** Names folders inside the workspace, before they are made. */
export const notePlaces = (journaled: Journaled, folders: ReadonlyArray<ConfinedPath>, durable: boolean) =>
  journaled.folder.createFile(markPath(journaled, "places"), encoder.encode(toJson(folders)), privateMode, durable)

export const readPlaces = (journaled: Journaled): Effect.Effect<ReadonlyArray<ConfinedPath>, PathFailure> =>
  Effect.map(readText(journaled.folder, markPath(journaled, "places")), (text) => Option.getOrElse(decodePlaces(text), () => []))

/** Makes a folder inside the workspace that nobody else can enter, and in which git sees nothing. */
export const makePrivateFolder = Effect.fnUntraced(function* (workspace: Root, folder: ConfinedPath) {
  yield* workspace.makeDirectory(folder, 0o700)
  yield* workspace.createFile(inFolder(folder, ignoreFile), encoder.encode("*\n"), privateMode)
})

export const removePrivateFolder = Effect.fnUntraced(function* (workspace: Root, folder: ConfinedPath) {
  const names = yield* workspace.list(folder).pipe(Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed(undefined)))
  if (names === undefined) return
  // What hides the others from git goes last.
  for (const { name } of names) if (name !== ignoreFile) yield* removeIfThere(workspace, inFolder(folder, name))
  yield* removeIfThere(workspace, inFolder(folder, ignoreFile))
  yield* workspace.removeDirectory(folder)
})

export const removeIfThere = (folder: Root, path: ConfinedPath): Effect.Effect<void, PathFailure> =>
  folder.unlink(path).pipe(Effect.catchTag("PATH_NOT_FOUND", () => Effect.void))

const readText = (folder: Root, path: ConfinedPath): Effect.Effect<string, PathFailure> =>
  folder.readFile(path).pipe(
    Effect.map(({ bytes }) => new TextDecoder().decode(bytes)),
    Effect.catchTag("PATH_NOT_FOUND", () => Effect.succeed("")),
  )
