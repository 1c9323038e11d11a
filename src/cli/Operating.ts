/**
 * The operator's API as commands use it: of a server that listens, or over the records in the state folder, where no server
 * has to run. Whoever may read that folder is the operator.
 */
import { Context, Effect, Layer } from "effect"
import type { AppConfig } from "../services/AppConfig.ts"
import { type Asked, configOption } from "./Command.ts"
import { configured } from "./Prepare.ts"

export const operatorOptions = {
  ...configOption,
  url: { value: "URL", summary: "ask a server that runs there, such as http://127.0.0.1:8787, with the credential of the state folder" },
} as const

/** The typed client; what it needs is loaded with it. */
export const operating = Effect.fnUntraced(function* ({ options: { url, ...options } }: Asked<typeof operatorOptions>) {
  const config = yield* configured({ args: [], options }, "workspaces optional")
  const { connect } = yield* Effect.promise(() => import("../operator/Client.ts"))
  if (url !== undefined) return yield* connect({ url, credential: yield* credentialIn(config) })
  return yield* connect({ url: "http://localhost", credential: "", fetch: yield* inProcess(config) })
})

const credentialIn = Effect.fnUntraced(function* ({ stateFolder }: AppConfig["Service"]) {
  const [{ CredentialFile }, file] = yield* Effect.promise(() =>
    Promise.all([import("../services/Operator.ts"), import("../layers/CredentialFile.ts")]),
  )
  const { path, read } = Context.get(yield* Layer.build(file.layer(stateFolder)), CredentialFile)
  const found = yield* read
  if (found._tag === "Some") return found.value
  return yield* Effect.fail({ _tag: "NoCredential", message: `there is no credential in ${path}: has this user's server ever run?` })
})

/** Answers requests in this process. Nothing of a workspace is opened for it. */
const inProcess = Effect.fnUntraced(function* (config: AppConfig["Service"]) {
  const [{ layerOperatorRecords }, routes, { OperatorTools }, { HttpRouter }, { RunnerUnavailable }] = yield* Effect.promise(() =>
    Promise.all([
      import("../layers/App.ts"),
      import("../operator/Routes.ts"),
      import("../operator/OperatorTools.ts"),
      import("effect/http"),
      import("../schema/Operation.ts"),
    ]),
  )
  const cause = "no server was asked, and only one that runs knows about that; give its address with --url"
  const tools = Layer.succeed(OperatorTools, { call: () => Effect.fail(new RunnerUnavailable({ cause })) })
  const records = yield* Layer.build(Layer.merge(layerOperatorRecords(config), tools))
  const { handler } = yield* Effect.acquireRelease(
    Effect.sync(() =>
      HttpRouter.toWebHandler(routes.layer(() => Effect.succeed(true)).pipe(Layer.provide(Layer.succeedContext(records))), {
        disableLogger: true,
      }),
    ),
    ({ dispose }) => Effect.promise(dispose),
  )
  return (input: string | URL | Request, init?: RequestInit) => handler(new Request(input, init))
})
