/** What changed between two contents: counts of lines, and a unified diff for people, in git's form. */
import { TextDiff } from "effect"
import { commonEnd, commonStart, fromBinary, toBinary } from "./TextLines.ts"

/** Bounds the search for the smallest diff; a change beyond it is still shown in full, only less cleverly. */
const options = { maxEdits: 500 } as const

/** Lines added and removed, as a diff counts them. An absent file has no lines. */
export const countChange = (
  before: Uint8Array | undefined,
  after: Uint8Array | undefined,
): { readonly added: number; readonly removed: number } => {
  if (before === undefined || after === undefined) return { added: countLines(after), removed: countLines(before) }
  const [old, fresh] = differingMiddles(before, after)
  let added = 0
  let removed = 0
  for (const edit of TextDiff.lines(toBinary(old), toBinary(fresh), options)) {
    if (edit._tag === "Insert") added += edit.items.length
    if (edit._tag === "Delete") removed += edit.items.length
  }
  return { added, removed }
}

const LF = 10

const countLines = (bytes: Uint8Array | undefined): number => {
  if (bytes === undefined || bytes.length === 0) return 0
  let count = bytes.at(-1) === LF ? 0 : 1
  for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, at + 1)) count++
  return count
}

/** Both contents without the whole lines they have in common at the start and at the end. */
const differingMiddles = (a: Uint8Array, b: Uint8Array): readonly [Uint8Array, Uint8Array] => {
  const same = commonStart(a, b)
  const head = same === 0 ? 0 : a.lastIndexOf(LF, same - 1) + 1
  const tail = commonEnd(a, b, Math.min(a.length, b.length) - head)
  const nextLine = tail === 0 ? -1 : a.indexOf(LF, a.length - tail)
  const keptTail = nextLine === -1 ? 0 : a.length - nextLine - 1
  return [a.subarray(head, a.length - keptTail), b.subarray(head, b.length - keptTail)]
}

/** One file's change, as a diff shows it. */
export interface ShownChange {
  readonly path: string
  readonly from?: string
  readonly before: { readonly bytes: Uint8Array; readonly mode: number } | undefined
  readonly after: { readonly bytes: Uint8Array; readonly mode: number } | undefined
}

/** The unified diff of some files, cut at a line's end to at most `limit` bytes. */
export const unifiedDiff = (changes: ReadonlyArray<ShownChange>, limit: number): { readonly text: string; readonly leftOut: number } => {
  const bytes = fromBinary(changes.map(diffOf).join(""))
  if (bytes.length <= limit) return { text: decode(bytes), leftOut: 0 }
  const end = bytes.lastIndexOf(LF, limit - 1) + 1
  return { text: decode(bytes.subarray(0, end)), leftOut: bytes.length - end }
}

const decode = (bytes: Uint8Array): string => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)

/** In one unit a byte, so that lines that differ only in bytes that are no UTF-8 still differ. */
const diffOf = ({ after, before, from, path }: ShownChange): string => {
  const [oldName, newName] = [`a/${from ?? path}`, `b/${path}`]
  const head = [`diff --git ${quoted(oldName)} ${quoted(newName)}`, ...modesOf(before?.mode, after?.mode)]
  if (from !== undefined) head.push(`rename from ${quoted(from)}`, `rename to ${quoted(path)}`)
  const header = toBinary(new TextEncoder().encode(head.map((line) => `${line}\n`).join("")))
  if (before?.bytes.includes(0) || after?.bytes.includes(0)) return `${header}Binary files differ\n`
  const names = {
    fromFile: before === undefined ? "/dev/null" : binaryName(oldName),
    toFile: after === undefined ? "/dev/null" : binaryName(newName),
  }
  const none = new Uint8Array()
  return header + TextDiff.unified(TextDiff.lines(toBinary(before?.bytes ?? none), toBinary(after?.bytes ?? none), options), names)
}

const modesOf = (old: number | undefined, fresh: number | undefined): ReadonlyArray<string> => {
  if (old === undefined) return [`new file mode ${gitMode(fresh)}`]
  if (fresh === undefined) return [`deleted file mode ${gitMode(old)}`]
  return gitMode(old) === gitMode(fresh) ? [] : [`old mode ${gitMode(old)}`, `new mode ${gitMode(fresh)}`]
}

const gitMode = (mode: number | undefined): string => ((mode ?? 0) & 0o100 ? "100755" : "100644")

const binaryName = (name: string): string => toBinary(new TextEncoder().encode(quoted(name)))

const quoted = (name: string): string =>
  /[\x00-\x1f"\\\x7f]/u.test(name)
    ? `"${name.replace(/[\x00-\x1f"\\\x7f]/gu, (unit) => `\\${unit.charCodeAt(0).toString(8).padStart(3, "0")}`)}"`
    : name
