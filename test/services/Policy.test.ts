import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { type Decision, FileAccess, type FileRule, type Profile, type Touches } from "../../src/schema/Policy.ts"
import { ConfinedPath } from "../../src/schema/Workspace.ts"
import { decide, fileAccess, Policy, protectedBy, refusalOf } from "../../src/services/Policy.ts"

const path = (text: string) => ConfinedPath.make(text)
const profile = (files: ReadonlyArray<FileRule>, exec: "on" | "off" = "on"): Profile => ({
  name: "guarded",
  files,
  exec,
  network: "on",
  commands: [],
  env: [],
  limits: { processes: 16, spool_bytes: 1024, timeout_ms: 1000 },
})
const everything: FileRule = { glob: "**", access: "write" }
const secrets: FileRule = { glob: "**/.env*", access: "deny", reason: "secrets" }

describe("fileAccess", () => {
  it("reads what no rule speaks of, and says that this is the default", () => {
    assert.deepStrictEqual(fileAccess(profile([]), path("a.ts")), { access: "read", rule: "files: read ** (default)" })
  })

  it("lets the last match win", () => {
    const rules = profile([everything, { glob: "docs/**", access: "read" }, { glob: "docs/new/**", access: "write" }])
    assert.strictEqual(fileAccess(rules, path("src/a.ts")).access, "write")
    assert.strictEqual(fileAccess(rules, path("docs/a.md")).access, "read")
    assert.strictEqual(fileAccess(rules, path("docs/new/a.md")).access, "write")
  })

  it("lets a deny beat what follows it, and names the rule with its reason", () => {
    const rules = profile([secrets, everything])
    assert.deepInclude(fileAccess(rules, path("app/.env.local")), { access: "deny", rule: "files: deny **/.env* (secrets)" })
  })

  it("denies what is below a denied folder, and every spelling of it", () => {
    const rules = profile([everything, secrets, { glob: "Private", access: "deny" }])
    for (const denied of [".env/key", ".ENV", "Private", "Private/a/b", "private/a", "PRIVATE"])
      assert.strictEqual(fileAccess(rules, path(denied)).access, "deny", denied)
    for (const open of ["x/Private", "Privately", "env"]) assert.strictEqual(fileAccess(rules, path(open)).access, "write", open)
  })

  it("keeps the sense of a negated class when it ignores case", () => {
    const rules = profile([everything, { glob: "[!A]x", access: "deny" }])
    assert.strictEqual(fileAccess(rules, path("ax")).access, "deny")
    assert.strictEqual(fileAccess(rules, path("Ax")).access, "write")
  })

  it("denies a name however its accents are made, and a folder named in brackets", () => {
    const rules = profile([everything, { glob: "caf\u00E9", access: "deny" }, { glob: "app/[id]/key", access: "deny" }])
    for (const denied of ["caf\u00E9", "cafe\u0301", "CAFE\u0301/x", "app/[id]/key", "app/[ID]/key", "app/i/key"])
      assert.strictEqual(fileAccess(rules, path(denied)).access, "deny", denied)
    assert.strictEqual(fileAccess(rules, path("app/x/key")).access, "write")
  })

  it("gives the root what is said of all paths", () => {
    assert.strictEqual(fileAccess(profile([everything]), path("")).access, "write")
    assert.strictEqual(fileAccess(profile([{ glob: "src/**", access: "write" }]), path("")).access, "read")
    assert.strictEqual(fileAccess(profile([everything, { glob: "**", access: "deny" }]), path("")).access, "deny")
  })

  const Segment = Schema.Literals(["a", "b", "c"])
  const Pattern = Schema.Array(Schema.Literals(["a", "b", "c", "*", "**"])).check(Schema.isMinLength(1), Schema.isMaxLength(4))
  const Case = {
    rules: Schema.Array(Schema.Struct({ pattern: Pattern, access: FileAccess })).check(Schema.isMaxLength(6)),
    place: Schema.Array(Segment).check(Schema.isMinLength(1), Schema.isMaxLength(4)),
  }
  it.effect.prop(
    "agrees with a slow reference on last match and deny",
    Case,
    ({ rules, place }) =>
      Effect.sync(() => {
        const files = rules.map(({ access, pattern }) => ({ access, glob: pattern.join("/") }))
        assert.strictEqual(fileAccess(profile(files), path(place.join("/"))).access, reference(rules, place))
      }),
    { arbitrary: { runs: 500 } },
  )
})

type Segments = ReadonlyArray<string>

/** The rules by the letter: every prefix of the path is tried against a deny, the path alone against the others. */
const reference = (rules: ReadonlyArray<{ readonly pattern: Segments; readonly access: FileAccess }>, place: Segments): FileAccess => {
  const prefixes = place.map((_, at) => place.slice(0, at + 1))
  if (rules.some(({ access, pattern }) => access === "deny" && prefixes.some((prefix) => matches(pattern, prefix)))) return "deny"
  const last = [...rules].reverse().find(({ access, pattern }) => access !== "deny" && matches(pattern, place))
  return last?.access ?? "read"
}

const matches = (pattern: Segments, place: Segments): boolean => {
  const [head, ...rest] = pattern
  if (head === undefined) return place.length === 0
  if (head === "**") return matches(rest, place) || (place.length > 0 && matches(pattern, place.slice(1)))
  return place.length > 0 && (head === "*" || head === place[0]) && matches(rest, place.slice(1))
}

describe("a deny", () => {
  const segments = [
    "*",
    "**",
    "a",
    "A",
    "ab",
    ".env",
    ".env*",
    "*.env",
    "a*",
    "?b",
    "[ab]",
    "[!a]*",
    "[id]",
    "{a,.env}",
    "{a/b,ab}",
    "*{a,b}",
    "a?b*",
  ]
  const names = ["a", "A", "b", "ab", "AB", "aab", ".env", ".ENV", ".env.local", "prod.env", "B", "\u212A", "[id]", "[ID]", "i"]

  it("never leaks: 60,000 globs and paths against a slow matcher, for the file and for all below it", () => {
    let state = 1
    const pick = <A>(values: ReadonlyArray<A>): A => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
      return values[(state >>> 8) % values.length] as A
    }
    const some = <A>(values: ReadonlyArray<A>, most: number): ReadonlyArray<A> =>
      Array.from({ length: pick(Array.from({ length: most }, (_, at) => at + 1)) }, () => pick(values))
    const seen = { deny: 0, read: 0, ask: 0, write: 0 }
    for (let round = 0; round < 6000; round++) {
      const rules = some([0, 1, 2], 3).map(
        (): FileRule => ({ glob: some(segments, 3).join("/"), access: pick(["deny", "read", "ask", "write"]) }),
      )
      const files = profile([...rules, ...pick([[], [everything]])])
      for (let place = 0; place < 10; place++) {
        const file = some(names, 3).join("/")
        const { access } = fileAccess(files, path(file))
        const denied = files.files.some((rule) => rule.access === "deny" && denies(rule.glob, file))
        const where = `${JSON.stringify(files.files)} and ${file}`
        assert.strictEqual(access === "deny", denied, where)
        seen[access]++
        if (denied) {
          assert.strictEqual(fileAccess(files, path(`${file}/below/it`)).access, "deny", where)
          assert.strictEqual(decide(files, { read: [path(file)] })._tag, "deny", where)
          assert.strictEqual(decide(files, { write: [path(file)] })._tag, "deny", where)
        } else {
          const last = files.files.findLast((rule) => rule.access !== "deny" && matchesText(rule.glob, file))
          assert.strictEqual(access, last?.access ?? "read", where)
        }
      }
    }
    for (const count of Object.values(seen)) assert.isAbove(count, 500)
  })
})

/** A deny covers the path, every folder above it, and both again in one letter case. */
const denies = (glob: string, file: string): boolean => {
  const parts = file.split("/")
  return parts.some((_, at) => {
    const start = parts.slice(0, at + 1).join("/")
    return matchesText(glob, start) || matchesText(sameCase(glob), sameCase(start))
  })
}

const sameCase = (text: string): string => text.toUpperCase().toLowerCase()

/** Brackets are sets, and stand for themselves. */
const matchesText = (glob: string, text: string): boolean =>
  matchesByLetter(glob, text) || matchesByLetter(glob.replaceAll("[", "\\["), text)

/** A glob by the letter, one character after another, every alternative tried. */
const matchesByLetter = (glob: string, text: string): boolean => {
  const [head = "", ...tail] = glob
  const rest = tail.join("")
  if (glob === "") return text === ""
  if (head === "\\") return text[0] === rest[0] && matchesByLetter(rest.slice(1), text.slice(1))
  if (head === "{") {
    const end = glob.indexOf("}")
    return glob
      .slice(1, end)
      .split(",")
      .some((choice) => matchesByLetter(choice + glob.slice(end + 1), text))
  }
  if (glob === "**") return true
  if (glob.startsWith("**/")) {
    const after = text.indexOf("/")
    return matchesByLetter(glob.slice(3), text) || (after !== -1 && matchesByLetter(glob, text.slice(after + 1)))
  }
  if (/^\/\*\*(\/|$)/u.test(glob)) {
    const [segment] = /^\/[^/]*/u.exec(text) ?? []
    return matchesByLetter(glob.slice(3), text) || (segment !== undefined && matchesByLetter(glob, text.slice(segment.length)))
  }
  if (head === "*") return matchesByLetter(rest, text) || (text !== "" && text[0] !== "/" && matchesByLetter(glob, text.slice(1)))
  if (head === "?") return text !== "" && text[0] !== "/" && matchesByLetter(rest, text.slice(1))
  if (head === "[") {
    const end = glob.indexOf("]")
    const set = glob.slice(1, end)
    const isIn = set.startsWith("!") ? !set.slice(1).includes(text[0] ?? "") : set.includes(text[0] ?? "")
    return text !== "" && text[0] !== "/" && isIn && matchesByLetter(glob.slice(end + 1), text.slice(1))
  }
  return text[0] === head && matchesByLetter(rest, text.slice(1))
}

describe("protectedBy", () => {
  const closed = [
    ".git/hooks",
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git",
    "vendor/lib/.git",
    "vendor/lib/.git/hooks/post-checkout",
    "vendor/lib/.git/config",
    ".git/worktrees/side/config.worktree",
    ".git/worktrees/side/config",
    ".git/worktrees/side/commondir",
    ".git/modules/lib/config",
    ".git/modules/deep/er/lib/hooks/pre-push",
    ".git/modules/a/modules/b/config",
    ".GIT/Hooks/pre-commit",
    ".git/CONFIG",
    ".git/hoo\u212As/x",
    ".g\u200Cit/config",
  ]
  for (const name of closed) it(`closes ${JSON.stringify(name)}`, () => assert.isString(protectedBy(path(name))))

  const open = [
    "",
    ".gitignore",
    ".github/config",
    "config",
    "hooks/pre-commit",
    ".git/index",
    ".git/HEAD",
    ".git/refs/heads/main",
    ".git/objects/ab/cdef",
    ".git/info/exclude",
    ".git/COMMIT_EDITMSG",
    "src/git/config",
  ]
  for (const name of open) it(`leaves ${JSON.stringify(name)} to the profile`, () => assert.isUndefined(protectedBy(path(name))))
})

describe("decide", () => {
  const execOf = (...argv: ReadonlyArray<string>): Touches => ({ exec: { line: { argv }, commands: [{ words: argv }] } })
  const guarded: Profile = {
    ...profile([everything]),
    commands: [
      { argv: ["git", "push"], decision: "deny", reason: "leaves this machine" },
      { argv: ["rm"], decision: "ask" },
      { argv: ["npm", "test"], decision: "allow" },
    ],
  }
  const writable = profile([everything, { glob: "docs/**", access: "read" }, secrets])
  const cases: ReadonlyArray<readonly [string, Profile, Touches, object]> = [
    ["nothing touched", profile([], "off"), {}, { _tag: "allow" }],
    ["a read", writable, { read: [path("a.ts"), path(".git/config")] }, { _tag: "allow" }],
    [
      "a denied read",
      writable,
      { read: [path("a.ts"), path(".env")] },
      { _tag: "deny", rule: "files: deny **/.env* (secrets)", subject: 'reading ".env"' },
    ],
    ["a write", writable, { write: [path("a.ts")] }, { _tag: "allow" }],
    [
      "a write where only reading is allowed",
      writable,
      { write: [path("a.ts"), path("docs/a.md")] },
      { _tag: "deny", rule: "files: read docs/**", subject: 'writing "docs/a.md"' },
    ],
    [
      "a protected write",
      writable,
      { write: [path(".git/hooks/pre-commit")] },
      { _tag: "protected", rule: "git hooks run as programs", subject: ".git/hooks/pre-commit" },
    ],
    ["a command", writable, { exec: { line: { argv: ["npm", "test"] } } }, { _tag: "allow" }],
    [
      "a command a rule denies",
      guarded,
      execOf("git", "push"),
      { _tag: "deny", rule: "commands: deny git push (leaves this machine)", subject: 'running "git push"' },
    ],
    ["a command a rule asks about", guarded, execOf("rm"), { _tag: "ask", rule: "commands: ask rm", subject: 'running "rm"' }],
    ["a command a rule allows", guarded, execOf("npm", "test"), { _tag: "allow", rule: "commands: allow npm test" }],
    ["a command no rule is about", guarded, execOf("ls"), { _tag: "allow" }],
    [
      "a command where none may run",
      profile([everything], "off"),
      { exec: { line: { argv: ["npm", "test"] } } },
      { _tag: "deny", rule: "exec: off", subject: "running commands" },
    ],
  ]
  for (const [name, rules, touches, expected] of cases)
    it(name, () => {
      assert.deepStrictEqual<object>(decide(rules, touches), expected)
    })

  it("stands for the refusal of the same fact", () => {
    const denied = refusalOf(writable, decide(writable, { write: [path(".env")] }))
    assert.strictEqual(denied?._tag, "POLICY_DENIED")
    assert.include(denied?.message ?? "", 'profile "guarded" does not allow writing ".env" (rule: files: deny **/.env* (secrets))')
    const closed = refusalOf(writable, decide(writable, { write: [path(".git/config")] }))
    assert.strictEqual(closed?._tag, "PATH_PROTECTED")
    assert.isUndefined(refusalOf(writable, { _tag: "allow" }))
  })

  it("asks about a command nobody has read, where a rule could be about it", () => {
    assert.strictEqual(decide(guarded, { exec: { line: { argv: ["ls"] } } })._tag, "ask")
  })

  it("asks about a file a rule asks about, unless something else is denied, and before its command", () => {
    const asking = profile([everything, { glob: "docs/**", access: "ask", reason: "published" }])
    const docs = { write: [path("src/a"), path("docs/a")] }
    const asked: Decision = { _tag: "ask", rule: "files: ask docs/** (published)", subject: 'writing "docs/a"' }
    assert.deepStrictEqual(decide(asking, docs), asked)
    assert.deepStrictEqual(decide(asking, { read: [path("docs/a")] }), { _tag: "allow" })
    const also = (decision: "deny" | "ask") => ({ ...asking, exec: "on" as const, commands: [{ argv: ["rm"], decision }] })
    assert.deepStrictEqual(decide(also("ask"), { ...docs, ...execOf("rm") }), asked)
    assert.strictEqual(decide(also("deny"), { ...docs, ...execOf("rm") })._tag, "deny")
    assert.strictEqual(decide(asking, { write: [path("docs/a"), path(".git/config")] })._tag, "protected")
  })

  it("refuses nothing that it asks about: a person decides", () => {
    assert.isUndefined(refusalOf(guarded, decide(guarded, execOf("rm", "x"))))
  })

  it.effect("is what the service answers", () =>
    Effect.gen(function* () {
      const policy = yield* Policy
      assert.strictEqual(policy.decide(writable, { write: [path(".env")] })._tag, "deny")
    }).pipe(Effect.provide(Policy.layer)),
  )
})
