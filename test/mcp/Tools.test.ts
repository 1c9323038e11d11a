import { Arbitrary, Effect, Schema } from "effect"
import { describe, expect, it } from "vitest"
import { offered } from "../../src/mcp/ToolList.ts"
import { entries, listTools } from "../../src/mcp/Tools.ts"
import { ToolChoice } from "../../src/schema/Config.ts"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import { type AppConfig, builtInProfiles } from "../../src/services/AppConfig.ts"

const rows = listTools()

/** Every object schema inside a JSON Schema, with where it stands. */
const schemasIn = (value: unknown, at: string): ReadonlyArray<readonly [string, Record<string, unknown>]> =>
  typeof value !== "object" || value === null
    ? []
    : [
        ...("type" in value || "properties" in value ? [[at, value as Record<string, unknown>] as const] : []),
        ...Object.entries(value).flatMap(([key, inner]) => schemasIn(inner, `${at}.${key}`)),
      ]

/** Numbers, and what names something: ids, versions, cursors, paths. */
const figuresIn = (value: unknown, at: string): ReadonlyArray<readonly [string, string]> => {
  if (typeof value === "number") return [[at, String(value)]]
  if (typeof value === "string") return /(_id|_key|cursor|version|before|after|path)$/.test(at) ? [[at, value]] : []
  if (typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => figuresIn(inner, `${at}.${key}`))
}

/** As it is, or as it stands in a JSON text. */
const says = (text: string, figure: string): boolean => text.includes(figure) || text.includes(JSON.stringify(figure).slice(1, -1))

const configOf = (profiles: ReadonlyArray<string>, tools: ReadonlyArray<string> = ["all"], approvals = "off", resolver = "operator") =>
  ({
    tools,
    approvals: { resolver },
    workspaces: new Map(profiles.map((name, at) => [WorkspaceId.make(`w${at}`), { approvals, profile: builtInProfiles.get(name) }])),
  }) as unknown as AppConfig["Service"]

const namesOf = (config: AppConfig["Service"]) => offered(rows, config).map(({ name }) => name)

describe("the tool table", () => {
  it("has the tools of the contract", () => {
    expect(rows.map(({ name }) => name).sort()).toEqual(
      [
        ...["workspace_info", "read", "find", "search", "apply_patch", "edit", "write", "exec_command", "write_stdin"],
        ...["read_process", "list_processes", "terminate_process", "operation_status", "operation_list"],
        ...["work_open", "steer_status", "steer_claim_next", "steer_complete", "work_finish"],
        ...["operation_resume", "approval_create", "approval_resolve"],
      ].sort(),
    )
  })

  it("can be picked from tool by tool, and set by set", () => {
    const sets = rows.flatMap(({ set }) => set ?? [])
    expect([...ToolChoice.literals].sort()).toEqual([...new Set(["all", ...sets, ...rows.map(({ name }) => name)])].sort())
  })

  it.each(rows.map((row) => [row.name, row] as const))("%s is described within the limits", (_name, row) => {
    expect(row.name).toMatch(/^[a-z_]{1,40}$/)
    expect(row.title.length).toBeGreaterThan(3)
    expect(row.description.length).toBeGreaterThan(40)
    expect(row.description.length).toBeLessThanOrEqual(400)
    for (const hint of Object.values(row.hints)) expect(typeof hint).toBe("boolean")
  })

  it.each(rows.map((row) => [row.name, row] as const))("%s has schemas that strict clients take (R115)", (_name, row) => {
    for (const [which, schema] of [
      ["input", row.input],
      ["output", row.output],
    ] as const) {
      expect([which, schema["type"]]).toEqual([which, "object"])
      for (const key of ["anyOf", "oneOf", "allOf", "$ref"]) expect(schema).not.toHaveProperty(key)
      // Unknown arguments are refused; a result may have more fields in a later version.
      expect([which, schema["additionalProperties"]]).toEqual([which, which === "input" ? false : undefined])
      expect(JSON.stringify(schema)).not.toContain('"null"')
      for (const [at, inner] of schemasIn(schema, which)) {
        if (inner["required"] !== undefined) expect([at, Array.isArray(inner["required"])]).toEqual([at, true])
        // Some clients skip a description inside allOf.
        expect([at, inner["allOf"]]).toEqual([at, undefined])
      }
    }
  })

  it.each(rows.map((row) => [row.name, row] as const))("%s describes every argument", (_name, row) => {
    for (const [name, property] of Object.entries((row.input["properties"] ?? {}) as Record<string, { readonly description?: string }>))
      expect([name, property.description?.length ?? 0]).not.toEqual([name, 0])
  })

  it.each(entries.map((entry) => [entry.tool.name, entry] as const))(
    "%s says every id and number of a result in its text",
    async (_name, entry) => {
      const codec = Schema.toCodecJson(entry.tool.successSchema as Schema.Codec<unknown>)
      const results = await Effect.runPromise(Arbitrary.sampleEffect(Arbitrary.schema(codec), { count: 100, seed: 7 }))
      for (const result of results) {
        const encoded = Schema.encodeSync(codec)(result) as Schema.JsonObject
        const text = entry.text(encoded)
        for (const [at, figure] of figuresIn(encoded, "")) expect([at, figure, says(text, figure)]).toEqual([at, figure, true])
      }
    },
  )

  it("has a title and all four hints for each tool (R116)", () => {
    for (const { hints, title } of rows) {
      expect(title).not.toBe("")
      for (const hint of ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] as const)
        expect(typeof hints[hint]).toBe("boolean")
    }
  })

  it("says truthfully what changes something (R116)", () => {
    const changing = rows.filter(({ hints }) => !hints.readOnlyHint).map(({ name }) => name)
    expect(changing.sort()).toEqual(
      [
        ...["apply_patch", "edit", "exec_command", "steer_claim_next", "steer_complete", "terminate_process", "work_finish", "work_open"],
        ...["write", "write_stdin", "operation_resume", "approval_create", "approval_resolve"],
      ].sort(),
    )
    for (const { hints } of rows) if (hints.readOnlyHint) expect(hints.destructiveHint).toBe(false)
  })

  it("costs a model at most 5,000 tokens, at four characters a token", () => {
    // Titles and hints are for the client: no client that we know passes them on to its model.
    const listed = rows.map(({ description, input, name }) => ({ name, description, inputSchema: input }))
    expect(JSON.stringify(listed).length / 4).toBeLessThanOrEqual(5000)
  })

  it("offers no tool that no workspace could use, and what the configuration picks", () => {
    const works = ["work_open", "steer_status", "steer_claim_next", "steer_complete", "work_finish"]
    expect(namesOf(configOf(["read-only"]))).toEqual([
      "workspace_info",
      "read",
      "find",
      "search",
      "operation_status",
      "operation_list",
      ...works,
    ])
    expect(namesOf(configOf(["read-only"], ["works"]))).toEqual(["workspace_info", "operation_status", "operation_list", ...works])
    const all = entries.map(({ tool }) => tool.name)
    const holding = ["operation_resume", "approval_create", "approval_resolve"]
    expect(namesOf(configOf(["read-only", "workspace-write"]))).toEqual(all.filter((name) => !holding.includes(name)))
    expect(namesOf(configOf(["workspace-write"], ["all"], "confirm"))).toEqual(all.filter((name) => name !== "approval_resolve"))
    expect(namesOf(configOf(["workspace-write"], ["all"], "confirm", "caller"))).toEqual(all)
    expect(namesOf(configOf(["workspace-write"], ["patch", "read"]))).toEqual([
      ...["workspace_info", "read", "apply_patch", "edit", "write", "operation_status", "operation_list"],
    ])
  })
})
