/**
 * Writes docs/tools.md from the tool table. With --check it writes nothing and exits 1 when the page is stale.
 */
import { readFileSync, writeFileSync } from "node:fs"
import type { ListedTool } from "../src/mcp/ToolList.ts"
import { listTools } from "../src/mcp/Tools.ts"

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

const page = new URL("../docs/tools.md", import.meta.url)

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

const text = [
  "# Tools",
  "This page is made from the tool table by `npm run docs`. Every refusal a call can get is listed in [refusals.md](refusals.md).",
  ...listTools().map(section),
  "",
].join("\n\n")

if (process.argv.includes("--check")) {
  if (readFileSync(page, "utf8") !== text) {
    process.stderr.write("docs/tools.md is stale: run npm run docs\n")
    process.exit(1)
  }
} else writeFileSync(page, text)
