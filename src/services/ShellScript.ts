/**
 * A script as a command. Its text travels in a variable, not in an argument: a program that the script tells to kill
 * everything with some word in its command line must not find the script's own shell. Pure.
 */

const VARIABLE = "CODESPACE_SCRIPT"

/** Takes the text out of the environment, so that no program of the script sees it, and leaves no variable behind. */
const START = `set -- "$${VARIABLE}"; unset ${VARIABLE}; eval "shift; $1"`

/** Command and variable that run `script` in `shell`, a path to a POSIX shell. */
export const shellCommand = (shell: string, script: string) => ({
  argv: [shell, "-c", START, shell] as const,
  env: { [VARIABLE]: script },
})
