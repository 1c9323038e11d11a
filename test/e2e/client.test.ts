/** The package as a program of somebody else uses it: `codespace/client` with its types, beside effect. */
import { execFile, execFileSync } from "node:child_process"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { afterAll, beforeAll, expect, it } from "vitest"
import { credentialOf, rootOf } from "../support/OperatorSide.ts"
import { type Home, makeHome, type Served, serve } from "../support/Program.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const opened = {} as { home: Home; served: Served; project: string }

const program = (more = "") => `
import { connect, NotFound } from "codespace/client"
import { Effect } from "effect"

const main = Effect.gen(function* () {
  const operator = yield* connect({ url: process.argv[2] ?? "", credential: process.argv[3] ?? "" })
  const { workspaces } = yield* operator.workspaces.list()
  const { works } = yield* operator.inbox.list()
  const missing = yield* Effect.flip(operator.inbox.show({ params: { work_id: "work_none" } }))
  const queued: ReadonlyArray<number> = works.map((work) => work.queued)
  return { workspaces, queued, missing: missing instanceof NotFound ? missing.code : missing._tag }
})
${more}
process.stdout.write(JSON.stringify(await Effect.runPromise(main)))
`

beforeAll(async () => {
  opened.home = makeHome({})
  opened.served = await serve(opened.home)
  opened.project = join(opened.home.home, "project")
  mkdirSync(join(opened.project, "node_modules", "@types"), { recursive: true })
  symlinkSync(root, join(opened.project, "node_modules", "codespace"))
  for (const name of ["effect", "@types/node"]) symlinkSync(join(root, "node_modules", name), join(opened.project, "node_modules", name))
  writeFileSync(join(opened.project, "package.json"), '{ "type": "module" }')
  writeFileSync(
    join(opened.project, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: { module: "nodenext", target: "es2024", strict: true, noEmit: true, types: ["node"], skipLibCheck: true },
    }),
  )
})
afterAll(async () => {
  await opened.served.stop()
  opened.home.remove()
})

const check = (text: string): string => {
  writeFileSync(join(opened.project, "main.ts"), text)
  try {
    execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", "."], { cwd: opened.project, encoding: "utf8" })
    return ""
  } catch (error) {
    return (error as { readonly stdout: string }).stdout
  }
}

it("is typed, and says what the server says", async () => {
  expect(check(program())).toBe("")
  const { stdout } = await promisify(execFile)(process.execPath, ["main.ts", rootOf(opened.served), credentialOf(opened.home)], {
    cwd: opened.project,
  })
  expect(JSON.parse(stdout)).toEqual({
    workspaces: [{ workspace_id: "app", profile: "workspace-write" }],
    queued: [],
    missing: "WORK_NOT_FOUND",
  })
})

it("lets the compiler find a field that no answer has", () => {
  const wrong = "export const nothing = Effect.flatMap(connect({ url: '', credential: '' }), (operator) => operator.inbox.forget())"
  expect(check(program(wrong))).toContain("forget")
})
