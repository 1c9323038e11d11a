/** Patches as tests write them, and one that holds every kind of change, with the folder it is for. */
import type { PatchIntent } from "../../src/services/PatchTransaction.ts"
import type { Content } from "./Tree.ts"

export const patchOf = (...sections: ReadonlyArray<string>): PatchIntent => ({
  kind: "patch",
  patch: `*** Begin Patch\n${sections.join("\n")}\n*** End Patch`,
})

export const beforeEveryKind: Readonly<Record<string, Content>> = {
  "run.sh": { text: "a\nb\n", mode: 0o755 },
  "d/moved": { text: "m\n", mode: 0o600 },
  gone: "x\n",
  a: "A\n",
  b: "B\n",
  instead: "file\n",
}

/** Update, move into new folders, delete, add, swap, and a folder in the place of a file. */
export const everyKind: PatchIntent = patchOf(
  "*** Update File: run.sh\n@@\n-b\n+B",
  "*** Update File: d/moved\n*** Move to: n/e/moved",
  "*** Delete File: gone",
  "*** Add File: n/e/w\n+n",
  "*** Update File: a\n*** Move to: t",
  "*** Update File: b\n*** Move to: a",
  "*** Update File: t\n*** Move to: b",
  "*** Delete File: instead",
  "*** Add File: instead/of/it\n+i",
)
