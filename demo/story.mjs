/**
 * The agent: no model, its decisions are scripted, but each step works with what CodeSpace really answered. It fixes a bug in a
 * small shop, gets it wrong first, meets a colleague's edit, a forbidden path, a command that never ends and a connection that breaks.
 */
import { appendFileSync, existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

const replaceLine = (path, old, wanted) => `*** Update File: ${path}\n@@\n-${old}\n+${wanted}\n`
const patchOf = (...sections) => `*** Begin Patch\n${sections.join("")}*** End Patch\n`
const changeLines = (diff) => diff.split("\n").filter((line) => /^[-+](?![-+])/u.test(line))
const lineWith = (text, part) => text.split("\n").find((line) => line.includes(part)) ?? ""
const failedTests = (output) => [...output.matchAll(/^not ok \d+ - (.*)$/gmu)].map((match) => match[1])

/** Plays the whole story. `reconnect` starts a new server on the same state. */
export const play = async ({ narrator, folder, connection, reconnect }) => {
  const { step, agent, codespace, done } = narrator
  const onDisk = (path) => readFileSync(join(folder, path), "utf8")
  const story = { ...narrator, folder, onDisk, call: connection.call }

  step("Where am I, and what may I do?")
  agent("Which workspaces are there?")
  const [{ workspace_id }] = done(await story.call("workspace_info", {}), "listing the workspaces").workspaces
  const { profile, access, enforcement } = done(await story.call("workspace_info", { workspace_id }), "asking about a workspace")
  codespace(`"${workspace_id}", profile ${profile}.`)
  codespace(
    `files: ${access.files.map((rule) => `${rule.access} ${rule.glob}`).join(", ")}. commands: ${access.exec}. network: ${access.network}.`,
  )
  codespace(`And what holds commands to that: ${enforcement.exec}.`)
  story.workspace = { workspace_id }

  const bug = await lookAround(story)
  const fixed = await firstFix(story, bug)
  const complaint = await runTests(story, "Did that fix it? The tests know.", "fail")
  await secondFix(story, fixed, complaint)
  await runTests(story, "The tests once more.", "pass")

  step("What if the agent reaches outside?")
  agent('Read "../../etc/passwd".')
  const outside = await story.call("read", { ...story.workspace, path: "../../etc/passwd" })
  narrator.refused(outside, "PATH_ESCAPE", "a path outside the workspace")

  await longCommand(story)
  await lostConnection(story, connection, reconnect)
}

/** From the complaint in the README to the line that is to blame. */
const lookAround = async ({ step, agent, codespace, check, done, call, workspace }) => {
  step("Find the bug.")
  agent("Which JavaScript files are there, and what is known to be wrong?")
  const { paths } = done(await call("find", { ...workspace, glob: "**/*.js" }), "finding files")
  codespace(`${paths.join(", ")}.`)
  const readme = done(await call("read", { ...workspace, path: "README.md" }), "reading the README")
  codespace(`README.md: "${lineWith(readme.text, "problem")}"`)
  agent("So a quantity is ignored. Where are prices added up?")
  const { matches } = done(await call("search", { ...workspace, pattern: "sum +", literal: true, glob: "src/**" }), "searching")
  codespace(matches.map(({ path, line, text }) => `${path}, line ${line}: ${text.trim()}`).join("\n"))
  check(matches.length === 1, "Exactly one place adds up prices.")
  const page = done(await call("read", { ...workspace, path: matches[0].path }), "reading the file")
  codespace(`${page.path} has ${page.total_lines} lines and version ${page.version}. (A version is a fingerprint of the content.)`)
  return { path: page.path, version: page.version, line: lineWith(page.text, "sum +") }
}

/** A preview, then the change itself under a key. It is wrong on purpose. */
const firstFix = async ({ step, agent, codespace, check, done, call, workspace, onDisk }, { path, version, line }) => {
  step("Preview a change before it is made.")
  const better = line.replace("item.price", "item.price * item.quantity")
  const change = { ...workspace, patch: patchOf(replaceLine(path, line, better)), expected_versions: { [path]: version } }
  const before = onDisk(path)
  agent("What would this patch do? Do not write anything yet.")
  const preview = done(await call("apply_patch", { ...change, check_only: true }), "previewing a patch")
  codespace(changeLines(preview.diff).join("\n"))
  check(preview.status === "checked" && onDisk(path) === before, "The file on disk is still the same.")

  step("Make the change.")
  agent('Apply it, as "fix-quantity". (That name makes it safe to ask twice.)')
  const applied = done(await call("apply_patch", { ...change, operation_key: "fix-quantity" }), "applying a patch")
  const [{ after }] = applied.changes
  codespace(`${applied.status}; ${path} now has version ${after}. Recorded as ${applied.operation_id}.`)
  check(onDisk(path).includes(better), "The file on disk has the new line.")
  return { path, version: after, staleVersion: version, line: better }
}

/** Runs the project's tests; answers the output when they fail. */
const runTests = async ({ step, agent, codespace, check, done, call, workspace }, title, wanted) => {
  step(title)
  agent("Run: node --test")
  const command = ["node", "--test", "--test-reporter=tap"]
  const run = done(await call("exec_command", { ...workspace, command, timeout_ms: 15_000, yield_ms: 15_000 }), "running the tests")
  const failed = failedTests(run.output)
  const summary = failed.length > 0 ? `Failed: "${failed.join('", "')}".` : "No test failed."
  codespace(`exit code ${run.exit_code} after ${run.duration_ms} ms. ${summary}`)
  if (wanted === "pass") check(run.exit_code === 0 && failed.length === 0, "All tests pass.")
  else check(run.exit_code === 1 && failed.length === 1, "The fix was not good enough; exit code and output say so and name the test.")
  return run.output
}

/** A colleague saves the same file, so the agent's picture of it is out of date. */
const secondFix = async (story, { path, version, line }, complaint) => {
  const { step, agent, codespace, world, check, done, refused, call, workspace, onDisk, folder } = story
  step("Fix the fix, while somebody else edits the same file.")
  check(complaint.includes("NaN"), "The output of the tests says what came out: NaN, not a number.")
  agent("So an item without a quantity must count once.")
  const remark = "// Reviewed by Kim.\n"
  appendFileSync(join(folder, path), remark)
  world(`Kim adds a line to ${path} in an editor.`)
  const change = { ...workspace, patch: patchOf(replaceLine(path, line, line.replace("item.quantity", "(item.quantity ?? 1)"))) }
  agent(`Apply this to version ${version}.`)
  const stale = await call("apply_patch", { ...change, expected_versions: { [path]: version } })
  refused(stale, "VERSION_CONFLICT", "a patch made for an older version")
  check(onDisk(path).includes(line), "Nothing was changed.")
  agent("Then read it again, and patch what is there now.")
  const now = done(await call("read", { ...workspace, path }), "reading the file again")
  check(now.text.includes(remark), "The agent sees Kim's line.")
  const onTop = { ...change, expected_versions: { [path]: now.version }, operation_key: "fix-missing-quantity" }
  const applied = done(await call("apply_patch", onTop), "patching again")
  codespace(`${applied.status}; ${path} now has version ${applied.changes[0].after}.`)
  check(onDisk(path).endsWith(remark) && onDisk(path).includes("?? 1"), "Both are in the file: the fix and Kim's line.")
}

const endless = `
  const { appendFileSync } = require("node:fs")
  setInterval(() => appendFileSync("beat.txt", "."), 20)
  console.log("listening")
`

/** A command that never ends: it comes back at once as a process, and can be stopped as a whole. */
const longCommand = async ({ step, agent, codespace, check, done, call, workspace, folder }) => {
  step("Start something that never ends, and stop it.")
  agent("Start a server in the background.")
  const start = { ...workspace, command: ["node", "-e", endless], access: "shared", yield_ms: 0 }
  const { process_id, state } = done(await call("exec_command", start), "starting a long command")
  codespace(`${state}, as ${process_id}.`)
  check(state === "running", "The call came back although the command still runs.")
  const page = done(await call("read_process", { process_id, until: "listening", wait_ms: 5_000 }), "reading its output")
  codespace(`it says: ${page.output.trim()}`)
  check(page.output.includes("listening"), "Output can be waited for.")
  agent("Enough. Stop it.")
  const ended = done(await call("terminate_process", { process_id }), "stopping a process")
  codespace(`${ended.state}, ended by ${ended.ended_by}.`)
  const size = () => statSync(join(folder, "beat.txt"), { throwIfNoEntry: false })?.size ?? 0
  const atEnd = size()
  await sleep(200)
  check(ended.state === "terminated" && size() === atEnd, "It is really gone: it writes nothing any more.")
}

/** The connection breaks in the middle of a change. Was it made? The record knows, and asking again does not make it twice. */
const lostConnection = async ({ step, agent, codespace, world, check, done, workspace, onDisk, folder }, connection, reconnect) => {
  step("Lose the connection in the middle of a change.")
  const known = lineWith(onDisk("README.md"), "problem")
  const log = "*** Add File: CHANGELOG.md\n+- three apples cost three times as much as one\n"
  const patch = patchOf(log, replaceLine("README.md", known, "No known problems."))
  const change = { ...workspace, patch, operation_key: "note-the-fix" }
  const both = () => `${existsSync(join(folder, "CHANGELOG.md"))} ${onDisk("README.md").includes("No known problems.")}`
  agent('Write a CHANGELOG.md and change the README, as "note-the-fix".')
  const isLost = await connection.callAndHangUp("apply_patch", change, () => both() !== "false false")
  world("The connection breaks while CodeSpace writes the files.")
  check(isLost, "The answer never reached the agent: it cannot know what happened.")

  step("Find out what happened, and go on.")
  const { call } = await reconnect()
  agent('A new connection. What became of "note-the-fix"?')
  const status = await call("operation_status", { ...workspace, operation_key: change.operation_key })
  const state = status.refusal?.code === "OPERATION_NOT_FOUND" ? "never recorded" : done(status, "asking for the outcome").state
  codespace(`${state}${status.data ? ` (${status.data.operation_id})` : ""}.`)
  check(state !== "running", "The record does not claim that it still runs.")
  check(both() === (state === "done" ? "true true" : "false false"), "The disk agrees with the record: both files or neither.")

  agent("The same call again, with the same name.")
  const again = await call("apply_patch", change)
  if (state === "done" || state === "never recorded") {
    const result = done(again, "repeating the call")
    codespace(`${result.status}, ${result.operation_id}.`)
    if (state === "done") check(result.operation_id === status.data.operation_id, "It is the same operation: nothing ran a second time.")
  } else {
    codespace(`No. ${again.refusal?.code}: ${again.refusal?.message}`)
    check(again.refusal !== undefined && both() === "false false", "An undone call stays undone under its old name.")
    agent('Then as a new call, "note-the-fix-2".')
    codespace(done(await call("apply_patch", { ...change, operation_key: "note-the-fix-2" }), "the new call").status)
  }
  check(onDisk("README.md").split("No known problems.").length === 2 && both() === "true true", "The change is there, exactly once.")
}
