/**
 * Port: what the operating system of this machine holds a command to. An adapter says for a workspace, its profile and
 * the access of a call how a program enters its confinement, or why it may not run: what a profile promises and nothing
 * here can hold is refused, never run without.
 */
import { Context, type Effect, type Scope } from "effect"
import type { Profile, SandboxUnavailable } from "../schema/Policy.ts"
import type { Access, NetworkDenial, NetworkVerdict } from "../schema/Process.ts"
import type { WorkspaceId } from "../schema/Workspace.ts"
import type { Variables } from "./ChildEnvironment.ts"
import type { GitWork } from "./GitWork.ts"

/**
 * `namespace`: a command and all it starts live in a pid namespace of their own; `enter` are the arguments that start a
 * program as the first process of one, and the kernel ends all of it together. `group`: they share a process group and a
 * mark in their environment, and are searched for; `why` says what keeps a namespace from being made.
 */
export type Holding =
  | {
      readonly by: "namespace"
      readonly enter: ReadonlyArray<string>
      /** Files that `enter` reads, on the descriptors from 4 on. */
      readonly files?: ReadonlyArray<string>
      /** That it may be made ahead of its command. */
      readonly ahead?: Ahead
      /**
       * A program that writes into a pipe waits there until all of it is taken, also one that asks not to: node would lose
       * what the pipe has no room for when it ends.
       */
      readonly waitsAtPipes?: boolean
      /** Is told the counters of the namespace's network when the command has ended. */
      readonly onCounters?: (counters: string) => void
    }
  | {
      readonly by: "group"
      readonly why: string
      /** Arguments that become the program they are given, confined. */
      readonly enter?: ReadonlyArray<string>
    }

/** What there is to know of a namespace that is made ahead of its command. */
export interface Ahead {
  /** It holds as long as each of these files and folders is the one it was when it was made. */
  readonly standsOn: ReadonlyArray<string>
  /** Something is mounted where others write: whoever removes that while it is made may find it again, empty. */
  readonly wantsQuiet: boolean
}

/** What a command is held to: a workspace, and what its operator says about it. */
export interface Confines {
  readonly workspaceId: WorkspaceId
  /** The workspace's real folder. */
  readonly root: string
  readonly profile: Profile
  /** `required`: refused unless all of it is enforced. `auto`: refused only when the profile restricts what cannot be held. */
  readonly sandbox: "auto" | "required" | "off"
}

/** What holds each axis of a workspace's commands, in words, or that nothing does. */
export interface Enforcement {
  readonly files: string
  readonly network: string
}

/** What the kernel and the proxy refused while a command ran. */
export interface Denials {
  readonly notes: ReadonlyArray<string>
  readonly network: ReadonlyArray<NetworkDenial>
  /** All that its proxy decided, where it had one. */
  readonly decided?: Decided
}

/** Decisions of a proxy, those that are alike counted; `untold` were too many to be told. */
export interface Decided {
  readonly verdicts: ReadonlyArray<NetworkVerdict>
  readonly untold: number
}

/** A confinement made ready for one command; what it needs is there until the scope it was made in closes. */
export interface Entrance {
  readonly holding: Holding
  /** The level the command runs under, as its results say it. */
  readonly level: string
  /** The command's environment, made to fit what it finds inside. */
  readonly environment: (given: Variables) => Variables
  /** To be asked while the confinement still stands, and nothing that was started in it lives any more. */
  readonly denials: Effect.Effect<Denials>
  /** Notes for a command that fails. */
  readonly ifItFails?: ReadonlyArray<string>
}

/** What a command does with git, and the variables it runs with. */
export interface GitCall {
  readonly work: GitWork
  readonly variables: Variables
}

export class Sandbox extends Context.Service<
  Sandbox,
  {
    /** What keeps a tree together. Found out when it is first asked for, and then kept. */
    readonly holding: Effect.Effect<Holding>
    /** What would hold a command of these confines; a refusal when it would not be run. */
    readonly examine: (confines: Confines, access: Access) => Effect.Effect<Enforcement, SandboxUnavailable>
    /** Makes a confinement ready for one command; `git` where it may make git write the configuration of a repository. */
    readonly enter: (confines: Confines, access: Access, git?: GitCall) => Effect.Effect<Entrance, SandboxUnavailable, Scope.Scope>
  }
>()("codespace/services/Sandbox") {}

/** What becomes of the processes of a command, in words for its caller. */
export const holdingText = (holding: Holding): string =>
  holding.by === "namespace"
    ? "all that a command starts is in a pid namespace of its own and ends with it, whatever happens to the server"
    : `what a command starts is found by process group and environment, and a process that hides from both can escape: ${holding.why}`
