/** How a command line finds its command, what it is refused for, and what help is made of a command. */
import { afterEach, assert, beforeEach, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { vi } from "vitest"
import { version } from "../../src/cli/Built.ts"
import { type Commands, command, jsonOption, UsageError } from "../../src/cli/Command.ts"
import { print, printAs } from "../../src/cli/Output.ts"
import { run } from "../../src/cli/Run.ts"

const written = { out: "", err: "" }
const capture = (stream: NodeJS.WriteStream, key: "out" | "err") =>
  vi.spyOn(stream, "write").mockImplementation(((text: string, done?: () => void) => {
    written[key] += text
    done?.()
    return true
  }) as never)

beforeEach(() => {
  Object.assign(written, { out: "", err: "" })
  capture(process.stdout, "out")
  capture(process.stderr, "err")
})
afterEach(() => void vi.restoreAllMocks())

const closed: Array<string> = []

const show = command({
  args: "ID [NAME]",
  details: "Shows a thing.",
  options: { ...jsonOption, note: { value: "TEXT", many: true, summary: "a remark" }, depth: { value: "N", summary: "how deep" } },
  run: Effect.fnUntraced(function* ({ args, options }) {
    yield* Effect.addFinalizer(() => Effect.sync(() => void closed.push("show")))
    if (options.depth === "x") return yield* new UsageError({ message: "--depth: found x, wanted a number" })
    if (args[0] === "broken") return yield* Effect.fail({ _tag: "Broken", message: "the thing is broken" })
    yield* printAs(options.json, { args, options }, `${args.join(",")} ${options.note?.join(",") ?? "-"}\n`)
    return args[0] === "three" ? 3 : 0
  }),
})
const list = command({ options: {}, run: () => Effect.as(print("listed\n"), 0) })

const commands: Commands = {
  commands: {
    show: { summary: "show a thing", load: async () => show },
    token: { summary: "tokens of callers", load: () => ({ commands: { list: { summary: "who has one", load: () => list } } }) },
  },
}

const ran = (...argv: ReadonlyArray<string>) =>
  Effect.map(Effect.scoped(run(commands, argv)), (code) => ({ code, out: written.out, err: written.err.split("\n")[0] }))

describe("a command line", () => {
  it.effect("runs the command with what it was given, and gives its exit code", () =>
    Effect.gen(function* () {
      const { code, out } = yield* ran("show", "three", "--note", "a", "name", "--note=b")
      assert.deepStrictEqual([code, out], [3, "three,name a,b\n"])
      assert.deepStrictEqual(closed.splice(0), ["show"])
    }),
  )

  it.effect("prints one JSON document with --json", () =>
    Effect.gen(function* () {
      const { out } = yield* ran("show", "one", "--json", "--", "--help")
      assert.deepStrictEqual(JSON.parse(out), { args: ["one", "--help"], options: { json: true } })
    }),
  )

  it.effect("finds commands under a common name", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* ran("token", "list"), { code: 0, out: "listed\n", err: "" })
    }),
  )

  it.effect("refuses what a command does not take, by name and with exit code 2", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["fly"], 'codespace: unknown command "fly"; known are show, token'],
        [["toString"], 'codespace: unknown command "toString"; known are show, token'],
        [["token", "fly"], 'codespace: unknown command "fly"; known are list'],
        [["--json", "show"], "codespace: option --json stands before the command; options go after it"],
        [["show", "a", "--colour"], "codespace: unknown option --colour; known are --json, --note, --depth, --help"],
        [["show", "a", "-x"], "codespace: unknown option -x; known are --json, --note, --depth, --help"],
        [["show"], "codespace: missing: ID [NAME]"],
        [["show", "a", "b", "c"], 'codespace: unexpected argument "c"'],
        [["show", "a", "--depth", "x"], "codespace: --depth: found x, wanted a number"],
      ]
      for (const [argv, message] of cases) {
        written.err = ""
        assert.deepStrictEqual(yield* ran(...argv), { code: 2, out: "", err: message })
      }
    }),
  )

  it.effect("says whose help to ask for", () =>
    Effect.gen(function* () {
      for (const [argv, path] of [
        [["fly"], "codespace"],
        [["token", "fly"], "codespace token"],
        [["token", "list", "--fly"], "codespace token list"],
        [["show"], "codespace show"],
      ] as const) {
        written.err = ""
        yield* ran(...argv)
        assert.strictEqual(written.err.split("\n")[1], `Run "${path} --help" for what there is.`)
      }
    }),
  )

  it.effect("knows the short options that everybody tries", () =>
    Effect.gen(function* () {
      const help = (yield* ran("show", "--help")).out
      for (const argv of [
        ["show", "-h"],
        ["show", "a", "-h"],
        ["help", "show"],
      ]) {
        written.out = ""
        assert.deepStrictEqual(yield* ran(...argv), { code: 0, out: help, err: "" })
      }
      for (const word of ["-v", "-V", "version", "--version"]) {
        written.out = ""
        assert.strictEqual((yield* ran(word)).out, `${version}\n`)
      }
      written.out = ""
      assert.include((yield* ran("-h")).out, "codespace show")
    }),
  )

  it.effect("says what went wrong with exit code 1", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* ran("show", "broken"), { code: 1, out: "", err: "codespace: the thing is broken" })
    }),
  )

  it.effect("explains lists and commands, and runs nothing then", () =>
    Effect.gen(function* () {
      closed.length = 0
      const { code, out } = yield* ran("show", "--help")
      assert.deepStrictEqual([code, closed], [0, []])
      assert.strictEqual(
        out,
        `codespace show: show a thing

  codespace show ID [NAME] [options]

Shows a thing.

  --json       print one JSON document instead of text
  --note TEXT  a remark
  --depth N    how deep
  --help       this text
`,
      )
      for (const argv of [["token"], ["token", "--help"], ["help", "token"]]) {
        written.out = ""
        assert.include((yield* ran(...argv)).out, "  codespace token list  who has one\n")
      }
    }),
  )
})
