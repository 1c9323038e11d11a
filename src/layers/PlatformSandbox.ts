/** The sandbox that there is for this system. */
import type { Layer } from "effect"
import type { NetworkProxy } from "../services/NetworkProxy.ts"
import type { Sandbox } from "../services/Sandbox.ts"
import type { ServerIdentity } from "../services/ServerIdentity.ts"
import * as Bubblewrap from "./Bubblewrap.ts"
import type { SandboxSettings } from "./SandboxPlans.ts"
import * as Seatbelt from "./Seatbelt.ts"

export const layer = (
  settings: SandboxSettings,
  platform: NodeJS.Platform = process.platform,
): Layer.Layer<Sandbox, never, ServerIdentity | NetworkProxy> =>
  platform === "darwin" ? Seatbelt.layer(settings) : Bubblewrap.layer(settings)
