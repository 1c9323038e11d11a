/** The rules are those of git: what a walk leaves out is compared with what git lists. */
import { execFileSync } from "node:child_process"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { parseIgnore } from "../../src/services/GitIgnore.ts"
import { openFiles } from "../support/Looking.ts"

const listedByGit = (folder: string) => {
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-c", "core.excludesFile=", ...args], { cwd: folder, encoding: "utf8" })
  git("init", "--quiet")
  return git("ls-files", "-o", "--exclude-standard", "-z")
    .split("\0")
    .filter((path) => path !== "")
    .sort()
}

const tree = [
  "a.log",
  "keep.log",
  "b.txt",
  "build/out.js",
  "build/keep/me.js",
  "src/build/x.js",
  "src/a.log",
  "src/keep.log",
  "docs/one.md",
  "docs/deep/two.md",
  "docs/deep/three.txt",
  "node_modules/p/index.js",
  "pkg/node_modules/q/index.js",
  "temp/x",
  "temp/keep/y",
  "a b.txt",
  "trail ",
  "#hash",
  "!bang",
  "foo/bar",
  "x/foo/bar",
  "file.tmp",
  "x/file.tmp",
  "br{a,b}ce",
  "br[1]",
  "br1",
  "logs/1.txt",
  "logs/2/3.txt",
  "sub/only.txt",
  "sub/deep/only.txt",
  "x/y/z/end",
  ".hidden",
]

describe("ignore rules", () => {
  const cases: Record<string, Record<string, string>> = {
    "names, suffixes and folders": { ".gitignore": "*.log\nnode_modules/\nbuild\n" },
    anchors: { ".gitignore": "/build\n/temp/\nfoo/bar\n/docs/*.md\n" },
    negation: { ".gitignore": "*.log\n!keep.log\n" },
    "nothing is taken back below an ignored folder": { ".gitignore": "build/\n!build/keep/me.js\n" },
    "all in a folder but one": { ".gitignore": "temp/*\n!temp/keep\nlogs/**\n!logs/2\n" },
    "double stars": { ".gitignore": "**/foo/bar\ndocs/**/*.md\nx/**/end\n" },
    "comments, escapes and spaces": { ".gitignore": "# a comment\n\\#hash\n\\!bang\na b.txt  \ntrail\\ \n\n" },
    "braces mean nothing, brackets do": { ".gitignore": "br{a,b}ce\nbr[0-9]\n" },
    "line ends of Windows": { ".gitignore": "*.tmp\r\nbuild/\r\n" },
    "deeper files decide": { ".gitignore": "*.log\n*.txt\n", "src/.gitignore": "!a.log\n", "sub/.gitignore": "!/only.txt\n" },
    "question marks": { ".gitignore": "?.txt\nbr?\n" },
    "everything but": { ".gitignore": "*\n!*/\n!*.md\n!.gitignore\n" },
    "hidden files": { ".gitignore": ".*\n!.gitignore\n" },
  }
  for (const [name, ignores] of Object.entries(cases))
    it.live(name, () =>
      Effect.gen(function* () {
        const { folder, files } = yield* openFiles({ ...Object.fromEntries(tree.map((path) => [path, ""])), ...ignores })
        const expected = listedByGit(folder)
        const { paths, left_out } = yield* files.find({ glob: "**", limit: 5000 })
        assert.deepStrictEqual(paths, expected)
        assert.isAbove(left_out["gitignore"] ?? 0, 0)
        const all = yield* files.find({ glob: "**", limit: 5000, include_ignored: true })
        assert.deepStrictEqual(all.paths.length, tree.length + Object.keys(ignores).length)
      }),
    )

  it.live("reads .git/info/exclude, and ends at a repository inside", () =>
    Effect.gen(function* () {
      const { folder, files } = yield* openFiles({
        "a.log": "",
        "b.txt": "",
        "nested/a.log": "",
        "nested/c.txt": "",
        ".gitignore": "*.log\n",
      })
      execFileSync("git", ["init", "--quiet"], { cwd: folder })
      execFileSync("git", ["init", "--quiet"], { cwd: `${folder}/nested` })
      execFileSync("sh", ["-c", "echo b.txt >> .git/info/exclude"], { cwd: folder })
      const { paths } = yield* files.find({ glob: "**" })
      assert.deepStrictEqual(paths, [".gitignore", "nested/a.log", "nested/c.txt"])
    }),
  )

  it("has no rules for empty lines and comments", () => assert.strictEqual(parseIgnore("\n# x\n  \n\r\n").length, 0))
})
