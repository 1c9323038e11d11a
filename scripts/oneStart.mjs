/**
 * The files of a start as one. Splitting makes a file of each set of modules that the same commands share, so every
 * command that is added cuts the start into smaller pieces, and a file costs its time. What the entry loads with itself
 * is joined here; whatever else imports from the pieces gets it from the whole.
 */
import { basename } from "node:path"
import { build } from "esbuild"

const WHOLE = "start"
const importOf = /\b(import|export)\s*(?:\{([^}]*)\}\s*from\s*)?"\.\/([^"/]+)"/g

/** `files` are a build's texts by name, `outputs` its metafile's; `entry` runs the program and stays a file of its own. */
export const oneStart = async (files, outputs, entry) => {
  const outputOf = new Map(Object.entries(outputs).map(([path, output]) => [basename(path), output]))
  const loaded = new Set()
  const load = (name) => {
    if (loaded.has(name)) return
    loaded.add(name)
    for (const { kind, path } of outputOf.get(name).imports)
      if (kind === "import-statement" && files.has(basename(path))) load(basename(path))
  }
  load(entry)
  // A file that is asked for by its own name has to stay.
  const pieces = [...loaded].filter((name) => outputOf.get(name).entryPoint === undefined)
  const nameIn = (piece, name) => `p${pieces.indexOf(piece)}_${name}`

  const { outputFiles } = await build({
    stdin: {
      contents: pieces
        .map((piece) => `export {${outputOf.get(piece).exports.map((name) => `${name} as ${nameIn(piece, name)}`)}} from "./${piece}"`)
        .join("\n"),
    },
    plugins: [
      {
        name: "pieces",
        setup: ({ onLoad, onResolve }) => {
          onResolve({ filter: /^\.\// }, ({ path }) =>
            pieces.includes(basename(path)) ? { path: basename(path), namespace: "piece" } : { path, external: true },
          )
          onLoad({ filter: /.*/, namespace: "piece" }, ({ path }) => ({ contents: files.get(path) }))
        },
      },
    ],
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node22",
    minify: true,
    external: ["@vscode/ripgrep", "node-pty"],
    logLevel: "warning",
    write: false,
  })

  const whole = `${WHOLE}.mjs`
  const redirected = (text) =>
    text.replace(importOf, (found, word, names, piece) => {
      if (!pieces.includes(piece)) return found
      if (names === undefined) return `${word}"./${whole}"`
      const renamed = names.split(",").map((one) => {
        const [name, local = name] = one.trim().split(/\s+as\s+/)
        return `${nameIn(piece, name)} as ${local}`
      })
      return `${word}{${renamed.join(",")}}from"./${whole}"`
    })
  const others = [...files].filter(([name]) => !pieces.includes(name)).map(([name, text]) => [name, redirected(text)])
  return new Map([...others, [whole, outputFiles[0].text]])
}
