import { createServer } from "node:http"
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { NODE, profileOf, whyUnconfined, workshop } from "../support/Confining.ts"
import { listenOn } from "../support/Proxying.ts"

if (whyUnconfined !== undefined) console.warn(`SandboxNetworks.test.ts confines nothing: ${whyUnconfined}`)

const test = (name: string, body: () => Effect.Effect<void, unknown, Scope.Scope>) => it.live(name, () => Effect.scoped(body()))

/** A server of this machine that says what it was asked. */
const origin = Effect.acquireRelease(
  Effect.promise(() => listenOn(createServer((request, response) => response.end(`${request.method} ${request.url}`)))),
  (server) => Effect.promise(server.close),
)

const node = `./${NODE} -e`
const serving = `${node} 'require("node:http").createServer((q, a) => a.end("served")).listen(5173, "127.0.0.1", () => console.log("ready"))'`
const fetching = (url: string) =>
  `${node} 'fetch("${url}").then(async (r) => console.log(r.status, await r.text()), (e) => console.log("failed", e.cause?.code))'`

describe.skipIf(whyUnconfined !== undefined)("the network of a confined command", { timeout: 60_000 }, () => {
  test("when it is off: what it tried is a fact of its result, and no fault of the name service (R099)", () =>
    Effect.gen(function* () {
      const { run } = yield* workshop({ profile: profileOf("off") })
      assert.isUndefined((yield* run("true")).network_denials)
      const facts = yield* run("getent hosts example.org; exec 3<>/dev/tcp/192.0.2.1/80")
      assert.include(facts.output, "Network is unreachable")
      const [denial] = facts.network_denials ?? []
      assert.deepInclude(denial, { reason: 'network: off (profile "test")' })
      assert.isAtLeast(denial?.count ?? 0, 2)
      assert.match(facts.notes?.[0] ?? "", /^network: disabled by profile "test" \(network: off\): the kernel refused \d+ attempts/u)
    }))

  test("reaches a server of an earlier command where the profile says loopback, and nothing of this machine's (R098)", () =>
    Effect.gen(function* () {
      const { port } = yield* origin
      const { putNode, run, start, supervisor } = yield* workshop({ profile: profileOf("loopback") })
      putNode()
      const id = yield* start(["bash", "-c", serving], { access: "shared" })
      yield* supervisor.read(id, { waitMs: 20_000, until: "ready", maxBytes: 100, view: "follow" })
      const both = yield* run(`${fetching("http://127.0.0.1:5173/")}; ${fetching(`http://127.0.0.1:${port}/`)}; getent hosts example.org`)
      assert.strictEqual(both.output, "200 served\nfailed ECONNREFUSED\n")
      assert.include(both.notes?.[0] ?? "", "(network: loopback)")
      yield* supervisor.terminate(id, 0)
    }))

  test("is each command's own where it is off, and this machine's where it is on (R098)", () =>
    Effect.gen(function* () {
      const { port } = yield* origin
      const off = yield* workshop({ profile: profileOf("off") })
      off.putNode()
      const id = yield* off.start(["bash", "-c", serving], { access: "shared" })
      yield* off.supervisor.read(id, { waitMs: 20_000, until: "ready", maxBytes: 100, view: "follow" })
      assert.strictEqual((yield* off.run(fetching("http://127.0.0.1:5173/"))).output, "failed ECONNREFUSED\n")
      yield* off.supervisor.terminate(id, 0)
      const on = yield* workshop({ profile: profileOf("on") })
      on.putNode()
      assert.strictEqual((yield* on.run(fetching(`http://127.0.0.1:${port}/x`))).output, "200 GET /x\n")
    }))

  test("is a proxy to the hosts of a list, from the first moment on, and says what it refused (R099)", () =>
    Effect.gen(function* () {
      const { port } = yield* origin
      const { putNode, run, start, supervisor } = yield* workshop({
        profile: profileOf({ allow: [{ host: `127.0.0.1:${port}`, reason: "the test's own" }] }),
      })
      putNode()
      const asking = (host: string) =>
        `exec 3<>/dev/tcp/\${http_proxy:7:-5}/\${http_proxy##*:}; printf 'GET http://${host}/x HTTP/1.1\\r\\nHost: ${host}\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -1 <&3`
      const fine = yield* run(asking(`127.0.0.1:${port}`))
      assert.include(fine.output, "200")
      assert.isUndefined(fine.network_denials)
      const rule = `rule 127.0.0.1:${port} (the test's own)`
      assert.deepStrictEqual(fine.network_verdicts, [{ verdict: "allowed", host: "127.0.0.1", port, reason: rule, count: 1 }])
      const refused = yield* run(
        `${asking("denied.example")}; ${fetching("http://192.0.2.1/")}; NODE_USE_ENV_PROXY= http_proxy= ${fetching("http://192.0.2.2/")}`,
      )
      assert.include(refused.output, "403")
      assert.deepInclude(refused.network_denials?.[0], { host: "denied.example", port: 80 })
      assert.deepInclude(refused.network_denials?.[1], { host: "192.0.2.1", port: 80 })
      assert.match(refused.notes?.join("\n") ?? "", /does not allow denied\.example:80[\s\S]*reached through the proxy/u)
      const id = yield* start(["bash", "-c", serving], { access: "shared" })
      yield* supervisor.read(id, { waitMs: 20_000, until: "ready", maxBytes: 100, view: "follow" })
      assert.strictEqual((yield* run(fetching("http://127.0.0.1:5173/"))).output, "200 served\n")
      yield* supervisor.terminate(id, 0)
      assert.include((yield* run("sleep 0.1; env | grep -c 127.80")).output, "8")
    }))

  test("closes a command's proxy with it: nobody else reaches what it might", () =>
    Effect.gen(function* () {
      const { run } = yield* workshop({ profile: profileOf({ allow: ["127.0.0.1"] }) })
      const { output } = yield* run("echo $http_proxy")
      const address = /127\.80\.\d+\.\d+/u.exec(output)?.[0]
      assert.isString(address)
      assert.include((yield* run(`exec 3<>/dev/tcp/${address}/3128`)).output, "Connection refused")
    }))
})
