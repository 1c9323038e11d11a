/** An attempt to get out of the sandbox, as data: what is run, and by which fact outside one sees that it has succeeded. */

/** Names of what is kept secret in a world; each has a text of its own. */
export type Secret =
  | "ssh key"
  | "cloud login"
  | "netrc"
  | "git login"
  | "token of a tool"
  | "history"
  | "ledger"
  | "configuration"
  | "server environment"
  | "victim environment"
  | "denied file"
  | "denied folder"
  | "other workspace"
  | "host tmp"
  | "host shm"
  | "shared memory"

/** Where somebody listens who notices each connection. */
export type Listener = "tcp" | "lan" | "ipv6" | "udp" | "abstract" | "home socket" | "tmp socket" | "run socket" | "allowed" | "neighbour"

export type Harm =
  /** The text of a secret came out with the output. */
  | { readonly leaks: Secret }
  /** What is at this path, below the world's folder, is not what it was. */
  | { readonly changes: string }
  | { readonly reaches: Listener }
  | { readonly ends: "victim" | "server" }
  /** What only the attempt itself can see: it prints `GOT`. */
  | { readonly tells: string }

/** The places of a world, absolute. */
export interface Places {
  readonly base: string
  readonly home: string
  readonly app: string
  readonly state: string
  readonly config: string
  readonly outside: string
  readonly tmpSecret: string
  readonly ports: Readonly<Record<"tcp" | "lan" | "ipv6" | "udp" | "allowed" | "neighbour", number>>
  readonly lanAddress: string
  readonly sockets: Readonly<Record<"home socket" | "tmp socket" | "run socket" | "abstract", string>>
  readonly victim: number
  readonly server: number
  readonly sharedMemory: number
  readonly shmFile: string
}

/** Which of a world's workspaces it runs in; their profiles are in `World.ts`. */
export type Place = "app" | "reader" | "allowed" | "neighbour" | "looped" | "open" | "tree" | "nested" | "plain"

export interface Attempt {
  readonly name: string
  /** `app` when left out: files may be written but for those denied, no network. */
  readonly in?: Place
  /** One script, or several that run one after the other, each in a call of its own. */
  readonly script: (places: Places) => string | ReadonlyArray<string>
  readonly harm: Harm
  /**
   * Whether it is run without a sandbox too, to show that it can succeed. `root`: only root can. `perhaps`: some machines
   * refuse it to everybody, or lack what it needs. Any other text is why it is not run.
   */
  readonly alone?: "root" | "perhaps" | { readonly unsafe: string }
  readonly tty?: boolean
}

const numbers = {
  x64: {
    ptrace: 101,
    process_vm_readv: 310,
    pidfd_open: 434,
    pidfd_getfd: 438,
    io_uring_setup: 425,
    keyctl: 250,
    add_key: 248,
    bpf: 321,
    perf_event_open: 298,
    userfaultfd: 323,
    mount: 165,
    umount2: 166,
    chroot: 161,
    unshare: 272,
    clone: 56,
    setns: 308,
    name_to_handle_at: 303,
    open_by_handle_at: 304,
    fsopen: 430,
    open_tree: 428,
    kcmp: 312,
  },
  arm64: {
    ptrace: 117,
    process_vm_readv: 270,
    pidfd_open: 434,
    pidfd_getfd: 438,
    io_uring_setup: 425,
    keyctl: 219,
    add_key: 217,
    bpf: 280,
    perf_event_open: 241,
    userfaultfd: 282,
    mount: 40,
    umount2: 39,
    chroot: 51,
    unshare: 97,
    clone: 220,
    setns: 268,
    name_to_handle_at: 264,
    open_by_handle_at: 265,
    fsopen: 430,
    open_tree: 428,
    kcmp: 272,
  },
} as const

export type Call = keyof typeof numbers.x64

export const hasCalls = process.arch === "x64" || process.arch === "arm64"

export const numberOf = (call: Call): number => numbers[process.arch === "arm64" ? "arm64" : "x64"][call]

/** Perl's words, quoted for the shell. */
export const perl = (text: string): string => `perl -e '${text.replaceAll("'", `'"'"'`)}'`

/** A system call that must fail; prints `GOT` when it does not. Arguments are in Perl, which hands over only text that it may change. */
export const call = (name: Call, ...args: ReadonlyArray<string>): string =>
  perl(`my @a = (${[numberOf(name), ...args].join(", ")}); my $r = syscall(shift(@a), @a); print "GOT $r\\n" if $r != -1; print "$!\\n"`)
