/** What is in a folder, for whoever looks for something below it: what cannot be listed here cannot be listed by a command either. */
import { type Dirent, readdirSync } from "node:fs"

/** None where it cannot be listed, or is no folder. */
export const entriesOf = (folder: string): ReadonlyArray<Dirent> => {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return []
  }
}

/** The names of the folders in it; links to folders are none. */
export const foldersIn = (folder: string): ReadonlyArray<string> =>
  entriesOf(folder).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
