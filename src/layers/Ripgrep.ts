/**
 * TextSearch over ripgrep. The program comes with the package `@vscode/ripgrep`, which is loaded for the first search;
 * where it has none for this machine, PlainSearch does the work.
 *
 * The child reads no configuration, gets an empty environment, and is killed when the search is interrupted.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process"
import { existsSync } from "node:fs"
import type { Readable } from "node:stream"
import { Effect, Layer } from "effect"
import { InvalidArguments, RunnerUnavailable } from "../schema/Operation.ts"
import { ConfinedPath } from "../schema/Workspace.ts"
import * as PlainSearch from "../services/PlainSearch.ts"
import { type FoundFile, type FoundLine, type SearchRequest, TextSearch, wholeLine } from "../services/TextSearch.ts"
import type { Unreadable } from "../services/Unreadable.ts"

export const layer = Layer.effect(
  TextSearch,
  Effect.gen(function* () {
    const plain = yield* TextSearch
    const program = yield* Effect.cached(locate)
    return TextSearch.of({
      search: Effect.fn("Ripgrep.search")(function* (request, onFile) {
        const path = yield* program
        return yield* path === undefined ? plain.search(request, onFile) : run(path, request, onFile)
      }),
    })
  }),
).pipe(Layer.provide(PlainSearch.layer))

/** The program for this machine, when the package has one. */
export const locate = Effect.tryPromise(async () => (await import("@vscode/ripgrep")).rgPath).pipe(
  Effect.map((path) => (existsSync(path) ? path : undefined)),
  Effect.catch((error) => Effect.as(Effect.logWarning("ripgrep is not here, searching without it", error.cause), undefined)),
)

/** Stands behind the line number; ripgrep is told to put it there, and no number contains it. */
const matchMark = "\u0001"
const contextMark = "\u0002"

const argumentsOf = (request: SearchRequest): ReadonlyArray<string> => [
  ...["--no-config", "--color=never", "--no-heading", "--with-filename", "--line-number", "--null"],
  ...[`--field-match-separator=${matchMark}`, `--field-context-separator=${contextMark}`, "--no-context-separator"],
  ...["--crlf", `--max-columns=${wholeLine}`, "--max-columns-preview"],
  // The same files as a walk: hidden ones too, rules of .gitignore alone, and those only from the start on.
  ...["--hidden", "--glob=!.git", "--no-require-git", "--no-ignore-dot", "--no-ignore-global", "--no-ignore-parent"],
  ...(request.includeIgnored ? ["--no-ignore"] : []),
  ...(request.name === undefined ? [] : [`--type-add=wanted:${request.name}`, "--type=wanted"]),
  ...(request.literal ? ["--fixed-strings"] : []),
  ...{ sensitive: ["--case-sensitive"], insensitive: ["--ignore-case"], smart: ["--smart-case"] }[request.case],
  ...(request.contextLines > 0 ? [`--context=${request.contextLines}`] : []),
  ...["--regexp", request.pattern, "--", request.start === "" ? "." : `./${request.start}`],
]

type Child = ChildProcessByStdio<null, Readable, Readable>

const run = (program: string, request: SearchRequest, onFile: (file: FoundFile) => void) =>
  Effect.callback<ReadonlyArray<Unreadable>, InvalidArguments | RunnerUnavailable>((resume) => {
    const child: Child = spawn(program, argumentsOf(request), { cwd: request.root.path, env: {}, stdio: ["ignore", "pipe", "pipe"] })
    const parser = parseOutput(onFile)
    let problems = ""
    child.stdout.on("data", (bytes: Buffer) => parser.push(bytes))
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      problems = (problems + text).slice(0, 100_000)
    })
    child.once("error", (cause) => resume(Effect.fail(new RunnerUnavailable({ cause: `ripgrep could not be started: ${cause.message}` }))))
    child.once("close", (code, signal) => {
      parser.finish()
      resume(endOf(code, signal, problems))
    })
    return end(child)
  })

/** Kills a child that is no longer wanted and waits until it is gone. */
const end = (child: Child): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    child.stdout.removeAllListeners("data").resume()
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return resume(Effect.void)
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGKILL")
  })

/** 0 is some match, 1 is none, 2 is that something went wrong: with single files, or with the pattern. */
const endOf = (code: number | null, signal: string | null, problems: string) => {
  const unreadable: Array<Unreadable> = []
  const others: Array<string> = []
  for (const line of problems.split("\n")) {
    const [, path, reason] = /^rg: \.\/(.*): ([^:]+)$/u.exec(line) ?? []
    if (path !== undefined && reason !== undefined) unreadable.push({ path, reason })
    else if (line.trim() !== "") others.push(line)
  }
  if (code === null) return Effect.fail(new RunnerUnavailable({ cause: `ripgrep was ended by ${signal}` }))
  if (code === 2 && others.length > 0)
    return Effect.fail(new InvalidArguments({ problems: [`pattern: ${others.join("\n").slice(0, 2000)}`] }))
  return Effect.succeed(unreadable.slice(0, 100))
}

/**
 * Takes the output apart as it comes: `path NUL line mark text LF`, the lines of a file one after another. What
 * ripgrep says about binary files has no NUL and is passed over.
 */
const parseOutput = (onFile: (file: FoundFile) => void) => {
  const decoder = new TextDecoder()
  let rest = ""
  let path = ""
  let lines: Array<FoundLine> = []
  const flush = (): void => {
    if (lines.length > 0) onFile({ path: ConfinedPath.make(path), lines })
    lines = []
  }
  const push = (text: string): void => {
    rest += text
    let at = 0
    for (let end = rest.indexOf("\n"); end !== -1; end = rest.indexOf("\n", at)) {
      const record = rest.slice(at, end)
      at = end + 1
      const nul = record.indexOf("\0")
      const mark = record.slice(nul + 1).search(/[\u0001\u0002]/u) + nul + 1
      if (nul === -1 || mark === nul) continue
      const name = record.slice(record.startsWith("./") ? 2 : 0, nul)
      if (name !== path) {
        flush()
        path = name
      }
      lines.push({
        line: Number(record.slice(nul + 1, mark)),
        text: record.slice(mark + 1, record.endsWith("\r") ? -1 : undefined),
        isMatch: record[mark] === matchMark,
      })
    }
    rest = rest.slice(at)
  }
  return {
    push: (bytes: Uint8Array) => push(decoder.decode(bytes, { stream: true })),
    finish: () => {
      push(decoder.decode())
      flush()
    },
  }
}
