/** Who runs the built program in a test: this user, and where this user may become another, an ordinary one. */
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { homedir } from "node:os"
import { main } from "./Program.ts"

export interface Who {
  readonly name: string
  /** Arguments in front of a command that run it as somebody else. */
  readonly as: ReadonlyArray<string>
  readonly uid: number
}

const isRoot = process.getuid?.() === 0

export const own: Who = { name: isRoot ? "root" : "an ordinary user", as: [], uid: process.getuid?.() ?? 0 }

const nobody: Who = { name: "an ordinary user", as: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], uid: 65534 }

/** Those of them that there are here; a test says when the second is missing. */
export const users = (test: string): ReadonlyArray<Who> => {
  if (!isRoot) return [own]
  const [program = "", ...rest] = [...nobody.as, process.execPath, main, "--version"]
  if (spawnSync(program, rest).status === 0) return [own, nobody]
  console.warn(`${test} runs as this user only: it may not become another, or that one cannot read the program`)
  return [own]
}

/** Where folders of a test lie that a sandboxed command is to see: not in `/tmp`, which it never sees. */
export const visibleFolder = (): string => (isRoot && existsSync("/home") ? "/home" : homedir())
