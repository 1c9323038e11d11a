/**
 * Writes docs/tools.md from the tool table, and docs/configuration.md from the schema of the configuration file. With
 * --check it writes nothing and exits 1 when a page is stale.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import type { ListedTool } from "../src/mcp/ToolList.ts"
import { listTools } from "../src/mcp/Tools.ts"
import { configJson, type JsonSchema } from "../src/schema/ConfigJson.ts"

interface Property {
  readonly type?: string
  readonly enum?: ReadonlyArray<string>
  readonly description?: string
  readonly items?: Property
  readonly properties?: Record<string, Property>
  readonly required?: ReadonlyArray<string>
  readonly anyOf?: ReadonlyArray<Property>
  readonly allOf?: ReadonlyArray<Property>
  readonly minimum?: number
  readonly maximum?: number
}

const typeOf = (property: Property): string => {
  if (property.enum) return property.enum.map((value) => `\`${value}\``).join(" ")
  if (property.anyOf) return property.anyOf.map(typeOf).join(" or ")
  if (property.type === "array") return `list of ${typeOf(property.items ?? {})}`
  if (property.type === "object" && property.properties) return `{ ${Object.keys(property.properties).join(", ")} }`
  const { maximum, minimum } = property
  const bounds =
    maximum === undefined
      ? minimum === undefined
        ? ""
        : ` from ${minimum}`
      : minimum === undefined
        ? ` up to ${maximum}`
        : ` ${minimum}–${maximum}`
  return `${property.type ?? "any"}${bounds}`
}

const described = (property: Property): string =>
  [property.description ?? "", ...(property.allOf ?? []).map((part) => part.description ?? "")].filter(Boolean).join(". ")

const table = (schema: Property): string =>
  [
    "| name | type | |",
    "|---|---|---|",
    ...Object.entries(schema.properties ?? {}).map(
      ([name, property]) =>
        `| \`${name}\`${schema.required?.includes(name) ? "" : "?"} | ${typeOf(property)} | ${described(property).replaceAll("|", "\\|")} |`,
    ),
  ].join("\n")

const hintsOf = ({ hints }: ListedTool): string =>
  [
    hints.readOnlyHint ? "changes nothing" : hints.destructiveHint ? "changes things" : "adds things",
    hints.idempotentHint ? "repeating it changes nothing more" : "",
    hints.openWorldHint ? "can reach outside this machine" : "stays on this machine",
  ]
    .filter(Boolean)
    .join(", ")

const section = (row: ListedTool): string =>
  [
    `## ${row.name}`,
    row.description,
    `*${row.title}: ${hintsOf(row)}.*`,
    "Arguments (`?`: optional):",
    table(row.input as Property),
    "Result:",
    table(row.output as Property),
  ].join("\n\n")

const toolsPage = [
  "# Tools",
  "This page is made from the tool table by `npm run docs`. Every refusal a call can get is listed in [refusals.md](refusals.md).",
  ...listTools().map(section),
  "",
].join("\n\n")

/** Every field with its path; under a name of the operator's choice stands `NAME`. */
const fieldRows = (path: string, schema: JsonSchema): ReadonlyArray<string> =>
  Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const here = `${path}${name}`
    const named = Object.values(field.patternProperties ?? {})[0]
    const inner = named ?? (field.properties ? field : undefined)
    const list = field.items?.properties ? fieldRows(`${here}[].`, field.items) : []
    const own = inner === undefined || field.description !== undefined ? [fieldRow(here, field, schema)] : []
    return [...own, ...(inner === undefined ? list : fieldRows(named === undefined ? `${here}.` : `${here}.NAME.`, inner))]
  })

const fieldRow = (path: string, field: JsonSchema, parent: JsonSchema): string => {
  const isRequired = parent.required?.includes(path.split(".").at(-1) ?? "")
  const usual = field.default === undefined ? (isRequired ? "must be there" : "") : `\`${JSON.stringify(field.default)}\``
  const type = field.patternProperties || field.properties ? "" : typeOf(field as Property)
  return `| \`${path}\` | ${type.replaceAll("|", "\\|")} | ${usual} | ${(field.description ?? "").replaceAll("|", "\\|")} |`
}

const configurationPage = [
  "# Configuration",
  "This page is made from the schema of the configuration file by `npm run docs`.",
  [
    "The file is the one named by `--config`, else by `CODESPACE_CONFIG`, else `codespace/config.json` in `$XDG_CONFIG_HOME` (`~/.config`). It is JSON;",
    "comments and trailing commas are allowed. Every field may be left out but those that must be there; one that is not known is refused by name.",
    "`codespace init` writes a first one, `codespace doctor` says what is wrong with it, and `codespace schema` prints its JSON Schema for editors.",
    "[policy.md](policy.md) explains profiles, rules and hooks.",
  ].join("\n"),
  ["| field | type | default | |", "|---|---|---|---|", ...fieldRows("", configJson())].join("\n"),
  'A time is written as `"30 minutes"` or `"7 days"`.',
  "",
].join("\n\n")

const pages: ReadonlyArray<readonly [name: string, text: string]> = [
  ["tools.md", toolsPage],
  ["configuration.md", configurationPage],
]
const placeOf = (name: string) => new URL(`../docs/${name}`, import.meta.url)

if (process.argv.includes("--check")) {
  const stale = pages.filter(([name, text]) => !existsSync(placeOf(name)) || readFileSync(placeOf(name), "utf8") !== text)
  for (const [name] of stale) process.stderr.write(`docs/${name} is stale: run npm run docs\n`)
  process.exit(stale.length > 0 ? 1 : 0)
}
for (const [name, text] of pages) writeFileSync(placeOf(name), text)
