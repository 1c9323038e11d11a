/**
 * The configuration file that `codespace init` writes: what was asked for, and every other field with its description
 * and default, commented out. Made from the schema, so that no field is missing.
 */
import type { JsonSchema } from "../schema/ConfigJson.ts"

/** A name of the operator's choice has no default; these show what one may look like. */
const examples: Readonly<Record<string, unknown>> = {
  profiles: {
    careful: {
      extends: "workspace-write",
      files: [{ glob: "**/.env*", access: "deny", reason: "secrets" }],
      commands: [{ argv: ["git", "push"], decision: "deny", reason: "leaves this machine" }],
    },
  },
}

/** The text of a file that registers these folders, by name. */
export const configTemplate = (json: JsonSchema, folders: Readonly<Record<string, string>>): string => {
  const workspaces = Object.fromEntries(Object.entries(folders).map(([name, root]) => [name, { root, profile: "workspace-write" }]))
  return [
    "// What CodeSpace serves. Comments and trailing commas are allowed; a field that is commented out shows its default.",
    "// Run codespace doctor to see whether this file can be used.",
    "{",
    ...indented(fieldsOf(json, { $schema: "./config.schema.json", workspaces })),
    "}",
    "",
  ].join("\n")
}

const fieldsOf = (json: JsonSchema, given: Readonly<Record<string, unknown>>): ReadonlyArray<string> =>
  Object.entries(json.properties ?? {}).flatMap(([name, field]) => [
    ...(field.description === undefined ? [] : [`// ${field.description}`]),
    ...(Object.hasOwn(given, name) ? entry(name, valueLines(field, given[name])) : fieldLeftOut(name, field)),
  ])

/** A given value; one with fields of its own shows those it leaves out. */
const valueLines = (field: JsonSchema, value: unknown): ReadonlyArray<string> => {
  const inner = Object.values(field.patternProperties ?? {})[0]
  if (inner !== undefined)
    return block(Object.entries(value as Readonly<Record<string, unknown>>).flatMap(([name, one]) => entry(name, valueLines(inner, one))))
  if (field.properties !== undefined) return block(fieldsOf(field, value as Readonly<Record<string, unknown>>))
  return JSON.stringify(value, null, 2).split("\n")
}

const fieldLeftOut = (name: string, field: JsonSchema): ReadonlyArray<string> => {
  const example = examples[name]
  if (example !== undefined) return commented(entry(name, JSON.stringify(example, null, 2).split("\n")))
  if (field.properties !== undefined) return commented(entry(name, block(fieldsOf(withDefaults(field), defaultsOf(field)))))
  return field.default === undefined ? [] : commented(entry(name, JSON.stringify(field.default).split("\n")))
}

const defaultsOf = (field: JsonSchema): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(field.properties ?? {}).flatMap(([name, inner]) => {
      const value = inner.properties === undefined ? inner.default : defaultsOf(inner)
      return value === undefined ? [] : [[name, value]]
    }),
  )

/** Of a section that is commented out, only the fields that have a default. */
const withDefaults = (field: JsonSchema): JsonSchema => {
  const defaults = defaultsOf(field)
  return {
    ...field,
    properties: Object.fromEntries(Object.entries(field.properties ?? {}).filter(([name]) => Object.hasOwn(defaults, name))),
  }
}

const indented = (lines: ReadonlyArray<string>) => lines.map((line) => (line === "" ? line : `  ${line}`))
const commented = (lines: ReadonlyArray<string>) => lines.map((line) => `// ${line}`)
const block = (lines: ReadonlyArray<string>): ReadonlyArray<string> => (lines.length === 0 ? ["{}"] : ["{", ...indented(lines), "}"])
const entry = (name: string, [first, ...rest]: ReadonlyArray<string>): ReadonlyArray<string> => {
  const lines = [`${JSON.stringify(name)}: ${first}`, ...rest]
  return [...lines.slice(0, -1), `${lines.at(-1)},`]
}
