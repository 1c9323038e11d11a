/** Looks into the files of one workspace: read a page, find by name, search by text. Every answer is bounded and says what it leaves out. */
import { Cache, Context, Effect, Layer } from "effect"
import type { FindArguments, FindResult, ReadArguments, SearchArguments, SearchResult } from "../schema/Files.ts"
import type { Refusal } from "../schema/Refusal.ts"
import { Digest } from "./Digest.ts"
import { type DiskFault, refusalOf } from "./Disk.ts"
import { findPaths } from "./FileFind.ts"
import { type ReadReply, readPage } from "./FileRead.ts"
import { leftOutOf, type Scanned, searchFiles } from "./FileSearch.ts"
import { TextSearch } from "./TextSearch.ts"
import { Workspace } from "./Workspace.ts"

export class Files extends Context.Service<
  Files,
  {
    /** A page of a file by lines or bytes, with the version of the whole; an image comes beside the result, base64. */
    readonly read: (args: ReadArguments) => Effect.Effect<ReadReply, Refusal>
    /** Paths that match a glob, sorted by code units. Takes 10 seconds at most, then says so. */
    readonly find: (args: FindArguments) => Effect.Effect<FindResult, Refusal>
    /** Matching lines, sorted by path and line. Takes 20 seconds at most, then says so. What was left out is counted twice a minute at most. */
    readonly search: (args: SearchArguments) => Effect.Effect<SearchResult, Refusal>
  }
>()("codespace/services/Files") {
  static readonly layer: Layer.Layer<Files, never, Workspace | Digest | TextSearch> = Layer.effect(
    Files,
    Effect.gen(function* () {
      const workspace = yield* Workspace
      const digest = yield* Digest
      const engine = yield* TextSearch
      const leftOut = yield* Cache.make({
        capacity: 64,
        timeToLive: "30 seconds",
        lookup: (scanned: Scanned) => leftOutOf(workspace, scanned),
      })
      return Files.of({
        // No span of its own: the call has one, and a small read takes less time than another.
        read: (args) => inWords(readPage(workspace, digest, args)),
        find: Effect.fn("Files.find")((args) => findPaths(workspace, args), inWords),
        search: Effect.fn("Files.search")(
          (args) => searchFiles(workspace, engine, (scanned) => Cache.get(leftOut, scanned), args),
          inWords,
        ),
      })
    }),
  )
}

/** Faults of the disk as refusals; the rest are refusals already. */
const inWords = <A>(effect: Effect.Effect<A, Refusal | DiskFault>): Effect.Effect<A, Refusal> =>
  Effect.catchTag(effect, "DiskFault", (fault) => Effect.fail(refusalOf(fault)))
