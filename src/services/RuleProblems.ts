/** What is wrong with rules that decoded: it takes what they mean to tell. Needed only where there is a file. Pure. */
import type { ConfigFile } from "../schema/Config.ts"
import { type ConfigProblem, fieldPath } from "../schema/ConfigProblem.ts"
import type { AllowedHost } from "../schema/Policy.ts"
import { exampleProblem } from "./CommandRules.ts"
import { hostExampleProblem, hostProblem } from "./HostRules.ts"
import { isAbout } from "./Policy.ts"

/** Hosts that can match nothing, and rules that their own examples contradict. */
export const ruleProblems = (file: ConfigFile): ReadonlyArray<ConfigProblem> =>
  Object.entries(file.profiles).flatMap(([name, { commands, files, network }]) => [
    ...files.flatMap((rule, place) =>
      exampleProblems(["profiles", name, "files", place], rule.examples, (path, kind) =>
        isAbout(rule, path) === (kind === "match") ? undefined : `"${path}" is ${wanted[kind]}, but ${rule.glob} ${found[kind]}`,
      ),
    ),
    ...(typeof network === "object" ? hostProblems(name, network.allow) : []),
    ...commands.flatMap((rule, place) =>
      exampleProblems(["profiles", name, "commands", place], rule.examples, (argv, kind) => exampleProblem(rule, argv, kind)),
    ),
  ])

const wanted = { match: "to match", not_match: "not to match" } as const
const found = { match: "does not match it", not_match: "matches it" } as const

const hostProblems = (name: string, allow: ReadonlyArray<AllowedHost>): ReadonlyArray<ConfigProblem> =>
  allow.flatMap((entry, place) => {
    const path = ["profiles", name, "network", "allow", place]
    const problem = hostProblem(entry)
    if (problem !== undefined) return [{ at: fieldPath(path), problem }]
    const examples = typeof entry === "string" ? undefined : entry.examples
    return exampleProblems(path, examples, (example, kind) => hostExampleProblem(entry, example, kind))
  })

interface Examples<A> {
  readonly match?: ReadonlyArray<A>
  readonly not_match?: ReadonlyArray<A>
}

const exampleProblems = <A>(
  path: ReadonlyArray<string | number>,
  examples: Examples<A> = {},
  problemOf: (example: A, kind: "match" | "not_match") => string | undefined,
): ReadonlyArray<ConfigProblem> =>
  (["match", "not_match"] as const).flatMap((kind) =>
    (examples[kind] ?? []).flatMap((example, place) => {
      const problem = problemOf(example, kind)
      return problem === undefined ? [] : [{ at: fieldPath([...path, "examples", kind, place]), problem }]
    }),
  )
