/** What the docs show is what happens: their code is checked and run. */
import { spawnSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { inspect } from "node:util"
import { afterAll, describe, expect, it, vi } from "vitest"
import { connect, main, makeHome, refusalOf, type ToolResult } from "../support/Program.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
// Below the repository, so that packages are found as an embedding program finds its own.
const folder = mkdtempSync(join(root, "test/.docs-"))
const home = mkdtempSync(join(tmpdir(), "codespace-docs-"))
const library = join(root, "src/library.ts")
const started = process.cwd()
afterAll(() => {
  process.chdir(started)
  for (const path of [folder, home]) rmSync(path, { recursive: true, force: true })
})

const page = (name: string) => readFileSync(join(root, "docs", name), "utf8")

/** The fenced blocks of a page in a language, `ts` or `ts test`. */
const blocks = (text: string, language: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "gm"))].map((found) => found[1] as string)

describe("docs/embedding.md", () => {
  const programs = blocks(page("embedding.md"), "ts")
  const tests = blocks(page("embedding.md"), "ts test")

  it("shows code that the compiler takes", () => {
    expect([programs.length, tests.length]).toEqual([3, 1])
    for (const [place, text] of [...programs, ...tests].entries()) writeFileSync(join(folder, `block${place}.ts`), `${text}export {}\n`)
    const compilerOptions = { noEmit: true, paths: { codespace: [library] } }
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({ extends: "../../tsconfig.json", compilerOptions, include: ["block*.ts"] }),
    )
    const { stdout } = spawnSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", folder], { encoding: "utf8" })
    expect(stdout).toBe("")
  }, 60_000)

  it("shows what the code prints", async () => {
    mkdirSync(join(home, "app"))
    writeFileSync(join(home, "app/greeting.txt"), "hello world\n")
    process.chdir(home)
    for (const [name, value] of Object.entries({ HOME: home, XDG_CONFIG_HOME: "", XDG_STATE_HOME: "", CODESPACE_CONFIG: "" }))
      vi.stubEnv(name, value)
    for (const [place, text] of programs.entries()) {
      const printed: Array<string> = []
      const spy = vi.spyOn(console, "log").mockImplementation((...values) => void printed.push(values.map(shown).join(" ")))
      const file = join(folder, `run${place}.ts`)
      writeFileSync(file, text.replaceAll('"codespace"', JSON.stringify(library)))
      await import(file)
      spy.mockRestore()
      expect(printed).toEqual([...text.matchAll(/^console\.log\(.*\) \/\/ (.*)$/gm)].map((found) => found[1]))
    }
    expect(readFileSync(join(home, "app/greeting.txt"), "utf8")).toBe("good morning world\n")
    vi.unstubAllEnvs()
  }, 60_000)

  describe("its tests", async () => {
    for (const [place, text] of tests.entries()) {
      const file = join(folder, `test${place}.ts`)
      writeFileSync(file, text.replaceAll('"codespace"', JSON.stringify(library)))
      await import(file)
    }
  })
})

const shown = (value: unknown) => (typeof value === "string" ? value : inspect(value))

interface Call {
  readonly name: string
  readonly arguments: Record<string, unknown>
}

/** The page's blocks in order: calls, each followed by what is shown of its answer. */
const session = (text: string) =>
  [...text.matchAll(/^```json (files|call|result|refusal)\n([\s\S]*?)^```$/gm)].map(([, kind = "", json = ""]) => ({ kind, json }))

/** Whether a value is what the page shows of it: `…` in a text stands for anything, and fields may be left out. */
const isShown = (shown: unknown, real: unknown): boolean => {
  if (typeof shown === "string" && typeof real === "string") {
    const parts = shown.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    return new RegExp(`^${parts.join("[\\s\\S]*")}$`).test(real)
  }
  if (Array.isArray(shown))
    return Array.isArray(real) && shown.length === real.length && shown.every((one, place) => isShown(one, real[place]))
  if (typeof shown === "object" && shown !== null)
    return (
      typeof real === "object" &&
      real !== null &&
      Object.entries(shown).every(([key, one]) => isShown(one, (real as Record<string, unknown>)[key]))
    )
  return shown === real
}

describe("docs/agents.md", () => {
  it("tells a session as it goes", async () => {
    const blocks = session(page("agents.md"))
    const made = makeHome(JSON.parse(blocks[0]?.json ?? "{}"))
    const connection = await connect("v2-2025", { stdio: made })
    const ids = new Map<string, string>()
    let calls = 0
    let answer: ToolResult | undefined
    for (const { json, kind } of blocks.slice(1)) {
      if (kind === "call") {
        const { arguments: given, name } = JSON.parse(
          json.replace(/"(op|proc)_…"/g, (_, prefix) => JSON.stringify(ids.get(prefix))),
        ) as Call
        answer = await connection.call(name, given)
        calls += 1
        for (const [, id = "", prefix = ""] of JSON.stringify(answer).matchAll(/"((op|proc)_[0-9a-z]+)"/g)) ids.set(prefix, id)
        continue
      }
      const real = kind === "result" ? answer?.structuredContent : refusalOf(answer as ToolResult)
      if (!isShown(JSON.parse(json), real)) expect(real).toEqual(JSON.parse(json))
    }
    await connection.close()
    made.remove()
    expect(calls).toBe(blocks.filter(({ kind }) => kind === "result" || kind === "refusal").length)
    expect(calls).toBeGreaterThan(9)
  })

  it("would notice an answer that differs", () => {
    expect(isShown({ a: "x…z", b: [1] }, { a: "x y z", b: [1], c: 2 })).toBe(true)
    for (const real of [{ a: "x", b: [1] }, { a: "x z", b: [1, 2] }, { a: "x z" }, undefined])
      expect(isShown({ a: "x…z", b: [1] }, real)).toBe(false)
  })
})

describe("docs/architecture.md", () => {
  it("shows a tool that works once it is in the list, with nothing else changed", async () => {
    const [tool = "", ...others] = blocks(page("architecture.md"), "ts tool")
    expect(others).toEqual([])
    const copy = join(folder, "copy")
    for (const name of ["src", "scripts", "package.json", "tsconfig.json"]) cpSync(join(root, name), join(copy, name), { recursive: true })
    writeFileSync(join(copy, "src/mcp/tools/words.ts"), tool)
    const list = join(copy, "src/mcp/Tools.ts")
    const listed = readFileSync(list, "utf8")
      .replace(/^import .* from "\.\/tools\/workspace\.ts"$/mu, '$&\nimport { countWords } from "./tools/words.ts"')
      .replace("  workspaceInfo,\n", "$&  countWords,\n")
    expect(listed.match(/countWords/gu)).toHaveLength(2)
    writeFileSync(list, listed)
    const run = (...args: ReadonlyArray<string>) => spawnSync(process.execPath, args, { cwd: copy, encoding: "utf8" })
    writeFileSync(join(copy, "tsconfig.own.json"), JSON.stringify({ extends: "./tsconfig.json", include: ["src"] }))
    expect(run(join(root, "node_modules/typescript/bin/tsc"), "-p", "tsconfig.own.json", "--noEmit").stdout).toBe("")
    expect(run("scripts/build.mjs")).toMatchObject({ status: 0 })

    const made = makeHome({ "a.txt": "one two\nthree\n" })
    const connection = await connect("v2-2025", { stdio: made }, join(copy, "dist/main.mjs"))
    expect((await connection.list()).map(({ name }) => name)).toContain("count_words")
    const answer = await connection.call("count_words", { workspace_id: "app", path: "a.txt" })
    expect(answer.structuredContent).toEqual({ path: "a.txt", words: 3, truncated: false })
    expect(answer.content[0]?.text).toBe("path: a.txt\nwords: 3\ntruncated: false")
    expect(refusalOf(await connection.call("count_words", { workspace_id: "app", path: "../b" }))?.code).toBe("PATH_ESCAPE")
    await connection.close()
    made.remove()
  }, 60_000)
})

describe("docs/operating.md", () => {
  it("shows commands that work", () => {
    const made = makeHome({ "a.txt": "a\n" })
    const bin = join(made.home, "bin")
    mkdirSync(bin)
    writeFileSync(join(bin, "codespace"), `#!/bin/sh\nexec ${process.execPath} ${main} "$@"\n`, { mode: 0o755 })
    const commands = blocks(page("operating.md"), "sh run").join("").trim().split("\n")
    expect(commands).toEqual(expect.arrayContaining(["codespace init .", "codespace doctor"]))
    for (const command of commands) {
      const { status, stderr, stdout } = spawnSync("sh", ["-c", command], {
        cwd: made.workspace,
        env: { ...made.env, PATH: `${bin}:${made.env.PATH}` },
        encoding: "utf8",
      })
      expect([command, status, stderr]).toEqual([command, 0, ""])
      expect(stdout).not.toBe("")
    }
    made.remove()
  }, 60_000)

  it("names every line of the doctor", () => {
    const made = makeHome({})
    const { stdout } = spawnSync(process.execPath, [main, "doctor", "--json"], { env: made.env, encoding: "utf8" })
    made.remove()
    const parts = (JSON.parse(stdout) as { readonly findings: ReadonlyArray<{ readonly part: string }> }).findings.map(({ part }) => part)
    expect(parts.filter((part) => !new RegExp(`^\\|.*\`${part}\`.*\\|`, "m").test(page("operating.md")))).toEqual([])
  })

  it("ships units that name the program and stop it whole", ({ skip }) => {
    const unit = page("codespace.service")
    expect(unit).toMatch(/^ExecStart=\/usr\/bin\/env codespace serve$/m)
    expect(unit).toMatch(/^KillMode=mixed$/m)
    expect(page("dev.codespace.serve.plist")).toMatch(/<key>Label<\/key>\s*<string>dev\.codespace\.serve<\/string>/)
    const verify = spawnSync("systemd-analyze", ["--user", "verify", join(root, "docs/codespace.service")], { encoding: "utf8" })
    if (verify.error !== undefined) return skip("systemd-analyze is not here, so nothing reads the unit")
    expect(verify.stderr.split("\n").filter((line) => line.includes("codespace.service") && !line.includes("Failed to"))).toEqual([])
  })
})

describe("the pages", () => {
  it("link to pages and files that are there", () => {
    const pages = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md"))
    const broken = [
      ...pages.map((name) => ["docs", name] as const),
      [".", "README.md"] as const,
      [".", "CONTRIBUTING.md"] as const,
    ].flatMap(([place, name]) =>
      [...readFileSync(join(root, place, name), "utf8").matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)]
        .map((found) => join(root, place, found[1] as string))
        .filter((target) => spawnSync("test", ["-e", target]).status !== 0)
        .map((target) => `${name}: ${target}`),
    )
    expect(broken).toEqual([])
  })
})
