/** Patches through the built program: several workspaces with settings of their own, and texts of megabytes. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, expect, it } from "vitest"
import { type Connection, connect, makeHome, refusalOf, serve } from "../support/Program.ts"

const home = makeHome({ f: "same\nother\nsame\n" })
afterAll(() => home.remove())

const patch = "*** Begin Patch\n*** Update File: f\n@@\n-same\n+changed\n*** End Patch\n"

const fileOf = (folder: string): string => readFileSync(join(home.home, folder, "f"), "utf8")

it("R038: changes the named workspace by its own settings, and none where the name is missing or unknown", async () => {
  for (const folder of ["first", "strict"]) {
    mkdirSync(join(home.home, folder))
    writeFileSync(join(home.home, folder, "f"), "same\nother\nsame\n")
  }
  mkdirSync(join(home.env.XDG_CONFIG_HOME, "codespace"), { recursive: true })
  const workspaces = {
    first: { root: join(home.home, "first"), profile: "workspace-write", patch: { ambiguity: "first" } },
    strict: { root: join(home.home, "strict"), profile: "workspace-write" },
  }
  writeFileSync(join(home.env.XDG_CONFIG_HOME, "codespace/config.json"), JSON.stringify({ workspaces }))
  const connection = await connect("v2-2025", { stdio: home })
  try {
    const apply = (where: Record<string, string>) => connection.call("apply_patch", { patch, ...where })
    expect(refusalOf(await apply({}))?.code).toBe("INVALID_ARGUMENTS")
    expect(refusalOf(await apply({ workspace_id: "third" }))?.code).toBe("WORKSPACE_NOT_FOUND")
    for (const id of ["strict", "app"])
      expect(refusalOf(await apply({ workspace_id: id }))).toMatchObject({ code: "CONTEXT_AMBIGUOUS", details: { hunk: 1, lines: [1, 3] } })
    expect(["first", "strict", "app"].map(fileOf)).toEqual(Array(3).fill("same\nother\nsame\n"))

    const result = await apply({ workspace_id: "first" })
    expect(result.structuredContent).toMatchObject({ status: "applied", notes: ['"f": hunk 1 fits at lines 1, 3; the first was taken.'] })
    expect(["first", "strict", "app"].map(fileOf)).toEqual(["changed\nother\nsame\n", "same\nother\nsame\n", "same\nother\nsame\n"])
  } finally {
    await connection.close()
  }
})

it("R031: adds files of 300 KB and 2 MB, by stdio and by HTTP", async () => {
  const large = makeHome({})
  const line = "x".repeat(99)
  const addBoth = async (connection: Connection, name: string) => {
    for (const lines of [3_000, 20_000]) {
      const path = `${name}-${lines}`
      const text = `*** Begin Patch\n*** Add File: ${path}\n${`+${line}\n`.repeat(lines)}*** End Patch\n`
      const result = await connection.call("apply_patch", { workspace_id: "app", patch: text })
      expect(result.structuredContent).toMatchObject({ status: "applied", changes: [{ path, kind: "add", added: lines }] })
      expect(readFileSync(join(large.workspace, path), "utf8")).toBe(`${line}\n`.repeat(lines))
    }
  }
  const stdio = await connect("v2-2025", { stdio: large })
  await addBoth(stdio, "stdio").finally(stdio.close)
  const served = await serve(large)
  const http = await connect("v2-2025", { http: served })
  await addBoth(http, "http").finally(http.close)
  expect(await served.stop()).toBe(0)
  large.remove()
})
