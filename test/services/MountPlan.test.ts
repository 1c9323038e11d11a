import { assert, describe, it } from "@effect/vitest"
import { arrange, inWritable, type Mount } from "../../src/services/MountPlan.ts"

const kinds = (mounts: ReadonlyArray<Mount>) => arrange(mounts).map(({ kind, path }) => `${kind} ${path}`)
const hide = (path: string): Mount => ({ kind: "hide", path, isFolder: true })
const deny = (path: string): Mount => ({ kind: "deny", path, isFolder: true })
const write = (path: string): Mount => ({ kind: "write", path })
const read = (path: string): Mount => ({ kind: "read", path })
const pin = (path: string): Mount => ({ kind: "pin", path })

describe("a plan of mounts", () => {
  it("is made from the outside in, whatever order it is said in", () => {
    assert.deepStrictEqual(kinds([read("/w/.git/config"), pin("/w/.git"), write("/w"), hide("/h/.ssh")]), [
      "hide /h/.ssh",
      "write /w",
      "write /w/.git",
      "read /w/.git/config",
    ])
  })

  it("says nothing inside of what is denied, hides nothing twice, and shows a workspace inside of what is hidden", () => {
    assert.deepStrictEqual(kinds([write("/w"), deny("/w/keys"), read("/w/keys/.git/config"), pin("/w/keys/.git")]), [
      "write /w",
      "deny /w/keys",
    ])
    assert.deepStrictEqual(kinds([hide("/home/x"), hide("/home/x/.ssh"), write("/home/x/w"), hide("/home/x/w/.secret")]), [
      "hide /home/x",
      "write /home/x/w",
      "hide /home/x/w/.secret",
    ])
  })

  it("lets a denial win over whatever else is said of its path, and else the last word", () => {
    assert.deepStrictEqual(kinds([write("/w"), deny("/w/f"), read("/w/f")]), ["write /w", "deny /w/f"])
    assert.deepStrictEqual(kinds([hide("/w"), write("/w")]), ["write /w"])
  })

  it("pins nothing where nothing can be renamed, and takes no name for a folder that only begins like one", () => {
    assert.deepStrictEqual(kinds([{ kind: "read", path: "/w", source: "/w" }, pin("/w/.git"), read("/w/.git/config")]), ["read /w"])
    assert.deepStrictEqual(kinds([hide("/w"), hide("/w2"), hide("/w/a")]), ["hide /w", "hide /w2"])
  })

  it("tells what it would put where others write", () => {
    const told = (mounts: ReadonlyArray<Mount>) => inWritable(arrange(mounts))
    assert.strictEqual(told([write("/w"), hide("/h/.ssh"), { kind: "replace", path: "/tmp", source: "/s" }]), undefined)
    assert.strictEqual(told([{ kind: "read", path: "/w", source: "/w" }, deny("/w/keys")]), undefined)
    assert.strictEqual(told([write("/w"), read("/w/.git/config")]), "show")
    assert.strictEqual(told([write("/w"), read("/w/.git/config"), deny("/w/keys")]), "cover")
  })
})
