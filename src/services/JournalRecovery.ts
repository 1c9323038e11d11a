/**
 * Brings a workspace into order after a server that died: each transaction in its journal folder is either known to have
 * happened, or undone. What became of those that an operation was recorded for stays there as a mark until it is
 * acknowledged. Broken off anywhere, it can begin again.
 */
import { Effect } from "effect"
import type { Version } from "../schema/Files.ts"
import type { JournalPlan, JournalTarget } from "../schema/Journal.ts"
import { ConfinedPath } from "../schema/Workspace.ts"
import type { Entry, PathFailure, Root } from "./Disk.ts"
import {
  conclude,
  type Journaled,
  type Mark,
  readMark,
  readPlaces,
  removeIfThere,
  removeMark,
  removePrivateFolder,
} from "./JournalMarks.ts"
import { undo } from "./PatchUndo.ts"
import { folderOf } from "./PrivateFolder.ts"

/** Whether a transaction belongs to a recorded operation; others have nobody who would ask. */
export const isRecorded = (name: string): boolean => name.startsWith("op_")

export interface Recovering {
  readonly workspace: Root
  readonly journal: Root
  readonly versionOf: (bytes: Uint8Array) => Version
}

/** Settles every transaction in a journal folder whose server is gone. */
export const recoverFolder = Effect.fn("JournalRecovery.recoverFolder")(function* (recovering: Recovering) {
  const files = (yield* recovering.journal.list(ConfinedPath.make(""))).map(({ name }) => name)
  for (const [name, own] of Map.groupBy(files, nameOf)) {
    const marks = new Set(own.map((file) => file.slice(name.length + 1)))
    yield* settle(recovering, { folder: recovering.journal, name }, marks)
  }
})

const nameOf = (file: string): string => file.slice(0, file.lastIndexOf("."))

const settle = Effect.fnUntraced(function* (recovering: Recovering, journaled: Journaled, marks: ReadonlySet<string>) {
  // What a person has to look at keeps its files.
  if (marks.has("stuck")) return
  const outcome = marks.has("done") ? "done" : marks.has("undone") ? "undone" : yield* undoPlan(recovering, journaled)
  if (outcome === "stuck") return
  yield* removeFiles(recovering, journaled, marks)
  if (!isRecorded(journaled.name) && outcome !== undefined) yield* removeMark(journaled, outcome)
})

/** Undoes a transaction that was prepared and not finished. One that was never prepared has changed nothing. */
const undoPlan = Effect.fnUntraced(function* (
  recovering: Recovering,
  journaled: Journaled,
): Effect.fn.Return<Mark | undefined, PathFailure> {
  const plan = yield* readMark(journaled, "plan")
  if (plan === undefined) return undefined
  const isOurs = plan.verifies ? () => Effect.succeed(true) : sameFile(recovering)
  const left = yield* undo({ ...recovering, isOurs, hasMade: () => true }, plan.targets)
  yield* Effect.logInfo("a patch that a server left unfinished was undone", journaled.name, ...left)
  if (plan.durable) yield* syncTargets(recovering.workspace, plan)
  if (left.length === 0) {
    yield* conclude(journaled, "undone", plan.durable)
    return "undone"
  }
  yield* conclude(journaled, "stuck", plan.durable, { ...plan, left })
  return "stuck"
})

/** The same file with the same content: what somebody has edited since is theirs. */
const sameFile = (recovering: Recovering) =>
  Effect.fnUntraced(function* ({ fresh, path }: JournalTarget, now: Entry) {
    if (fresh === undefined || now.kind !== "file" || now.inode !== fresh.inode) return false
    const { bytes } = yield* recovering.workspace.readFile(path)
    return recovering.versionOf(bytes) === fresh.version
  })

/** All but the marks, which say what became of it. The plan goes before what it names. */
const removeFiles = Effect.fnUntraced(function* (recovering: Recovering, journaled: Journaled, marks: ReadonlySet<string>) {
  if (marks.has("done")) yield* removeMark(journaled, "plan")
  for (const folder of yield* readPlaces(journaled)) yield* removePrivateFolder(recovering.workspace, folder)
  const kept: ReadonlySet<string> = new Set<Mark>(["done", "undone"])
  for (const mark of marks) if (!kept.has(mark)) yield* removeIfThere(journaled.folder, ConfinedPath.make(`${journaled.name}.${mark}`))
})

/** Makes what was done to the targets' folders outlast a power cut. */
export const syncTargets = Effect.fnUntraced(function* (workspace: Root, { targets }: Pick<JournalPlan, "targets">) {
  const folders = new Set(targets.flatMap(({ missing, path }) => [folderOf(path), ...missing.map(folderOf)]))
  for (const folder of folders) yield* workspace.syncDirectory(folder).pipe(Effect.catchTag("PATH_NOT_FOUND", () => Effect.void))
})
