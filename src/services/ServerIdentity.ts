/**
 * Port: which server process this is, in a form that another server on the same state folder can check. A process id
 * alone is not enough: numbers are used again.
 */
import { Context } from "effect"

export class ServerIdentity extends Context.Service<
  ServerIdentity,
  {
    /** This process, written so that it survives a restart of the machine. */
    readonly self: string
    /** Whether the process of that identity still runs. */
    readonly isAlive: (identity: string) => boolean
  }
>()("codespace/services/ServerIdentity") {}
