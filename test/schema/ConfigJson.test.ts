/** The configuration as a JSON Schema: what it says must be what the decoder does. */
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { configTemplate } from "../../src/cli/ConfigTemplate.ts"
import { parseConfig } from "../../src/layers/ConfigText.ts"
import { decodeConfig } from "../../src/schema/Config.ts"
import { configJson, type JsonSchema } from "../../src/schema/ConfigJson.ts"

const fieldsBelow = (json: JsonSchema, path: string): ReadonlyArray<readonly [path: string, field: JsonSchema]> =>
  Object.entries(json.properties ?? {}).flatMap(([name, field]) => [
    [`${path}${name}`, field] as const,
    ...fieldsBelow(field, `${path}${name}.`),
  ])

const fields = new Map(fieldsBelow(configJson(), ""))

describe("the JSON Schema of the configuration", () => {
  it("has the description and the default of fields with a default", () => {
    assert.deepInclude(fields.get("http.port"), { type: "integer", maximum: 65535, default: 8787, description: "0 takes any free port" })
    assert.deepInclude(fields.get("retention.processes"), { type: "string", default: "7 days" })
  })

  it("says no default of what must be there", () => {
    const [workspace] = Object.values(fields.get("workspaces")?.patternProperties ?? {})
    assert.deepStrictEqual(workspace?.required, ["root"])
    assert.notProperty(workspace?.properties?.["root"], "default")
  })

  it("gives defaults that a file may say", () => {
    for (const [path, { default: value }] of fields) {
      if (value === undefined) continue
      const file = path.split(".").reduceRight<unknown>((inner, name) => ({ [name]: inner }), value)
      assert.deepStrictEqual([path, Result.isSuccess(decodeConfig(file))], [path, true])
    }
  })
})

describe("the first configuration file", () => {
  const text = configTemplate(configJson(), { app: "/srv/app", "other-1": "/srv/other" })
  const decoded = (source: string) => Result.getOrThrow(Result.flatMap(parseConfig(source), decodeConfig))

  it("registers the folders and says nothing else", () => {
    const minimal = {
      workspaces: { app: { root: "/srv/app", profile: "workspace-write" }, "other-1": { root: "/srv/other", profile: "workspace-write" } },
    }
    assert.deepStrictEqual({ ...decoded(text), $schema: undefined }, { ...Result.getOrThrow(decodeConfig(minimal)), $schema: undefined })
  })

  it("can be used with every field uncommented, and then holds what was the default", () => {
    const whole = text.replace(/^( *)\/\/ (?=["\]}[{]| +["\]}[{])/gmu, "$1")
    assert.isBelow(whole.match(/^ *\/\/ "/gmu)?.length ?? 0, 2)
    const { environments, profiles: _, ...rest } = decoded(whole)
    const { environments: usual, profiles: __, ...defaults } = decoded(text)
    assert.deepStrictEqual(rest, defaults)
    assert.deepStrictEqual(environments, usual)
    for (const [path, { default: value }] of fields) if (value !== undefined) assert.include(whole, `"${path.split(".").at(-1)}": `)
  })
})
