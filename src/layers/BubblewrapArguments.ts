/** The arguments that make bubblewrap put a plan into effect. Pure. */
import type { Placed } from "../services/MountPlan.ts"

/** Empty files that stand in for what is hidden and denied; nobody may read the second. */
export interface StandIns {
  readonly empty: string
  readonly denied: string
}

/**
 * A pid namespace alone. The first process is given, not bubblewrap's own: it says how the command ended and stays until
 * it may go. The new session keeps signals to its group away from the server's side.
 */
export const PID_NAMESPACE = ["--unshare-pid", "--as-pid-1", "--die-with-parent", "--new-session"]

/** Descriptor of the program that filters system calls; the one before is the keeper's. */
const SECCOMP_AT = 4

/** Without a sandbox: everything as it is, but for the processes. */
export const HELD = [...PID_NAMESPACE, "--dev-bind", "/", "/", "--proc", "/proc"]

/** The same, with a filter on descriptor 4 that keeps writers waiting at pipes. */
export const HELD_WAITING = [...HELD, "--seccomp", String(SECCOMP_AT)]

/** A network of its own has nothing but loopback, which bubblewrap brings up. */
export interface Namespaces {
  /** A user namespace. Only root can do without, and then has no rights beyond those of files all the same. */
  readonly user: boolean
  readonly network: boolean
}

/**
 * Without rights of any kind, the disk read-only. The settings of the kernel are files of root, who would be root enough to
 * write them without any right, so they are made read-only too.
 */
export const confinedBy = ({ network, user }: Namespaces, plan: ReadonlyArray<Placed>, standIns: StandIns): ReadonlyArray<string> => [
  ...PID_NAMESPACE,
  ...(user ? ["--unshare-user"] : []),
  ...["--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"],
  ...(network ? ["--unshare-net"] : []),
  ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"],
  ...plan.flatMap((mount) => made(mount, standIns)),
  // Only now: until here mount points could be made in them.
  ...plan.flatMap((mount) => ("isFolder" in mount && mount.isFolder ? ["--remount-ro", mount.path] : [])),
  ...["--seccomp", String(SECCOMP_AT)],
]

/** What is shown as it is may have gone since it was looked at: a command beside this one took it away. */
const made = (mount: Placed, { denied, empty }: StandIns): ReadonlyArray<string> => {
  const { path } = mount
  switch (mount.kind) {
    case "read":
      return mount.source === undefined ? ["--ro-bind-try", path, path] : ["--ro-bind", mount.source, path]
    case "write":
      return mount.source === undefined ? ["--bind-try", path, path] : ["--bind", mount.source, path]
    case "replace":
      return ["--bind", mount.source, path]
    case "hide":
      return mount.isFolder ? ["--tmpfs", path] : ["--ro-bind", empty, path]
    case "deny":
      return mount.isFolder ? ["--perms", "0000", "--tmpfs", path] : ["--ro-bind", denied, path]
  }
}
