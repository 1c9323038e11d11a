/** The journal of patches: the plan that lies on disk while one is made, and what became of one afterwards. */
import { Schema } from "effect"
import { Version } from "./Files.ts"
import { Delta } from "./Patch.ts"
import { ConfinedPath } from "./Workspace.ts"

/** Where a file of a transaction lies that is not yet, or no longer, at its target. */
export const JournalPlace = Schema.Struct({ root: Schema.Literals(["journal", "workspace"]), path: ConfinedPath })
export type JournalPlace = typeof JournalPlace.Type

/** One path of a plan. The inodes tell whose file is at the path after a crash. */
export const JournalTarget = Schema.Struct({
  path: ConfinedPath,
  /** The file that comes; absent for a path that goes. */
  fresh: Schema.optionalKey(Schema.Struct({ place: JournalPlace, inode: Schema.Finite, version: Version })),
  /** The file that was there, under its second name; absent for a path where nothing was. */
  old: Schema.optionalKey(Schema.Struct({ place: JournalPlace, inode: Schema.Finite })),
  /** Folders to make for it, outermost first. */
  missing: Schema.Array(ConfinedPath),
})
export type JournalTarget = typeof JournalTarget.Type

/** A transaction whose every file lies ready: from here on it can be undone by whoever reads this. */
export const JournalPlan = Schema.Struct({
  durable: Schema.Boolean,
  /** A command decides about it, and may change the same files while it does. */
  verifies: Schema.Boolean,
  targets: Schema.Array(JournalTarget),
  delta: Delta,
  /** Paths that could not be put back; set when a person has to look. */
  left: Schema.optionalKey(Schema.Array(Schema.String)),
})
export type JournalPlan = typeof JournalPlan.Type

/** What became of a recorded operation that nobody was told about. */
export type Outcome =
  /** It happened whole; this is its result. */
  | { readonly kind: "committed"; readonly delta: Delta }
  /** Every file is as it was. */
  | { readonly kind: "rolled_back" }
  /** These paths could not be put back. */
  | { readonly kind: "attention"; readonly paths: ReadonlyArray<string> }
  /** Its changes are not kept in a journal. */
  | { readonly kind: "unknown" }
