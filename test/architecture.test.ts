/** The layout's rules as checks: which folder may import which, and what no file may contain. */
import { readdirSync, readFileSync } from "node:fs"
import { basename, dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"

const root = fileURLToPath(new URL("../src", import.meta.url))
const files = readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => ({ file, text: readFileSync(join(root, file), "utf8") }))

/** Comments and the insides of strings say nothing about what code does. */
const codeOf = (text: string): string =>
  text
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/(^|[^:])\/\/.*$/gm, "$1")
    .replace(/"(?:[^"\\\n]|\\.)*"/g, '""')

const importsOf = (text: string): Array<string> =>
  [...text.matchAll(/^(?:import|export)[^"'\n]*?(?:\{[^}]*\})?[^"'\n]*?from\s+"([^"]+)"|\bimport\("([^"]+)"\)|^import "([^"]+)"/gm)].map(
    (match) => (match[1] ?? match[2] ?? match[3]) as string,
  )

/** What a file imports with its own loading, apart from types. */
const valueImportsOf = (text: string) =>
  [...text.matchAll(/^(?:import|export) (?!type )([^"']*?)from "([^"]+)"/gm)]
    .map(([, clause = "", from = ""]) => ({
      from,
      names: clause
        .replace(/[{}]/g, ",")
        .split(",")
        .map((name) => name.trim())
        .filter((name) => name !== "" && !name.startsWith("type ")),
    }))
    .filter(({ names }) => names.length > 0)

/** A file and all that is loaded with it. */
const startOf = (file: string, seen = new Map<string, string>()): ReadonlyMap<string, string> => {
  const text = files.find((one) => one.file === file)?.text
  if (text === undefined || seen.has(file)) return seen
  seen.set(file, text)
  for (const { from } of valueImportsOf(text)) if (from.startsWith(".")) startOf(relative(root, join(root, dirname(file), from)), seen)
  return seen
}

const folderOf = (file: string): string => (file.includes("/") ? (file.split("/")[0] as string) : file)

/** Which folders of ours a folder may import. */
const arrows: Record<string, ReadonlyArray<string>> = {
  schema: ["schema"],
  services: ["schema", "services"],
  layers: ["schema", "services", "layers"],
  runner: ["schema", "services", "runner"],
  mcp: ["schema", "services", "runner", "mcp"],
  cli: ["schema", "services", "layers", "runner", "mcp", "operator", "cli", "program.ts", "worker.ts"],
  "main.ts": ["layers", "cli"],
  "library.ts": ["schema", "services", "layers", "runner", "mcp"],
  operator: ["schema", "services", "operator"],
  "program.ts": ["schema", "services", "layers", "runner", "mcp", "operator"],
  "worker.ts": ["schema", "services", "layers", "runner"],
}

/** The only package a pure folder may use. */
const packages: Record<string, RegExp> = {
  schema: /^effect(\/|$)/,
  services: /^effect(\/|$)/,
  runner: /^effect(\/|$)/,
  operator: /^effect(\/|$)/,
}

const wrong = (check: (file: string, text: string) => ReadonlyArray<string>): ReadonlyArray<string> =>
  files.flatMap(({ file, text }) => check(file, text).map((what) => `${file}: ${what}`))

describe("the layout", () => {
  it("has files in every folder, and no other folder", () => {
    expect([...new Set(files.map(({ file }) => folderOf(file)))].sort()).toEqual(Object.keys(arrows).sort())
  })

  it("keeps the arrows", () => {
    const bad = wrong((file, text) =>
      importsOf(text)
        .filter((name) => name.startsWith("."))
        .map((name) => folderOf(relative(root, join(root, dirname(file), name))))
        .filter((target) => {
          if (file === "layers/App.ts" && target === "runner") return false
          return !arrows[folderOf(file)]?.includes(target)
        })
        .map((target) => `imports ${target}`),
    )
    expect(bad).toEqual([])
  })

  it("keeps schema, services and runner free of Node and of other packages", () => {
    const bad = wrong((file, text) => {
      const allowed = packages[folderOf(file)]
      return allowed === undefined ? [] : importsOf(text).filter((name) => !name.startsWith(".") && !allowed.test(name))
    })
    expect(bad).toEqual([])
  })

  it("names the SDK in the edges only, and the barrel of the platform nowhere", () => {
    const bad = wrong((file, text) =>
      importsOf(text).filter(
        (name) => (name.startsWith("@modelcontextprotocol/") && folderOf(file) !== "mcp") || name === "@effect/platform-node",
      ),
    )
    expect(bad).toEqual([])
  })

  it("keeps what starts slowly out of a start", () => {
    const slow = /^(effect\/.+|@modelcontextprotocol\/.+|jsonc-parser|unbash)$/
    const bad = [...startOf("main.ts")].flatMap(([file, text]) =>
      valueImportsOf(text)
        .filter(({ from, names }) => slow.test(from) || (from === "effect" && names.some((name) => name.startsWith("Schema"))))
        .map(({ from, names }) => `${file}: ${names.join(", ")} from ${from}`),
    )
    expect(bad).toEqual([])
  })

  it("gives no file a banned name", () => {
    const banned = /(Live|Impl|Shape|Base|Core|Common|Util|Utils|Helper|Helpers|Misc|Info|Data|Service|Manager|index)$/
    expect(files.map(({ file }) => basename(file, ".ts")).filter((name) => banned.test(name) && name !== "LeaseManager")).toEqual([])
  })

  it("keeps state out of modules", () => {
    expect(wrong((_file, text) => codeOf(text).match(/^(export )?(let|var) .*/gm) ?? [])).toEqual([])
  })

  it("leaves environment, clock, console and JSON text to the files that own them", () => {
    const owners: ReadonlyArray<{ readonly what: string; readonly pattern: RegExp; readonly owners: RegExp }> = [
      { what: "process.env", pattern: /\bprocess\.env\b/, owners: /^(main\.ts|layers\/(ConfigFile|HostEnvironment)\.ts)$/ },
      { what: "Date", pattern: /\bDate\.now\(|\bnew Date\(/, owners: /^$/ },
      { what: "console", pattern: /\bconsole\./, owners: /^$/ },
      { what: "JSON.parse", pattern: /\bJSON\.parse\(/, owners: /^(mcp\/|layers\/)/ },
    ]
    const bad = wrong((file, text) =>
      owners.filter((rule) => rule.pattern.test(codeOf(text)) && !rule.owners.test(file)).map((rule) => rule.what),
    )
    expect(bad).toEqual([])
  })

  it("names every service after its file", () => {
    const bad = wrong((file, text) =>
      [...text.matchAll(/Context\.(?:Service|Reference)[\s\S]*?\("(codespace\/[^"]+)"/g)]
        .map((match) => match[1] as string)
        .filter((key) => !key.startsWith(`codespace/${dirname(file)}/`)),
    )
    expect(bad).toEqual([])
  })

  it("opens every file with what it is about", () => {
    expect(files.filter(({ text }) => !text.startsWith("/**")).map(({ file }) => file)).toEqual([])
  })

  it("would notice: the checks find what they look for", () => {
    expect(importsOf('import { x } from "node:fs"\nimport type {\n  y,\n} from "../layers/A.ts"\nawait import("./B.ts")')).toEqual([
      "node:fs",
      "../layers/A.ts",
      "./B.ts",
    ])
    expect(codeOf('const a = "process.env" // process.env\n/* console. */ f()')).toBe('const a = "" \n f()')
  })
})
