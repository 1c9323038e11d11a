/**
 * One session, every way to hold it: the same calls over stdio and HTTP, in both eras, through both generations of the
 * SDK's client. Each way is held to what the contract says, and all of them to each other.
 */
import { execFileSync } from "node:child_process"
import { readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import {
  type Connection,
  connect,
  type Home,
  makeHome,
  type Peer,
  refusalOf,
  serve,
  type ToolResult,
  type Transport,
  textOf,
} from "../support/Program.ts"

const files = {
  "README.md": "# Sample\n\nhello\n",
  "src/math.js": "export const add = (a, b) => a - b\n",
  "src/twice.txt": "same\nother\nsame\n",
  "data.bin": "\0\u0001\0",
  "folder/inside.txt": "inside\n",
}

const patch = `*** Begin Patch
*** Update File: src/math.js
-export const add = (a, b) => a - b
+export const add = (a, b) => a + b
*** End Patch`

type Step = readonly [label: string, tool: string, args: (seen: Record<string, ToolResult>) => Record<string, unknown>, code?: string]

const app = { workspace_id: "app" }
const field = (result: ToolResult | undefined, name: string) => String(result?.structuredContent?.[name])

/** The session: a label, a tool, its arguments from what was answered before, and the refusal it must get, if any. */
const session: ReadonlyArray<Step> = [
  ["list workspaces", "workspace_info", () => ({})],
  ["show workspace", "workspace_info", () => app],
  ["unknown workspace", "workspace_info", () => ({ workspace_id: "nope" }), "WORKSPACE_NOT_FOUND"],
  ["read", "read", () => ({ ...app, path: "src/math.js" })],
  ["read lines", "read", () => ({ ...app, path: "README.md", start_line: 3, max_lines: 1 })],
  ["read binary", "read", () => ({ ...app, path: "data.bin" })],
  ["read binary as text", "read", () => ({ ...app, path: "data.bin", encoding: "text" }), "NOT_TEXT"],
  ["read missing", "read", () => ({ ...app, path: "src/maths.js" }), "PATH_NOT_FOUND"],
  ["read a folder", "read", () => ({ ...app, path: "folder" }), "NOT_A_FILE"],
  ["read a pipe", "read", () => ({ ...app, path: "pipe" }), "SPECIAL_FILE_REJECTED"],
  ["write through a link", "write", () => ({ ...app, path: "link", content: "x" }), "SYMLINK_REJECTED"],
  ["read by a link that leaves", "read", () => ({ ...app, path: "out" }), "PATH_ESCAPE"],
  ["edit UTF-16", "edit", () => ({ ...app, path: "wide.txt", edits: [{ old: "a", new: "b" }] }), "ENCODING_UNSUPPORTED"],
  ["read outside", "read", () => ({ ...app, path: "../../etc/passwd" }), "PATH_ESCAPE"],
  ["unknown argument", "read", () => ({ ...app, path: "README.md", approved: true }), "INVALID_ARGUMENTS"],
  ["missing argument", "read", () => ({ path: "README.md" }), "INVALID_ARGUMENTS"],
  ["find", "find", () => ({ ...app, glob: "**/*.js" })],
  ["search", "search", () => ({ ...app, pattern: "a - b", literal: true })],
  ["preview", "apply_patch", () => ({ ...app, patch, check_only: true })],
  ["stale version", "apply_patch", () => ({ ...app, patch, expected_versions: { "src/math.js": "0123456789abcdef" } }), "VERSION_CONFLICT"],
  [
    "apply",
    "apply_patch",
    (seen) => ({ ...app, patch, operation_key: "fix-1", expected_versions: { "src/math.js": field(seen["read"], "version") } }),
  ],
  [
    "apply again",
    "apply_patch",
    (seen) => ({ ...app, patch, operation_key: "fix-1", expected_versions: { "src/math.js": field(seen["read"], "version") } }),
  ],
  ["key with other arguments", "apply_patch", () => ({ ...app, patch, operation_key: "fix-1" }), "OPERATION_KEY_CONFLICT"],
  [
    "key for the preview",
    "apply_patch",
    (seen) => ({
      ...app,
      patch,
      operation_key: "fix-1",
      check_only: true,
      expected_versions: { "src/math.js": field(seen["read"], "version") },
    }),
    "CHECK_ONLY_CONFLICT",
  ],
  ["context gone", "apply_patch", () => ({ ...app, patch }), "CONTEXT_NOT_FOUND"],
  ["no patch", "apply_patch", () => ({ ...app, patch: "hello" }), "INVALID_PATCH"],
  [
    "ambiguous",
    "apply_patch",
    () => ({ ...app, patch: "*** Begin Patch\n*** Update File: src/twice.txt\n-same\n+new\n*** End Patch" }),
    "CONTEXT_AMBIGUOUS",
  ],
  [
    "add what exists",
    "apply_patch",
    () => ({ ...app, patch: "*** Begin Patch\n*** Add File: README.md\n+x\n*** End Patch" }),
    "ADD_FILE_EXISTS",
  ],
  [
    "move onto a file",
    "apply_patch",
    () => ({ ...app, patch: "*** Begin Patch\n*** Update File: README.md\n*** Move to: src/math.js\n@@\n-hello\n+bye\n*** End Patch" }),
    "MOVE_DESTINATION_EXISTS",
  ],
  ["protected", "write", () => ({ ...app, path: ".git/hooks/pre-commit", content: "x" }), "PATH_PROTECTED"],
  ["edit", "edit", () => ({ ...app, path: "README.md", edits: [{ old: "hello", new: "$& there" }] })],
  ["write", "write", () => ({ ...app, path: "new/file.txt", content: "one\ntwo\n", expected_version: "absent" })],
  ["status by key", "operation_status", () => ({ ...app, operation_key: "fix-1" })],
  ["status by id", "operation_status", (seen) => ({ operation_id: field(seen["edit"], "operation_id") })],
  ["status of nothing", "operation_status", () => ({ operation_id: "op_none" }), "OPERATION_NOT_FOUND"],
  ["list of operations", "operation_list", () => ({ ...app, state: "done", kind: "edit" })],
  ["run", "exec_command", () => ({ ...app, command: ["sh", "-c", "echo out; exit 3"] })],
  ["no such command", "exec_command", () => ({ ...app, command: ["no-such-program"] }), "COMMAND_NOT_FOUND"],
  ["no such folder", "exec_command", () => ({ ...app, command: ["true"], cwd: "nowhere" }), "CWD_INVALID"],
  ["variable not allowed", "exec_command", () => ({ ...app, command: ["env"], env: { SECRET: "x" } }), "POLICY_DENIED"],
  ["too long a time", "exec_command", () => ({ ...app, command: ["true"], timeout_ms: 86_400_000 }), "LIMIT_EXCEEDED"],
  ["start", "exec_command", () => ({ ...app, command: ["sleep", "300"], yield_ms: 50 })],
  ["busy", "exec_command", () => ({ ...app, command: ["true"], lease_wait_ms: 0 }), "WORKSPACE_BUSY"],
  ["list processes", "list_processes", () => app],
  ["write to closed stdin", "write_stdin", (seen) => ({ process_id: field(seen["start"], "process_id"), data: "x" }), "STDIN_CLOSED"],
  ["stop", "terminate_process", (seen) => ({ process_id: field(seen["start"], "process_id") })],
  ["write to an ended process", "write_stdin", (seen) => ({ process_id: field(seen["start"], "process_id"), data: "x" }), "PROCESS_EXITED"],
  ["read after the end", "read_process", (seen) => ({ process_id: field(seen["run"], "process_id") })],
  ["open a work", "work_open", () => ({ ...app, title: "the session", operation_key: "work-1" })],
  ["open it again", "work_open", () => ({ ...app, title: "the session", operation_key: "work-1" })],
  ["nothing to claim", "steer_claim_next", (seen) => ({ work_id: field(seen["open a work"], "work_id") })],
  [
    "write in the work",
    "write",
    (seen) => ({ ...app, path: "new/in-work.txt", content: "x\n", work_id: field(seen["open a work"], "work_id") }),
  ],
  [
    "refused in the work",
    "exec_command",
    (seen) => ({ ...app, command: ["no-such-program"], work_id: field(seen["open a work"], "work_id") }),
    "COMMAND_NOT_FOUND",
  ],
  ["unknown work", "write", () => ({ ...app, path: "new/no.txt", content: "x\n", work_id: "work_none" }), "WORK_NOT_FOUND"],
  ["status of the work", "steer_status", (seen) => ({ work_id: field(seen["open a work"], "work_id") })],
  [
    "no such instruction",
    "steer_complete",
    (seen) => ({ work_id: field(seen["open a work"], "work_id"), instruction_id: "ins_none", status: "done" }),
    "INSTRUCTION_NOT_FOUND",
  ],
  ["close the work", "work_finish", (seen) => ({ work_id: field(seen["open a work"], "work_id") })],
  ["unknown process", "read_process", () => ({ process_id: "proc_none" }), "PROCESS_NOT_FOUND"],
]

const ways: ReadonlyArray<{ readonly transport: Transport; readonly peer: Peer }> = (["stdio", "http"] as const).flatMap((transport) =>
  (["v2-2025", "v2-2026", "v1-2025"] as const).map((peer) => ({ transport, peer })),
)

/** What may differ from run to run: ids, times, durations, pids in a holder's name. */
const masked = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value)
      .replace(/\b(op|proc|work)_[0-9a-z]+/g, "$1_*")
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
      .replace(/(\\?"(?:duration_ms|fence|waited_ms)\\?":|duration_ms: |waited )\d+/g, "$10")
      .replace(/caller of \w+|of (local|owner)/g, "of <caller>")
      .replace(/codespace-test-\w+/g, "<home>"),
  )

const homes: Array<Home> = []
const transcripts = new Map<string, Record<string, ToolResult>>()

const hold = async (connection: Connection): Promise<Record<string, ToolResult>> => {
  const seen: Record<string, ToolResult> = {}
  for (const [label, tool, args] of session) seen[label] = await connection.call(tool, args(seen))
  return seen
}

afterAll(() => {
  for (const home of homes) home.remove()
})

describe.each(ways)("a session over $transport with $peer", ({ peer, transport }) => {
  it("is answered as the contract says", async () => {
    const home = makeHome(files)
    homes.push(home)
    execFileSync("mkfifo", [join(home.workspace, "pipe")])
    symlinkSync("README.md", join(home.workspace, "link"))
    symlinkSync("/etc/passwd", join(home.workspace, "out"))
    writeFileSync(join(home.workspace, "wide.txt"), "\ufeffa\n", "utf16le")
    const served = transport === "http" ? await serve(home) : undefined
    const connection = await connect(peer, served ? { http: served } : { stdio: home })
    try {
      const seen = await hold(connection)
      for (const [label, , , code] of session) {
        expect([label, refusalOf(seen[label] as ToolResult)?.code]).toEqual([label, code])
        expect([label, seen[label]?.isError ?? false]).toEqual([label, code !== undefined])
      }
      const structured = (label: string) => seen[label]?.structuredContent ?? {}
      const { work_id } = structured("open a work")
      expect(structured("open it again")["work_id"]).toBe(work_id)
      const coordination = { work_id, state: "open", queued: 0, claimed: 0 }
      for (const label of ["open a work", "nothing to claim", "write in the work", "status of the work"])
        expect([label, structured(label)["coordination"]]).toEqual([label, coordination])
      expect(textOf(seen["write in the work"] as ToolResult)).toContain(`"work_id":"${work_id}"`)
      expect(structured("write")).not.toHaveProperty("coordination")
      expect(seen["refused in the work"]?._meta?.["codespace/coordination"]).toEqual(coordination)
      expect(structured("close the work")).toEqual({ closed: true, coordination: { ...coordination, state: "closed" } })
      expect(structured("read")["version"]).toMatch(/^[0-9a-f]{16}$/)
      expect(structured("read binary")).toMatchObject({ binary: true, size: 3 })
      expect(structured("find")["paths"]).toEqual(["src/math.js"])
      expect(structured("search")["matches"]).toMatchObject([{ path: "src/math.js", line: 1 }])
      expect(structured("preview")).toMatchObject({
        status: "checked",
        diff: expect.stringContaining("+export const add = (a, b) => a + b"),
      })
      expect(structured("apply")).toMatchObject({
        status: "applied",
        changes: [{ path: "src/math.js", kind: "update", before: structured("read")["version"], added: 1, removed: 1 }],
      })
      expect(structured("apply again")).toEqual(structured("apply"))
      expect(readFileSync(join(home.workspace, "src/math.js"), "utf8")).toBe("export const add = (a, b) => a + b\n")
      expect(readFileSync(join(home.workspace, "README.md"), "utf8")).toBe("# Sample\n\n$& there\n")
      expect(readFileSync(join(home.workspace, "new/file.txt"), "utf8")).toBe("one\ntwo\n")
      expect(structured("status by key")).toMatchObject({ kind: "apply_patch", state: "done", operation_key: "fix-1" })
      expect(structured("status by id")).toMatchObject({ kind: "edit", changes: [{ path: "README.md" }] })
      expect(structured("run")).toMatchObject({ state: "exited", exit_code: 3, output: "out\n", eof: true, ended_by: "itself" })
      expect(structured("start")).toMatchObject({ state: "running", eof: false })
      expect(structured("stop")).toMatchObject({ state: "terminated", ended_by: "caller" })
      expect(structured("read after the end")).toMatchObject({ output: "out\n", exit_code: 3, eof: true })
      transcripts.set(`${transport} ${peer}`, seen)
    } finally {
      await connection.close()
      if (served) expect(await served.stop()).toBe(0)
    }
  })
})

describe("the ways compared", () => {
  it("gives the same results and refusals in all of them", () => {
    const [first, ...others] = [...transcripts.entries()]
    expect(transcripts.size).toBe(ways.length)
    for (const [way, transcript] of others)
      for (const [label] of session) expect([way, masked(plain(transcript[label]))]).toEqual([way, masked(plain(first?.[1][label]))])
  })

  it("says every id and number of the structured part in the text as well", () => {
    const transcript = transcripts.get("stdio v2-2025") ?? {}
    let figures = 0
    for (const [label] of session) {
      const result = transcript[label] as ToolResult
      const text = textOf(result)
      for (const [path, figure] of figuresOf(result.structuredContent ?? {}, "")) {
        figures += 1
        expect([label, path, text.includes(String(figure))]).toEqual([label, path, true])
      }
    }
    expect(figures).toBeGreaterThan(100)
  })
})

/** What the eras may differ in: the envelope of a result, not what it says. */
const plain = (result: ToolResult | undefined) => {
  const { content, isError, structuredContent, _meta } = result ?? { content: [] }
  return { content, isError: isError ?? false, structuredContent, refusal: _meta?.["codespace/refusal"] }
}

const figuresOf = (value: unknown, path: string): ReadonlyArray<readonly [string, string | number]> => {
  if (typeof value === "number") return [[path, value]]
  if (typeof value === "string")
    return /^(op|proc)_|^[0-9a-f]{16}$|(_id|cursor|version)$/.test(value) || /(_id|cursor|version|path|before|after)$/.test(path)
      ? [[path, value]]
      : []
  if (typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => figuresOf(inner, `${path}.${key}`))
}
