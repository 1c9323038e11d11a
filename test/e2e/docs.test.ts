/** What the docs show is what happens: their code is checked and run. */
import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { inspect } from "node:util"
import { afterAll, describe, expect, it, vi } from "vitest"

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
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ extends: "../../tsconfig.json", compilerOptions, include: ["block*.ts"] }))
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
