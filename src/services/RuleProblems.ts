/** What is wrong with rules that decoded: it takes what they mean to tell. Needed only where there is a file. Pure. */
import type { ConfigFile } from "../schema/Config.ts"
import { type ConfigProblem, fieldPath } from "../schema/ConfigProblem.ts"
import type { CommandRule } from "../schema/Policy.ts"
import { exampleProblem } from "./CommandRules.ts"
import { hostProblem } from "./HostRules.ts"

/** Hosts that can match nothing, and command rules that their own examples contradict. */
export const ruleProblems = (file: ConfigFile): ReadonlyArray<ConfigProblem> =>
  Object.entries(file.profiles).flatMap(([name, { commands, network }]) => [
    ...(typeof network === "object" ? hostProblems(name, network.allow) : []),
    ...commands.flatMap((rule, place) => exampleProblems(["profiles", name, "commands", place], rule)),
  ])

const hostProblems = (name: string, allow: ReadonlyArray<string>): ReadonlyArray<ConfigProblem> =>
  allow.flatMap((host, place) => {
    const problem = hostProblem(host)
    return problem === undefined ? [] : [{ at: fieldPath(["profiles", name, "network", "allow", place]), problem }]
  })

const exampleProblems = (path: ReadonlyArray<string | number>, rule: CommandRule): ReadonlyArray<ConfigProblem> =>
  (["match", "not_match"] as const).flatMap((kind) =>
    (rule.examples?.[kind] ?? []).flatMap((argv, example) => {
      const problem = exampleProblem(rule, argv, kind)
      return problem === undefined ? [] : [{ at: fieldPath([...path, "examples", kind, example]), problem }]
    }),
  )
