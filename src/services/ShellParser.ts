/** Port: takes the text of a shell script apart into the commands in it, wherever they stand. It runs nothing. */
import { Context, Effect, Layer } from "effect"
import type { SimpleCommand } from "../schema/Policy.ts"

export interface ShellText {
  /** Every command: of pipes, branches, functions, substitutions, arithmetic. */
  readonly commands: ReadonlyArray<SimpleCommand>
  /** Why the list may lack one, or name one that is none; absent when the text was understood. */
  readonly problem?: string
  /** It only runs commands, in lists, pipes, groups and `if`: it sets nothing, computes nothing and repeats nothing. */
  readonly isPlain?: boolean
}

export class ShellParser extends Context.Service<
  ShellParser,
  {
    /** Gives the parser; what it needs is loaded when it is first asked for. */
    readonly load: Effect.Effect<(text: string) => ShellText>
  }
>()("codespace/services/ShellParser") {
  /** Understands no text. */
  static readonly layerNone = Layer.succeed(ShellParser, {
    load: Effect.succeed(() => ({ commands: [], problem: "there is no parser for shell scripts here" })),
  })
}
