/**
 * The two servers under one set of verbs, so that a job is written once. A verb takes workspace paths and answers the plain
 * fact a job checks: text, paths, exit code.
 */
import { fileURLToPath } from "node:url"

const here = (path) => fileURLToPath(new URL(path, import.meta.url))

export const builtServer = here("../dist/main.mjs")

/**
 * `work` is the folder served (its name is the workspace id); `env` the environment both servers get; `wideConfig` a
 * configuration that lets more commands run at once than there are by default.
 */
export const makeServers = ({ work, env, wideConfig }) => {
  const workspace = { workspace_id: work.slice(work.lastIndexOf("/") + 1) }
  const node = process.execPath
  const wide = { key: "codespace, wide", argv: [node, builtServer, "mcp", "--config", wideConfig] }
  return [
    { name: "codespace", argv: [node, builtServer, "mcp", work], wide, cwd: work, env, ...codespaceVerbs(workspace) },
    { name: "floor", argv: [node, here("floor.mjs")], cwd: work, env, ...floorVerbs },
  ]
}

export const editPatch = (edits) => {
  const sections = edits.map(
    ({ path, before, old, text, after }) => `*** Update File: ${path}\n@@\n ${before}\n-${old}\n+${text}\n ${after}\n`,
  )
  return `*** Begin Patch\n${sections.join("")}*** End Patch\n`
}

/** `content` ends with a newline. */
export const addPatch = (path, content) =>
  `*** Begin Patch\n*** Add File: ${path}\n+${content.slice(0, -1).replaceAll("\n", "\n+")}\n*** End Patch\n`

const codespaceVerbs = (workspace) => {
  const call = async (client, tool, args) => (await client.call(tool, { ...workspace, ...args })).structuredContent
  return {
    needs: ["read", "find", "search", "apply_patch", "exec_command"],
    /** All of the file: a server may answer in pages. */
    read: async (client, path) => {
      let page = await call(client, "read", { path, max_bytes: 2_000_000 })
      let text = page.text
      while (page.truncated) {
        page = await call(client, "read", { path, max_bytes: 2_000_000, start_byte: page.next_byte ?? Buffer.byteLength(text) })
        text += page.text
      }
      return text
    },
    find: async (client, root, suffix) => {
      const args = { glob: `${root}/**/*${suffix}`, limit: 1_000 }
      let page = await call(client, "find", args)
      const paths = page.paths
      while (page.truncated) {
        page = await call(client, "find", { ...args, cursor: page.cursor })
        paths.push(...page.paths)
      }
      return paths
    },
    search: async (client, root, text) => {
      const page = await call(client, "search", { pattern: text, literal: true, glob: `${root}/**`, limit: 1_000 })
      return page.matches.map((match) => match.path)
    },
    edit: (client, edits) => call(client, "apply_patch", { patch: editPatch(edits) }),
    add: (client, path, content) => call(client, "apply_patch", { patch: addPatch(path, content) }),
    run: async (client, command) => (await call(client, "exec_command", { command, access: "shared", yield_ms: 15_000 })).exit_code,
    /** Starts a program that answers what it is told. */
    talker: async (client, command, tty) =>
      (
        await call(client, "exec_command", {
          command,
          access: "shared",
          yield_ms: 0,
          stdin: "open",
          ...(tty ? { tty: { rows: 24, cols: 80 } } : {}),
        })
      ).process_id,
    /** Tells it something and gives what it answered first. */
    tell: async (client, process_id, data) =>
      (await client.call("write_stdin", { process_id, data, yield_ms: 5_000 })).structuredContent.output,
    hush: (client, process_id) => client.call("terminate_process", { process_id, grace_ms: 0 }),
    /** What confines commands here, as the server says it; the time of `true` depends on it. */
    enforcement: async (client) => (await call(client, "workspace_info", {})).enforcement,
  }
}

const text = async (client, tool, args) => (await client.call(tool, args)).content[0].text
const lines = (output) => output.split("\n").filter((line) => line !== "")

const floorVerbs = {
  needs: ["read", "find", "search", "edit", "write", "exec"],
  read: (client, path) => text(client, "read", { path }),
  find: async (client, root, suffix) => lines(await text(client, "find", { root, suffix })),
  search: async (client, root, needle) => lines(await text(client, "search", { root, text: needle })).map((line) => line.split(":")[0]),
  edit: (client, edits) => text(client, "edit", { edits }),
  add: (client, path, content) => text(client, "write", { path, content }),
  run: async (client, command) => Number(await text(client, "exec", { command })),
  talker: (client, command) => text(client, "talker", { command }),
  tell: (client, id, data) => text(client, "tell", { id, data }),
  hush: (client, id) => text(client, "hush", { id }),
}
