/**
 * Port: what the operating system does on this machine to hold a command. So far it keeps together what a command
 * starts; files and network are not held yet.
 */
import { Context, type Effect } from "effect"

/**
 * `namespace`: a command and all it starts live in a pid namespace of their own; `enter` are the arguments that start a
 * program as the first process of one, and the kernel ends all of it together. `group`: they share a process group and a
 * mark in their environment, and are searched for; `why` says what keeps a namespace from being made.
 */
export type Holding = { readonly by: "namespace"; readonly enter: ReadonlyArray<string> } | { readonly by: "group"; readonly why: string }

export class Sandbox extends Context.Service<
  Sandbox,
  {
    /** Found out when it is first asked for, and then kept. */
    readonly holding: Effect.Effect<Holding>
  }
>()("codespace/services/Sandbox") {}

/** What becomes of the processes of a command, in words for its caller. */
export const holdingText = (holding: Holding): string =>
  holding.by === "namespace"
    ? "all that a command starts is in a pid namespace of its own and ends with it, whatever happens to the server"
    : `what a command starts is found by process group and environment, and a process that hides from both can escape: ${holding.why}`
