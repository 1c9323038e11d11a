/** What is wrong with arguments, in sentences that name the field, what was found and what is allowed. */
import { Predicate, type Schema, SchemaIssue } from "effect"
import { excerpt } from "../schema/Retry.ts"
import { toJson } from "../services/JsonText.ts"

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** More than this many problems help nobody. */
const SHOWN = 8

/** One sentence a problem; `allowed` are the names of the declared arguments. */
export const problemsOf = (error: Schema.SchemaError, args: unknown, allowed: ReadonlyArray<string>): ReadonlyArray<string> =>
  format(error.issue)
    .issues.slice(0, SHOWN)
    .map(({ message, path = [] }) => {
      const field = path.map((step) => (typeof step === "object" ? step.key : step))
      const where = field.map((step, at) => (typeof step === "number" ? `[${step}]` : `${at === 0 ? "" : "."}${String(step)}`)).join("")
      if (where === "") return `the arguments: ${message}`
      if (message === "Missing key") return `${where} is required`
      if (message === "Expected no excess property")
        return field.length === 1 ? `unknown argument ${where}; allowed: ${allowed.join(", ")}` : `unknown field ${where}`
      const found = valueAt(args, field)
      return `${where}: ${message}, found ${found === null ? "null (leave an optional argument out instead)" : excerpt(toJson(found), 80)}`
    })

const valueAt = (value: unknown, path: ReadonlyArray<PropertyKey>): unknown =>
  path.reduce<unknown>((inner, key) => (Predicate.hasProperty(inner, key) ? inner[key] : undefined), value)
