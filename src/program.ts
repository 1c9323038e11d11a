/**
 * All that performs calls, joined: the tools over the control side over the workspace side, and the HTTP edge. The
 * control side is built by the first call, so a server whose store cannot be opened still starts, lists its tools and
 * says what is wrong.
 */
import { Context, Effect, type Exit, type Fiber, FiberSet, Layer, Option, Scope, Semaphore } from "effect"
import { layerControl, layerOperator } from "./layers/App.ts"
import { namesCollector } from "./layers/HostEnvironment.ts"
import { makeCall } from "./mcp/CallTool.ts"
import { type ListedTool, rowsOf } from "./mcp/ToolList.ts"
import { callOn, layerGatedTools, workspaceTools } from "./mcp/Tools.ts"
import type { ToolTable } from "./mcp/ToolTable.ts"
import type { IsOperator } from "./operator/Door.ts"
import { StoreUnavailable } from "./schema/Operation.ts"
import type { AppConfig } from "./services/AppConfig.ts"
import { Approvals } from "./services/Approvals.ts"
import { Authorizations } from "./services/Authorizations.ts"
import { Caller } from "./services/Caller.ts"
import { Callers } from "./services/Callers.ts"
import { ClientDocuments } from "./services/ClientDocuments.ts"
import { Operator } from "./services/Operator.ts"
import { Works } from "./services/Works.ts"

export interface HttpRequest {
  readonly table: ToolTable
  /** Makes a new token for the person at this machine; the old one stops working. */
  readonly newToken: boolean
  /** Instead of the configured one. */
  readonly port?: number
}

/** The program for one configuration; it lives as long as the scope. */
export const makeProgram = Effect.fnUntraced(function* (
  config: AppConfig["Service"],
  list: ReadonlyArray<ListedTool>,
  log: (line: string) => void,
) {
  const control = yield* onDemand(
    Effect.map(Layer.build(layerControl({ workspaceTools, layerGatedTools }, config)), (services) => ({
      works: Context.get(services, Works),
      approvals: Context.get(services, Approvals),
      call: callOn(services),
      callers: Context.get(services, Callers),
      services,
    })),
  )
  // Made after the control side's scope, so that at the end calls are over before what they use closes.
  const traced = namesCollector() ? yield* (yield* Effect.promise(() => import("./layers/Traces.ts"))).tracing(log) : Context.empty()
  const fork = yield* Effect.provideContext(FiberSet.makeRuntime<never>(), traced)
  const rows = rowsOf(list, (name, args) => Effect.flatMap(control, ({ call }) => call(name, args)))

  /** The operator's API over the control side; who is the operator, whoever serves it knows. */
  const operatorApi = Effect.fnUntraced(function* (isOperator: IsOperator) {
    const { call, services } = yield* control
    const [routes, { OperatorTools }] = yield* Effect.promise(() =>
      Promise.all([import("./operator/Routes.ts"), import("./operator/OperatorTools.ts")]),
    )
    const tools = OperatorTools.of({
      call: (name, args) =>
        Effect.provideService(
          Effect.map(call(name, args), ({ result }) => result),
          Caller,
          operatorCaller,
        ),
    })
    return routes.layer(isOperator).pipe(Layer.provide(Layer.succeedContext(Context.add(services, OperatorTools, tools))))
  })

  /** Listens until the scope ends; answers with what to tell the person who started it. */
  const serveHttp = Effect.fnUntraced(function* ({ newToken, port, table }: HttpRequest) {
    const { approvals, callers, services } = yield* control
    const token = yield* ownersToken(callers, newToken)
    const [http, { approvalRoutes }, { clientLogin }, { isOperator }, { loginRoutes }, { welcome }, Login] = yield* Effect.promise(() =>
      Promise.all([
        import("./mcp/Http.ts"),
        import("./mcp/ApprovalPage.ts"),
        import("./mcp/ClientLogin.ts"),
        import("./mcp/OperatorDoor.ts"),
        import("./mcp/OperatorLogin.ts"),
        import("./mcp/ClientSetup.ts"),
        import("./layers/Login.ts"),
      ]),
    )
    const own = yield* Effect.provideContext(Layer.build(Layer.merge(layerOperator(config.stateFolder), Login.layer)), services)
    const operator = Context.get(own, Operator)
    const { routes, ...login } = clientLogin(config, {
      callers,
      operator,
      authorizations: Context.get(own, Authorizations),
      documents: Context.get(own, ClientDocuments),
    })
    const api = yield* operatorApi((request) => isOperator(operator, request))
    const options = {
      ...config.http,
      perCaller: config.http.per_caller,
      ...login,
      ...(port === undefined ? {} : { port }),
      table,
      operator,
      log,
    }
    const server = yield* Layer.build(
      http.layer(options, Layer.mergeAll(loginRoutes(operator), approvalRoutes(operator, approvals), routes, api)),
    )
    return welcome(http.endpointOf(server), token, [...config.workspaces.keys()])
  })

  const coordination = (workId: string) =>
    Effect.orElseSucceed(
      Effect.flatMap(control, ({ works }) => works.coordination(workId)),
      () => undefined,
    )

  const approvals = Effect.map(control, (built) => built.approvals)
  const run = <A, E>(effect: Effect.Effect<A, E>, signal: AbortSignal) => settled(fork(effect), signal)
  return { call: makeCall({ rows, run, coordination, approvals, log }), serveHttp, operatorApi }
})

/** A fiber's end as a promise; the signal interrupts it. */
const settled = <A, E>(fiber: Fiber.Fiber<A, E>, signal: AbortSignal): Promise<Exit.Exit<A, E>> =>
  new Promise((resolve) => {
    const interrupt = () => fiber.interruptUnsafe()
    if (signal.aborted) interrupt()
    else signal.addEventListener("abort", interrupt)
    fiber.addObserver((exit) => {
      signal.removeEventListener("abort", interrupt)
      resolve(exit)
    })
  })

/**
 * Builds something when it is first asked for and keeps it until the scope ends. A failure is not kept: a store that was
 * locked or full is tried again by the next call.
 */
const onDemand = Effect.fnUntraced(function* <A, E extends { readonly message: string }>(build: Effect.Effect<A, E, Scope.Scope>) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const building = yield* Semaphore.make(1)
  const kept: { value?: A } = {}
  const once = Effect.suspend(() =>
    kept.value !== undefined
      ? Effect.succeed(kept.value)
      : Scope.provide(build, scope).pipe(
          Effect.tap((value) => Effect.sync(() => Object.assign(kept, { value }))),
          Effect.mapError((error) => new StoreUnavailable({ cause: error.message })),
        ),
  )
  return Effect.suspend(() => (kept.value !== undefined ? Effect.succeed(kept.value) : building.withPermits(1)(once)))
})

/** The operator at the API or the command line, as a caller of tools that look and stop. */
const operatorCaller = Caller.of({ name: "operator", workspaces: undefined, client: "the operator's API", progress: () => Effect.void })

const OWNER = "owner"

/** The first start makes a token for the person at this machine; later ones only on request. Undefined when it is kept. */
export const ownersToken = Effect.fnUntraced(
  function* (callers: Callers["Service"], newToken: boolean) {
    if (!newToken && Option.isSome(yield* callers.byName(OWNER))) return undefined
    return yield* callers.admit({ name: OWNER, trust_prompts: false }, { replace: true })
  },
  Effect.catchTag("CallerExists", Effect.die),
)
