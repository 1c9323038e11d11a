/**
 * Bundles the program into dist/. `main.mjs` is a few lines that any Node can read: it checks the version, turns V8's
 * compile cache on and loads the program. That is a file for the start and some for what is loaded when it is first
 * needed: a file costs its time even where nothing of it runs, and the cache only serves files loaded after it was on.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { basename } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"
import { oneStart } from "./oneStart.mjs"

const root = fileURLToPath(new URL("..", import.meta.url))
const { engines, version } = JSON.parse(readFileSync(`${root}/package.json`, "utf8"))
const wanted = engines.node.replace(">=", "")

/** Replaces a file in one step, so that a program which starts meanwhile finds the old one or the new one, whole. */
const put = (name, content, mode) => {
  const target = `${root}/dist/${name}`
  writeFileSync(`${target}.${process.pid}`, content, { mode })
  renameSync(`${target}.${process.pid}`, target)
}

/**
 * `import { Effect, Schema } from "effect"` as imports of the modules themselves. Through the package's one door every
 * module that any file uses would be reached from every file, and so be part of the start.
 */
const perModule = (text) =>
  text.replace(/^import (type )?\{([^}]*)\} from "effect"$/gm, (_, allTypes, names) =>
    names
      .split(",")
      .map((name) => name.trim())
      .filter((name) => name !== "")
      .map((name) => {
        const isType = allTypes !== undefined || name.startsWith("type ")
        const module = name.replace(/^type /, "")
        return /^[A-Z]/.test(module)
          ? `import ${isType ? "type " : ""}* as ${module} from "effect/${module}"`
          : `import { ${module} } from "effect/Function"`
      })
      .join("\n"),
  )

const modules = {
  name: "effect's modules",
  setup: (build) => {
    build.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => ({ contents: perModule(readFileSync(path, "utf8")), loader: "ts" }))
  },
}

// CommonJS dependencies ask for `require`.
const require = 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);'

// Node 24 reads the sources as they are.
const { listTools } = await import("../src/mcp/Tools.ts")

const { metafile, outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: { codespace: "src/main.ts" },
  outdir: "dist",
  outExtension: { ".js": ".mjs" },
  chunkNames: "[name]-[hash]",
  bundle: true,
  splitting: true,
  platform: "node",
  format: "esm",
  target: "node22",
  minify: true,
  external: ["@vscode/ripgrep", "node-pty"],
  // The module form of a package, where it has both: its other form may hide what it requires.
  mainFields: ["module", "main"],
  define: { CODESPACE_VERSION: JSON.stringify(version), CODESPACE_TOOLS: JSON.stringify(listTools()) },
  banner: { js: require },
  plugins: [modules],
  metafile: true,
  logLevel: "warning",
  write: false,
})

// The package's exports, for programs that have effect themselves, so theirs is used. Their types are made by `npm pack`.
const { outputFiles: libraries } = await build({
  absWorkingDir: root,
  entryPoints: { client: "src/operator/Client.ts", library: "src/library.ts" },
  outdir: "dist",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  format: "esm",
  target: "node22",
  external: ["@vscode/ripgrep", "node-pty", "effect", "node:*"],
  mainFields: ["module", "main"],
  logLevel: "warning",
  write: false,
})

/** The licences of the packages whose code is in the bundle, which ask to go with it. */
const licences = () => {
  const folders = Object.keys(metafile.inputs).flatMap((path) => path.match(/^.*node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0] ?? [])
  return [...new Set(folders)].sort().map((folder) => {
    const { license, name, version } = JSON.parse(readFileSync(`${root}/${folder}/package.json`, "utf8"))
    const file = readdirSync(`${root}/${folder}`).find((entry) => /^licen[cs]e/i.test(entry))
    const text = file === undefined ? "" : `\n\n${readFileSync(`${root}/${folder}/${file}`, "utf8").trim()}`
    return `${name} ${version} (${license})${text}\n`
  })
}

mkdirSync(`${root}/dist`, { recursive: true })
put("LICENSES.txt", licences().join(`\n${"-".repeat(80)}\n\n`), 0o644)
const program = await oneStart(new Map(outputFiles.map(({ path, text }) => [basename(path), text])), metafile.outputs, "codespace.mjs")
const files = new Map([...program, ...libraries.map(({ path, text }) => [basename(path), text])])
const written = new Set(["main.mjs", "LICENSES.txt", "types", ...files.keys()])
for (const [name, text] of files) put(name, text, 0o644)

const [major, minor] = wanted.split(".")
put(
  "main.mjs",
  `#!/usr/bin/env node
const [major, minor] = process.versions.node.split(".").map(Number)
if (major < ${major} || (major === ${major} && minor < ${minor})) {
  process.stderr.write("codespace needs Node ${wanted} or newer; this is Node " + process.versions.node + " at " + process.execPath + "\\n")
  process.exit(1)
}
const { enableCompileCache } = await import("node:module")
enableCompileCache?.()
await import("./codespace.mjs")
`,
  0o755,
)

// What an earlier build left behind goes last, when nothing refers to it any more.
for (const name of readdirSync(`${root}/dist`)) if (!written.has(name)) rmSync(`${root}/dist/${name}`, { recursive: true })
