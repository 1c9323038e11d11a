/**
 * The configuration file as a JSON Schema, with the description and the default of every field: for editors, for the
 * page about it, and for the file that a newcomer starts from.
 */
import { Duration, Schema, SchemaAST } from "effect"
import { ConfigFile } from "./Config.ts"

export interface JsonSchema {
  readonly $schema?: string
  readonly title?: string
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly enum?: ReadonlyArray<unknown>
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: JsonSchema
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly required?: ReadonlyArray<string>
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly patternProperties?: Readonly<Record<string, JsonSchema>>
}

/** What a file may contain. */
export const configJson = (): JsonSchema => {
  const { schema } = Schema.toJsonSchemaDocument(ConfigFile, { onExcessProperty: "error" })
  const complete = Schema.encodeUnknownSync(ConfigFile)(Schema.decodeUnknownSync(ConfigFile)(sample))
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "CodeSpace configuration",
    ...described(schema as JsonSchema, ConfigFile.ast, complete),
  }
}

/** A file with one of everything that has a name of the operator's, so that what it leaves out shows its default. */
const sample = { workspaces: { name: { root: "sample" } }, profiles: { name: {} }, environments: { name: { kind: "host" } } }

/** Printing a schema leaves descriptions of fields with a default out, and says no default; both are put in here. */
const described = (json: JsonSchema, ast: SchemaAST.AST, value: unknown): JsonSchema => {
  const description = json.description ?? SchemaAST.resolveDescription(ast)
  return { ...json, ...(description === undefined ? {} : { description }), ...inside(json, ast, value) }
}

const inside = (json: JsonSchema, ast: SchemaAST.AST, value: unknown): Partial<JsonSchema> => {
  if (json.items !== undefined && SchemaAST.isArrays(ast) && ast.rest[0] !== undefined)
    return { items: described(json.items, ast.rest[0], undefined) }
  if (!SchemaAST.isObjects(ast)) return {}
  const types = new Map(ast.propertySignatures.map(({ name, type }) => [String(name), type]))
  const fields =
    json.properties &&
    Object.entries(json.properties).map(([name, inner]) => [
      name,
      fieldOf(inner, types.get(name), json.required?.includes(name) ? undefined : at(value, name)),
    ])
  const named = ast.indexSignatures[0]?.type
  const record =
    json.patternProperties &&
    Object.entries(json.patternProperties).map(([pattern, inner]) => [pattern, named ? described(inner, named, at(value, "name")) : inner])
  return {
    ...(fields === undefined ? {} : { properties: Object.fromEntries(fields) }),
    ...(record === undefined ? {} : { patternProperties: Object.fromEntries(record) }),
  }
}

/** A field shows its default; one that holds fields of its own leaves that to them. */
const fieldOf = (json: JsonSchema, type: SchemaAST.AST | undefined, value: unknown): JsonSchema => {
  const field = type === undefined ? json : described(json, type, value)
  return value === undefined || json.properties || json.patternProperties ? field : { ...field, default: spanText(value) }
}

const at = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, name) ? (value as Readonly<Record<string, unknown>>)[name] : undefined

const units = ["days", "hours", "minutes", "seconds"] as const

/** A time is encoded in milliseconds; a person writes `7 days`. */
const spanText = (value: unknown): unknown => {
  const millis = typeof value === "string" ? /^(\d+) millis$/u.exec(value)?.[1] : undefined
  if (millis === undefined) return value
  for (const unit of units) {
    const count = Number(millis) / Duration.toMillis(`1 ${unit}`)
    if (Number.isInteger(count)) return `${count} ${count === 1 ? unit.slice(0, -1) : unit}`
  }
  return value
}
