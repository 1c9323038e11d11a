/** Runs the program that its arguments name, with the pipes it was given, and ends as that does. */
import { spawn } from "node:child_process"

const child = spawn(process.argv[2], process.argv.slice(3), { stdio: "inherit" })
child.on("close", (code) => process.exit(code ?? 1))
