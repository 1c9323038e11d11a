import { assert, describe, it } from "@effect/vitest"
import { compileGlob } from "../../src/services/PathGlob.ts"

const files = ["a.ts", ".h.ts", "x/b.ts", "x/y/c.tsx", "x/y/.hid/d.ts", "src/[id]/page.ts", "src/i/page.ts", "docs/read me.md", "x{1}.md"]

/** The files a glob matches, as a walk from its prefix would test them. */
const matching = (written: string) => {
  const { prefix, matches } = compileGlob(written)
  const base = prefix === "." ? "" : `${prefix}/`
  return files.filter((path) => {
    if (!path.startsWith(base)) return false
    const name = path.slice(path.lastIndexOf("/") + 1)
    return matches(path.slice(base.length, path.length - name.length), name)
  })
}

describe("globs", () => {
  const cases: Record<string, ReadonlyArray<string>> = {
    "*.ts": ["a.ts", ".h.ts"],
    "**/*.ts": ["a.ts", ".h.ts", "x/b.ts", "x/y/.hid/d.ts", "src/[id]/page.ts", "src/i/page.ts"],
    "**": files,
    "**/*": files,
    "x/**": ["x/b.ts", "x/y/c.tsx", "x/y/.hid/d.ts"],
    "x/*": ["x/b.ts"],
    "x/**/*.{ts,tsx}": ["x/b.ts", "x/y/c.tsx", "x/y/.hid/d.ts"],
    "{x,docs}/*": ["x/b.ts", "docs/read me.md"],
    "{x/y,docs}/*.*": ["x/y/c.tsx", "docs/read me.md"],
    "**/y/*": ["x/y/c.tsx"],
    "**/c.ts?": ["x/y/c.tsx"],
    "src/[id]/*.ts": ["src/[id]/page.ts", "src/i/page.ts"],
    "src/[!d]/*": ["src/i/page.ts"],
    "x\\{1\\}.*": ["x{1}.md"],
    "y*/": [],
    "d*s/": ["docs/read me.md"],
    "**/none": [],
  }
  for (const [glob, expected] of Object.entries(cases)) it(`${glob}`, () => assert.deepStrictEqual(matching(glob), expected))

  it("tells the fixed prefix and exact names", () => {
    const parts = (written: string) => {
      const { prefix, isExact, name } = compileGlob(written)
      return [prefix, isExact, name]
    }
    assert.deepStrictEqual(parts("src/app/**/*.ts"), ["src/app", false, "*.ts"])
    assert.deepStrictEqual(parts("src/app/page.ts"), ["src/app/page.ts", true, undefined])
    assert.deepStrictEqual(parts("/w/proj/*.{ts,md}"), ["/w/proj", false, "*.{ts,md}"])
    assert.deepStrictEqual(parts("/*"), ["/", false, "*"])
    assert.deepStrictEqual(parts("src/a\\*b"), ["src/a*b", true, undefined])
    assert.deepStrictEqual(parts("**/[ab].ts"), [".", false, undefined])
  })
})
