/** Settings of a workspace whose callers may run nothing, for tests that only touch files. */
import { noHooks, patchDefaults } from "../../src/schema/ConfigDefaults.ts"
import type { FileRule } from "../../src/schema/Policy.ts"
import { WorkspaceId } from "../../src/schema/Workspace.ts"
import type { WorkspaceSettings } from "../../src/services/Workspace.ts"

export const settingsOf = (root: string, files: ReadonlyArray<FileRule>) =>
  ({
    id: WorkspaceId.make("test"),
    root,
    profile: {
      name: "test",
      files,
      exec: "off",
      network: "off",
      commands: [],
      env: [],
      limits: { processes: 1, spool_bytes: 1, timeout_ms: 1 },
    },
    sandbox: "off",
    patch: patchDefaults,
    hooks: noHooks,
  }) satisfies WorkspaceSettings
