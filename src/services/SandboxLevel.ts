/** The level that commands run under, in the words of results and of `workspace_info`; and what is let through without any. */
import { Effect } from "effect"
import type { Profile } from "../schema/Policy.ts"
import type { Access } from "../schema/Process.ts"
import { hasPathRules, isReadOnly, unconfinable } from "./Restrictions.ts"
import type { Enforcement, Holding, Sandbox } from "./Sandbox.ts"

/** What results of a command say: by what it is confined, and to what. */
export const levelOf = (by: string, profile: Profile, access: Access): string => {
  const files = isReadOnly(profile, access) ? "read-only" : "workspace-write"
  return `${by}: files ${files}${hasPathRules(profile) ? " with rules" : ""}, network ${networkWord(profile)}`
}

/** How commands are confined, for each axis; the words are those of whoever confines them. */
export const enforcementOf = (by: string, profile: Profile, access: Access): Enforcement => ({
  files: `${by}, in the kernel: a command ${isReadOnly(profile, access) ? "can change no file of the workspace but where a rule says write" : "can write in the workspace"}, and in a /tmp that only commands of this workspace see; all else is read-only. It sees no other workspace, no secrets of the home folder, nothing of the server's. What makes git run programs is read-only.${hasPathRules(profile) ? " Rules hold for the files that are there when it starts." : ""}`,
  network: networkText(by, profile),
})

const networkWord = ({ network }: Profile): string => (typeof network === "string" ? network : `to ${network.allow.length} hosts`)

const networkText = (by: string, { network }: Profile): string => {
  switch (network) {
    case "on":
      return "not restricted: a command reaches what this machine reaches, its loopback included"
    case "off":
      return `${by}, in the kernel: a command has nothing but a loopback of its own, and makes no Unix sockets`
    case "loopback":
      return `${by}, in the kernel: the commands of this workspace have a loopback of their own together, and nothing else`
    default:
      return `${by}, in the kernel: a command has nothing but loopback, and on it a proxy that connects to the hosts of the profile`
  }
}

/** A sandbox where there is none, for `why`: what needs no confinement runs, and says so; the rest is refused. */
export const unconfined = (holding: Holding, why: string): Pick<Sandbox["Service"], "examine" | "enter"> => ({
  examine: (confines, access) =>
    Effect.suspend(() => {
      const refusal = unconfinable(confines, access, why)
      const text = `not enforced, commands can do what the server's user can: ${why}`
      return refusal === undefined ? Effect.succeed({ files: text, network: text }) : Effect.fail(refusal)
    }),
  enter: (confines, access) =>
    Effect.suspend(() => {
      const refusal = unconfinable(confines, access, why)
      if (refusal !== undefined) return Effect.fail(refusal)
      const level = `none: files and network were not confined, since ${why}`
      return Effect.succeed({ holding, level, environment: (given) => given, denials: noDenials })
    }),
})

export const noDenials = Effect.succeed({ notes: [], network: [] })
