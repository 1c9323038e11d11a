/**
 * Who makes the current call. The edge provides it; no handler parses headers or passes a session through its
 * arguments, and nothing a caller writes into its arguments changes it.
 */
import { Context, type Effect } from "effect"

export class Caller extends Context.Service<
  Caller,
  {
    /** The name its records carry: `local` on stdio, the token's owner over HTTP. */
    readonly name: string
    /** Workspaces it may use; undefined means every registered one. */
    readonly workspaces: ReadonlyArray<string> | undefined
    /** The name of the highest profile it may use; absent when each workspace's own counts. */
    readonly highest?: string | undefined
    /** Its client's own prompts are answered by a person, so says the operator. */
    readonly trustPrompts?: boolean | undefined
    /** Program and version, as the client says. For people; never for a decision. */
    readonly client: string
    /** Tells a waiting client that the call is still at work; nothing is sent unless the client asked. */
    readonly progress: (message: string) => Effect.Effect<void>
  }
>()("codespace/services/Caller") {}
