/** `codespace completions`: the script with which a shell completes command lines. */
import { Effect } from "effect"
import { type Command, type Commands, command, UsageError } from "./Command.ts"
import { completionScript, type Shell, shells } from "./CompletionScript.ts"
import { print } from "./Output.ts"

const isShell = (name: string | undefined): name is Shell => name !== undefined && Object.hasOwn(shells, name)

export const completions: Command = command({
  args: "SHELL",
  details: `SHELL is bash, zsh or fish. For a try, and to keep it:
  bash  source <(codespace completions bash)                                 in ~/.bashrc
  zsh   source <(codespace completions zsh)                                  in ~/.zshrc, after compinit
  fish  codespace completions fish > ~/.config/fish/completions/codespace.fish`,
  options: {},
  run: Effect.fnUntraced(function* ({ args: [shell] }) {
    if (!isShell(shell)) return yield* new UsageError({ message: `SHELL: found ${shell}, wanted ${Object.keys(shells).join(", ")}` })
    const { commands }: Commands = yield* Effect.promise(() => import("./commands.ts"))
    yield* print(yield* Effect.promise(() => completionScript(shell, { commands })))
    return 0
  }),
})
