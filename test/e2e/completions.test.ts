/** Completion scripts in the shells they are for. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { main } from "../support/Program.ts"

const folder = mkdtempSync(join(tmpdir(), "codespace-completions-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const run = (command: string, ...args: ReadonlyArray<string>) => spawnSync(command, args, { encoding: "utf8", cwd: folder })
const isHere = (shell: string) => run(shell, "-c", "true").status === 0
for (const shell of ["bash", "zsh", "fish"])
  if (!isHere(shell)) console.warn(`completions.test.ts: what ${shell} does is skipped: it is not installed`)

beforeAll(() => {
  for (const shell of ["bash", "zsh", "fish"]) writeFileSync(join(folder, shell), run(process.execPath, main, "completions", shell).stdout)
  writeFileSync(join(folder, "config.json"), "{}")
})

describe("codespace completions", () => {
  it("refuses a shell it does not know", () => {
    expect(run(process.execPath, main, "completions", "cmd")).toMatchObject({ status: 2, stdout: "" })
  })

  it.skipIf(!isHere("bash"))("completes commands, their options and files in bash", () => {
    const complete = (...words: ReadonlyArray<string>) => {
      const script = `source ./bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _codespace; printf '%s\\n' "\${COMPREPLY[@]}"`
      const { stderr, stdout } = run("bash", "-c", script, "bash", "codespace", ...words)
      expect(stderr).toBe("")
      return stdout.split("\n").filter((word) => word !== "")
    }
    expect(complete("")).toEqual(expect.arrayContaining(["mcp", "serve", "init", "doctor", "--help"]))
    expect(complete("ser")).toEqual(["serve"])
    expect(complete("serve", "--n")).toEqual(["--new-token"])
    expect(complete("mcp", "--config", "conf")).toEqual(["config.json"])
    expect(complete("serve", "--port", "")).toEqual([])
  })

  it.skipIf(!isHere("fish"))("completes them in fish, with what they are for", () => {
    const complete = (line: string) => run("fish", "-c", `source ./fish; complete -C "${line}"`).stdout
    expect(complete("codespace doc")).toMatch(/^doctor\tsay what works/)
    expect(complete("codespace serve --n")).toMatch(/^--new-token\tmake a new token/)
    expect(complete("codespace mcp --config conf")).toMatch(/^config\.json/m)
  })

  it.skipIf(!isHere("zsh"))("is a script that zsh takes", () => {
    expect(run("zsh", "-fc", `autoload -Uz compinit; compinit -u -d ${folder}/dump; source ./zsh; print $_comps[codespace]`)).toMatchObject(
      {
        stdout: "_codespace\n",
        stderr: "",
      },
    )
  })
})
