/**
 * The Runner that asks a worker behind a Unix socket. A recorded call that was under way when the worker died gets its true
 * outcome from the worker that takes its place; nothing is performed twice.
 */
import { Deferred, Effect, FiberSet, Layer, Option, Schedule } from "effect"
import { Cancelled, RunnerUnavailable } from "../schema/Operation.ts"
import { PatchFailed } from "../schema/Patch.ts"
import type { Refusal } from "../schema/Refusal.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import type { WorkspaceSettings } from "../services/AppConfig.ts"
import { type CutOperation, type CutOutcome, type Reply, Runner, type RunRequest } from "../services/Runner.ts"
import type { ServerIdentity } from "../services/ServerIdentity.ts"
import { WorkerHost, type WorkerSettings } from "../services/WorkerHost.ts"
import { type LineBroke, type Link, make as makeLinks, orBroken, type Patience, patience } from "./Link.ts"
import type { WireOutcome, WireReply } from "./Wire.ts"

/** How long an interrupted call is waited for, in milliseconds: it ends its process or rolls back its patch. */
const OVER_WITHIN = 15_000
/** How long the last acknowledgements are waited for at the end, in milliseconds. */
const ACKNOWLEDGED_WITHIN = 1000
/** Milliseconds between questions for an outcome that is not there yet, and when nobody could be asked. */
const ASK_EVERY = 20
const RETRY_EVERY = 200

/** One worker for the workspaces of its environment. */
export const layer = (
  settings: WorkerSettings,
  workspaces: ReadonlyArray<WorkspaceSettings>,
  look: Patience = patience,
): Layer.Layer<Runner, never, WorkerHost | ServerIdentity> => Layer.effect(Runner, make(settings, workspaces, look))

const make = Effect.fnUntraced(function* (settings: WorkerSettings, workspaces: ReadonlyArray<WorkspaceSettings>, look: Patience) {
  const host = yield* WorkerHost
  const links = yield* makeLinks(settings, workspaces, look)
  const closing = Deferred.makeUnsafe<void>()
  let calls = 0

  const acknowledging = yield* FiberSet.make()
  yield* Effect.addFinalizer(() => Effect.timeoutOption(FiberSet.awaitEmpty(acknowledging), ACKNOWLEDGED_WITHIN))
  yield* Effect.addFinalizer(() => Deferred.succeed(closing, undefined))

  const askOutcomes = Effect.fnUntraced(function* (workspaceId: WorkspaceId, cut: ReadonlyArray<CutOperation>) {
    yield* host.clear
    const { client } = yield* links.current
    return yield* orBroken(client("outcomes", { workspaceId, cut }))
  })

  const outcomes = Effect.fnUntraced(function* (workspaceId: WorkspaceId, cut: ReadonlyArray<CutOperation>) {
    const known = yield* askOutcomes(workspaceId, cut).pipe(
      Effect.retry({ while: ({ _tag }) => _tag === "LineBroke", times: 2 }),
      Effect.catchTag("LineBroke", () => Effect.fail(new RunnerUnavailable({ cause: "its worker ended while it looked" }))),
    )
    return new Map(Object.entries(known).map(([id, outcome]) => [id, outcomeOf({ operationId: id, workspaceId }, outcome)]))
  })

  /**
   * The end of an operation that left a process running. With the worker the process is gone too. Interrupted where the
   * process goes on without this server.
   */
  const ending = ({ operationId, workspaceId }: Place, last: Reply["result"]): Effect.Effect<Reply["result"]> =>
    Effect.gen(function* () {
      const { client } = yield* links.current
      const { result } = yield* orBroken(client("ended", { operationId }))
      return result ?? lost(last)
    }).pipe(
      Effect.retry({ while: ({ _tag }) => _tag === "LineBroke", schedule: Schedule.spaced(ASK_EVERY), times: 5 }),
      Effect.catch(() => Effect.succeed(lost(last))),
      settings.lifetime === "detached" ? Effect.raceFirst(Effect.andThen(Deferred.await(closing), Effect.interrupt)) : (same) => same,
      Effect.annotateLogs({ operationId, workspaceId }),
    )

  const replyOf = (place: Place | undefined, { goesOn, image, result }: WireReply): Reply => ({
    result,
    ...(image === undefined ? {} : { image }),
    ...(goesOn === true && place !== undefined ? { ending: ending(place, result) } : {}),
  })

  const outcomeOf = (place: Place, outcome: WireOutcome): CutOutcome =>
    outcome.kind === "replied" ? { ...outcome, reply: replyOf(place, outcome.reply) } : outcome

  /** What became of a call whose worker died. Whatever is not in the journal may have happened. */
  const afterBreak = Effect.fnUntraced(function* ({ operationId, tool, workspaceId }: RunRequest): Effect.fn.Return<Reply, Refusal> {
    if (operationId === undefined) return yield* new RunnerUnavailable({ cause: "its worker ended during the call" })
    const place = { operationId, workspaceId }
    const known = yield* outcomes(workspaceId, [{ operationId, tool }]).pipe(
      Effect.repeat({ until: (found) => found.has(operationId), schedule: Schedule.spaced(ASK_EVERY) }),
      // A refusal that says "later" would let the call run again, and it may have run.
      Effect.retry(Schedule.spaced(RETRY_EVERY)),
      Effect.timeoutOption(look.line),
      Effect.orElseSucceed(() => Option.none()),
    )
    const outcome = Option.isSome(known) ? known.value.get(place.operationId) : undefined
    switch (outcome?.kind) {
      case "replied":
        return outcome.reply
      case "committed":
        return { result: { ...outcome.delta, notes: [...(outcome.delta.notes ?? []), "its worker ended after the patch was complete"] } }
      case "rolled_back":
        return yield* new RunnerUnavailable({ cause: "its worker ended during the patch, which was rolled back: every file is as it was" })
      case "attention":
        return yield* new PatchFailed({ status: "failed_partial", cause: "its worker ended", paths: outcome.paths })
      default:
        return yield* new Cancelled({ cause: "its worker ended before it answered" })
    }
  })

  const execute = Effect.fnUntraced(function* (request: RunRequest): Effect.fn.Return<Reply, Refusal> {
    const { client }: Link = yield* links.current
    const call = ++calls
    const place = request.operationId === undefined ? undefined : { operationId: request.operationId, workspaceId: request.workspaceId }
    return yield* orBroken<WireReply, Refusal>(client("execute", { call, ...request })).pipe(
      Effect.onInterrupt(() => Effect.ignore(Effect.timeoutOption(client("over", { call }), OVER_WITHIN))),
      Effect.map((reply) => replyOf(place, reply)),
      Effect.catchIf(
        (error): error is LineBroke => error._tag === "LineBroke",
        () => afterBreak(request),
      ),
    )
  })

  return Runner.of({
    execute,
    outcomes,
    // Said before anything that is said later, and not waited for: to forget too late does no harm, and the call would wait.
    acknowledge: (workspaceId, operation) => {
      const link = links.usable()
      if (link === undefined) return Effect.void
      const said = Effect.ignore(orBroken(link.client("acknowledge", { workspaceId, operation })))
      return Effect.asVoid(FiberSet.run(acknowledging, said, { startImmediately: true }))
    },
  })
})

interface Place {
  readonly operationId: string
  readonly workspaceId: WorkspaceId
}

/** The last that is known of a process, once nobody knows it any more. */
const lost = (last: Reply["result"]): Reply["result"] => ({
  ...last,
  state: "lost",
  notes: [...(Array.isArray(last["notes"]) ? last["notes"] : []), "its worker ended, and the process with it"],
})
