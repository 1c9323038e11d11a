/** Which ended processes stay readable, with their output. Pure. */
import type { WorkspaceId } from "../schema/Workspace.ts"

/** Ended processes of a workspace that stay readable. */
export const KEPT = 200

export interface EndedProcess {
  readonly workspaceId: WorkspaceId
  /** Milliseconds on any one clock. */
  readonly endedAt: number
  /** Bytes of output that take room on the disk. */
  readonly keptBytes: number
  /** Bytes that the ended processes of its workspace may take together. */
  readonly roomBytes: number
}

/**
 * Those to forget: what ended before `oldest`, and of each workspace what ended longest ago, beyond `KEPT` processes or
 * beyond the room for their output; and of all workspaces what ended longest ago beyond `room` bytes. Of those that ended at one time the first given goes first. The one that ended last always stays while it is not too old.
 */
export const outdated = <P extends EndedProcess>(
  ended: ReadonlyArray<P>,
  oldest: number,
  room = Number.POSITIVE_INFINITY,
): ReadonlyArray<P> => {
  let total = 0
  const newer = new Map<WorkspaceId, { readonly count: number; readonly bytes: number }>()
  return [...ended]
    .reverse()
    .sort((one, other) => other.endedAt - one.endedAt)
    .filter(({ endedAt, keptBytes, roomBytes, workspaceId }) => {
      const { bytes, count } = newer.get(workspaceId) ?? { bytes: 0, count: 0 }
      newer.set(workspaceId, { bytes: bytes + keptBytes, count: count + 1 })
      total += keptBytes
      return endedAt < oldest || count >= KEPT || (count > 0 && bytes + keptBytes > roomBytes) || (total > keptBytes && total > room)
    })
}
