/**
 * Bundles the program. `dist/main.mjs` is a few lines that any Node can read: it checks the version, turns V8's compile
 * cache on and loads `dist/codespace.mjs`, the program in one file. They are two files because the cache only serves a
 * file that is loaded after it was turned on.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { basename } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

const root = fileURLToPath(new URL("..", import.meta.url))
const { engines, version } = JSON.parse(readFileSync(`${root}/package.json`, "utf8"))
const wanted = engines.node.replace(">=", "")

/** Replaces a file in one step, so that a program which starts meanwhile finds the old one or the new one, whole. */
const put = (name, content, mode) => {
  const target = `${root}/dist/${name}`
  writeFileSync(`${target}.${process.pid}`, content, { mode })
  renameSync(`${target}.${process.pid}`, target)
}

const { outputFiles } = await build({
  absWorkingDir: root,
  entryPoints: ["src/main.ts"],
  outfile: "dist/codespace.mjs",
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node22",
  minify: true,
  legalComments: "linked",
  external: ["@vscode/ripgrep"],
  // The module form of a package, where it has both: its other form may hide what it requires.
  mainFields: ["module", "main"],
  define: { CODESPACE_VERSION: JSON.stringify(version) },
  // CommonJS dependencies ask for `require`.
  banner: { js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);' },
  logLevel: "warning",
  write: false,
})

mkdirSync(`${root}/dist`, { recursive: true })
for (const { contents, path } of outputFiles) put(basename(path), contents, 0o644)

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
