/** What lives on this machine because of a test, whoever started it and whatever it did to hide. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs"

/** Living processes that run in `folder` or below, or run a program from there: a process can clean its environment, not this. */
export const livingIn = (folder: string): ReadonlyArray<number> =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) =>
      [linkOf(`/proc/${name}/cwd`), linkOf(`/proc/${name}/exe`)].some((path) => path === folder || path.startsWith(`${folder}/`)),
    )
    .filter((name) => !/\) [ZX] /.test(textOf(`/proc/${name}/stat`)))
    .map(Number)

/** Their command lines, to name them in a failure. */
export const commandsIn = (folder: string): ReadonlyArray<string> =>
  livingIn(folder).map((pid) => textOf(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim())

const linkOf = (path: string): string => {
  try {
    return readlinkSync(path)
  } catch {
    return ""
  }
}

const textOf = (path: string): string => {
  try {
    return readFileSync(path, "latin1")
  } catch {
    return ""
  }
}
