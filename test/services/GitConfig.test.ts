import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { configText, hooksPathIn, ofWork, programIn, type Setting, settingsOf, strangeChange } from "../../src/services/GitConfig.ts"

const read = (text: string): ReadonlyArray<Setting> => {
  const settings = settingsOf(text)
  assert.isDefined(settings)
  return settings ?? []
}
const place = { isNew: false, holdsWorktree: (path: string) => path === "../../../lib" }
const change = (added: string, before = '[core]\n\tbare = false\n[remote "origin"]\n\turl = ../x\n') =>
  strangeChange(read(before), read(before + added), place)

/** As git reads it. */
const byGit = (text: string): ReadonlyArray<Setting> | undefined => {
  const folder = mkdtempSync(join(tmpdir(), "codespace-config-"))
  try {
    writeFileSync(join(folder, "config"), text)
    const { status, stdout } = spawnSync("git", ["config", "--file", join(folder, "config"), "--list", "-z"], { encoding: "utf8" })
    if (status !== 0) return undefined
    return stdout
      .split("\0")
      .slice(0, -1)
      .map((entry) => {
        const at = entry.indexOf("\n")
        return at === -1 ? { key: entry, value: undefined } : { key: entry.slice(0, at), value: entry.slice(at + 1) }
      })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe("a configuration of git", () => {
  const pieces = [
    ...["[core]\n", '[remote "a b"]\n', '[Branch "x.y\\"z\\\\"]\n', "[core] # c\n", "\tbare = true\n", "name\n", "URL=a;b\n"],
    ...['x = "a # b" c ; d\n', "x = a\\nb\\\\\n", "x =   \n", 'x = " a "\n', "# c\n", "\n", "x = a\\\n b\n", "[a.b]\n", "[core] y = 1\n"],
    ...["x = a\r\n", "9x = 1\n", 'x = "a\n', "x = \\q\n", '[remote"a"]\n', '[remote "a\\tb"]\n', "x = a \t b \n", "x-y = a=b\n", " ; c\n"],
  ]
  it("is read as git reads it, or not at all", () => {
    let understood = 0
    for (let seed = 1; seed <= 120; seed++) {
      let state = seed * 2654435761
      const next = () => {
        state = (Math.imul(state, 1103515245) + 12345) >>> 0
        return state >>> 8
      }
      const text = `[core]\n${Array.from({ length: next() % 4 }, () => pieces[next() % pieces.length]).join("")}`
      const ours = settingsOf(text)
      if (ours === undefined) continue
      understood++
      assert.deepStrictEqual(ours, byGit(text), JSON.stringify(text))
    }
    assert.isAbove(understood, 20)
  })

  it("is written so that git reads the same", () => {
    const settings = [
      { key: 'remote.a"b\\c.url', value: 'x "y" \\ # z\n;' },
      { key: "core.bare", value: undefined },
      { key: "branch.a.b.merge", value: " refs/heads/x " },
    ]
    assert.deepStrictEqual(byGit(configText(settings)), settings)
    assert.deepStrictEqual(settingsOf(configText(settings)), settings)
  })

  const harmless = [
    '[submodule "lib"]\n\turl = https://h.example/lib\n\tactive = true\n\tupdate = rebase\n',
    '[remote "up"]\n\turl = git@h.example:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/up/*\n',
    '[branch "main"]\n\tremote = up\n\tmerge = refs/heads/main\n',
    "[core]\n\tworktree = ../../../lib\n",
    "",
  ]
  for (const text of harmless) it(`may come to say ${JSON.stringify(text)}`, () => assert.isUndefined(change(text)))

  const strange: ReadonlyArray<readonly [text: string, key: string]> = [
    ["[core]\n\tfsmonitor = evil\n", "core.fsmonitor"],
    ["[core]\n\thooksPath = evil\n", "core.hookspath"],
    ["[core]\n\tworktree = /\n", "core.worktree"],
    ["[core]\n\tbare = true\n", "core.bare"],
    ["[alias]\n\tst = !evil\n", "alias.st"],
    ["[user]\n\tname = x\n", "user.name"],
    ["[include]\n\tpath = x\n", "include.path"],
    ["[extensions]\n\tworktreeConfig = true\n", "extensions.worktreeconfig"],
    ['[submodule "lib"]\n\tupdate = !evil\n', "submodule.lib.update"],
    ['[submodule "lib"]\n\turl = -u./evil\n', "submodule.lib.url"],
    ['[remote "up"]\n\turl = ext::sh -c evil\n', "remote.up.url"],
    ['[remote "up"]\n\turl = evil://x\n', "remote.up.url"],
    ['[remote "up"]\n\turl = ssh://-oProxyCommand=evil/x\n', "remote.up.url"],
    ['[remote "up"]\n\turl\n\tuploadpack = evil\n', "remote.up.uploadpack"],
    ['[remote "up"]\n\tvcs = evil\n', "remote.up.vcs"],
    ['[branch "main"]\n\tremote = ext::sh\n', "branch.main.remote"],
    ['[filter "x"]\n\tclean = evil\n', "filter.x.clean"],
  ]
  for (const [text, key] of strange) it(`may not come to say ${JSON.stringify(text)}`, () => assert.strictEqual(change(text), key))

  it("may lose what work on it takes away, and nothing else", () => {
    const before = read('[remote "a"]\n\turl = x\n[user]\n\tname = me\n')
    assert.isUndefined(strangeChange(before, read("[user]\n\tname = me\n"), place))
    assert.strictEqual(strangeChange(before, read('[remote "a"]\n\turl = x\n'), place), "user.name")
    assert.strictEqual(strangeChange([], read("[core]\n\tbare = false\n"), { ...place, isNew: true }), undefined)
    assert.deepStrictEqual(ofWork(read("[core]\n\tbare = false\n\tpager = evil\n"), { ...place, isNew: true }), [
      { key: "core.bare", value: "false" },
    ])
  })

  it("tells what may run a program of the workspace", () => {
    const evil = [
      ...["[core]\n\tfsmonitor = ./x\n", "[include]\n\tpath = x\n", '[filter "x"]\n\tsmudge = sh x\n', "[core]\n\tsshCommand = ./x\n"],
      ...['[merge "x"]\n\tdriver = ./x\n', "[diff]\n\texternal = x\n", "[credential]\n\thelper = !x\n", '[submodule "x"]\n\tupdate = !x\n'],
      ...['[remote "x"]\n\turl = ext::x\n', '[url "ext::x"]\n\tinsteadOf = a\n', '[credential "h"]\n\thelper = /x/y\n'],
    ]
    for (const text of evil) assert.isDefined(programIn(read(text)), text)
    const fine = [
      ...['[filter "lfs"]\n\tprocess = git-lfs filter-process\n\tclean = git-lfs clean -- %f\n', "[core]\n\tfsmonitor = true\n"],
      ...[
        "[credential]\n\thelper = store\n",
        "[diff]\n\trenames = copies\n",
        "[merge]\n\tff = only\n",
        '[url "https://h/"]\n\tinsteadOf = h:\n',
      ],
    ]
    for (const text of fine) assert.isUndefined(programIn(read(text)), text)
    assert.strictEqual(hooksPathIn(read("[core]\n\thooksPath = .husky/_\n")), ".husky/_")
  })
})
