/** Folders as values: made for a test, compared after it. */
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { Effect } from "effect"

/** A fresh folder until the scope ends. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "codespace-test-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true })),
)

export type Content = string | { readonly text: string; readonly mode: number }

/** Writes files, text in Latin-1 so that any byte can be written, and their folders. */
export const writeTree = (root: string, files: Readonly<Record<string, Content>>): void => {
  for (const [name, content] of Object.entries(files)) {
    const place = path.join(root, name)
    fs.mkdirSync(path.dirname(place), { recursive: true })
    fs.writeFileSync(place, Buffer.from(typeof content === "string" ? content : content.text, "latin1"))
    fs.chmodSync(place, typeof content === "string" ? 0o644 : content.mode)
  }
}

/** Everything below a folder: `dir`, `link -> target`, or mode and bytes in Latin-1. */
export const readTree = (root: string, { modes = true }: { readonly modes?: boolean } = {}): Record<string, string> => {
  const tree: Record<string, string> = {}
  const visit = (folder: string) => {
    for (const entry of fs.readdirSync(path.join(root, folder), { withFileTypes: true })) {
      const name = path.posix.join(folder, entry.name)
      const place = path.join(root, name)
      if (entry.isDirectory()) {
        tree[name] = "dir"
        visit(name)
      } else if (entry.isSymbolicLink()) tree[name] = `link -> ${fs.readlinkSync(place)}`
      else tree[name] = `${modes ? `${(fs.statSync(place).mode & 0o7777).toString(8)} ` : ""}${fs.readFileSync(place, "latin1")}`
    }
  }
  visit("")
  return tree
}
