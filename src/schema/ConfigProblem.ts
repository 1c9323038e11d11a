/** One thing that is wrong with a configuration, in words for the operator: where, what was found, what is allowed. */
import { Schema, SchemaIssue } from "effect"
import { excerpt } from "./Retry.ts"

/** `at` is a field such as `workspaces.app.root`, or a place in the file's text; empty for the configuration as a whole. */
export const ConfigProblem = Schema.Struct({ at: Schema.String, problem: Schema.String })
export type ConfigProblem = typeof ConfigProblem.Type

/** Every problem of a failed decoding. Decode with `reportInput` for messages that say what was found. */
export const problemsIn = (issue: SchemaIssue.Issue): ReadonlyArray<ConfigProblem> =>
  format(issue).issues.map(({ path, message }) => ({ at: fieldPath(path ?? []), problem: excerpt(message, 400) }))

/** A field's path as text; a key that is no plain word is quoted. */
export const fieldPath = (path: ReadonlyArray<unknown>): string =>
  path.map((key, place) => (typeof key === "number" ? `[${key}]` : `${place === 0 ? "" : "."}${plain(String(key))}`)).join("")

const plain = (key: string): string => (/^[\w$-]+$/u.test(key) ? key : JSON.stringify(key))

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    if (issue._tag === "MissingKey") return "is missing; it has no default"
    if (issue._tag === "UnexpectedKey") return unknownField(issue)
    return SchemaIssue.defaultLeafHook(issue)
  },
})

const unknownField = ({ ast }: SchemaIssue.UnexpectedKey): string => {
  if (ast._tag !== "Objects") return "is not known"
  const known = ast.propertySignatures.map(({ name }) => String(name))
  return known.length > 0
    ? `is no field here; known are ${known.join(", ")}`
    : "is no valid name; use 1 to 64 letters, digits, dots, dashes or underscores"
}
