/**
 * The system calls a sandboxed command does without, as a classic BPF program that the kernel runs on each call. Refused
 * are ways out of a sandbox and around it that programs do not need: looking into and steering other processes, mounting,
 * new namespaces, programs that run as their owner, io_uring (which would pass the other rules by), key rings, kernel programs, and putting words into the
 * mouth of a terminal. Numbers are from the kernel's tables: `syscall_64.tbl` and `asm-generic/unistd.h`.
 */

/** Numbers of x86-64 and arm64; undefined where a machine has no such call. */
const CALLS: Readonly<Record<string, readonly [x64: number | undefined, arm64: number | undefined]>> = {
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  setns: [308, 268],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  swapon: [167, 224],
  swapoff: [168, 225],
  reboot: [169, 142],
  acct: [163, 89],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  iopl: [172, undefined],
  ioperm: [173, undefined],
}

/** Calls that give a file its mode, which is their argument with this number (from 0), and for the last ones the flags' too. */
const MODES: ReadonlyArray<readonly [x64: number | undefined, arm64: number | undefined, mode: number, flags?: number]> = [
  [90, undefined, 1], // chmod
  [91, 52, 1], // fchmod
  [268, 53, 2], // fchmodat
  [452, 452, 2], // fchmodat2
  [85, undefined, 1], // creat
  [133, undefined, 1], // mknod
  [259, 33, 2], // mknodat
  [2, undefined, 2, 1], // open
  [257, 56, 3, 2], // openat
]

const MACHINES = {
  x64: { at: 0, audit: 0xc000003e, clone: 56, clone3: 435, unshare: 272, ioctl: 16, fcntl: 72, socket: 41, openat2: 437 },
  arm64: { at: 1, audit: 0xc00000b7, clone: 220, clone3: 435, unshare: 97, ioctl: 29, fcntl: 25, socket: 198, openat2: 437 },
} as const

export type Machine = keyof typeof MACHINES

export const isKnownMachine = (name: string): name is Machine => Object.hasOwn(MACHINES, name)

/** NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWNS. */
const NAMESPACES = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
const TIOCSTI = 0x5412
const TIOCLINUX = 0x541c
const FIONBIO = 0x5421
const F_SETFL = 4
const O_NONBLOCK = 0x800
const AF_UNIX = 1
/** Families of sockets that a namespace keeps apart: IPv4, IPv6, and what tells of them. Others, such as those to a hypervisor, it does not. */
const APART = [2, 10, 16]
const SET_USER_ID = 0o4000
/** Flags with which opening makes a file: O_CREAT and O_TMPFILE. */
const MAKES = 0x40 | 0o20000000
/** Numbers from here on are the second set of calls of x86-64, which would pass a list of the first by. */
const X32 = 0x40000000

/** Instructions: load a word of the call's record, compare, answer. */
const LOAD = 0x20
const EQUAL = 0x15
const AT_LEAST = 0x35
const HAS_BITS = 0x45
const ANSWER = 0x06

const ALLOW = 0x7fff0000
const NOT_PERMITTED = 0x00050001
/** A C library that meets it takes the older `clone`, whose arguments can be seen. */
const NO_SUCH_CALL = 0x00050026
const NO_SUCH_FAMILY = 0x00050061
/** The kernel does nothing and says that it did. */
const AS_IF_DONE = 0x00050000
const KILL = 0x80000000

/** Where the record of a call has its number, the machine, and the low words of its first three arguments (little endian). */
const NUMBER = 0
const MACHINE = 4
const FIRST = 16
const SECOND = 24
const THIRD = 32
const argument = (number: number): number => FIRST + 8 * number

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number]

const answer = (value: number): Instruction => [ANSWER, 0, 0, value]

const onCall = (number: number, then: ReadonlyArray<Instruction>): ReadonlyArray<Instruction> => [[EQUAL, 0, then.length, number], ...then]

/** Standard output and error stay such that a writer waits; everything else may be asked not to wait. */
const unlessOutput: ReadonlyArray<Instruction> = [
  [LOAD, 0, 0, FIRST],
  [EQUAL, 1, 0, 1],
  [EQUAL, 0, 1, 2],
  answer(AS_IF_DONE),
  answer(ALLOW),
]

/** The two ways to ask that a file never makes a writer wait. */
const asksNotToWait = {
  ioctl: [[LOAD, 0, 0, SECOND], [EQUAL, 1, 0, FIONBIO], answer(ALLOW), ...unlessOutput],
  fcntl: [
    [LOAD, 0, 0, SECOND],
    [EQUAL, 1, 0, F_SETFL],
    answer(ALLOW),
    [LOAD, 0, 0, THIRD],
    [HAS_BITS, 1, 0, O_NONBLOCK],
    answer(ALLOW),
    ...unlessOutput,
  ],
} satisfies Readonly<Record<string, ReadonlyArray<Instruction>>>

/**
 * The filter of commands that nothing else is kept from: writers wait at standard output and error, whatever they ask for. A
 * program such as node asks not to wait at a pipe, and when it ends it drops what the pipe had no room for. Whoever shares
 * the pipe with it would meet refusals that few programs are made for.
 */
export const waitingProgram = (machine: Machine): Uint8Array => {
  const { audit, fcntl, ioctl } = MACHINES[machine]
  return bytesOf([
    [LOAD, 0, 0, MACHINE],
    [EQUAL, 1, 0, audit],
    answer(ALLOW),
    [LOAD, 0, 0, NUMBER],
    ...onCall(ioctl, asksNotToWait.ioctl),
    ...onCall(fcntl, asksNotToWait.fcntl),
    answer(ALLOW),
  ])
}

/**
 * The program's bytes. With `blocksUnix` no socket of the Unix family can be made, so that no server of the host that
 * listens on a file can be asked to act; pairs of connected sockets stay. Writers wait as with `waitingProgram`.
 */
export const seccompProgram = (machine: Machine, blocksUnix: boolean): Uint8Array => {
  const { at, audit, clone, clone3, fcntl, ioctl, openat2, socket, unshare } = MACHINES[machine]
  const refused = Object.values(CALLS).flatMap((numbers) => {
    const number = numbers[at]
    return number === undefined ? [] : onCall(number, [answer(NOT_PERMITTED)])
  })
  const unlessNamespaces = [[LOAD, 0, 0, FIRST], [HAS_BITS, 0, 1, NAMESPACES], answer(NOT_PERMITTED), answer(ALLOW)] as const
  const program: ReadonlyArray<Instruction> = [
    [LOAD, 0, 0, MACHINE],
    [EQUAL, 1, 0, audit],
    answer(KILL),
    [LOAD, 0, 0, NUMBER],
    ...(machine === "x64" ? ([[AT_LEAST, 0, 1, X32], answer(NOT_PERMITTED)] as const) : []),
    ...refused,
    ...onCall(clone3, [answer(NO_SUCH_CALL)]),
    ...onCall(clone, unlessNamespaces),
    ...onCall(unshare, unlessNamespaces),
    ...onCall(ioctl, [
      [LOAD, 0, 0, SECOND],
      [EQUAL, 1, 0, TIOCSTI],
      [EQUAL, 0, 1, TIOCLINUX],
      answer(NOT_PERMITTED),
      ...asksNotToWait.ioctl,
    ]),
    ...onCall(fcntl, asksNotToWait.fcntl),
    ...onCall(socket, [
      [LOAD, 0, 0, FIRST],
      [EQUAL, 0, 1, AF_UNIX],
      answer(blocksUnix ? NOT_PERMITTED : ALLOW),
      ...APART.flatMap((family): ReadonlyArray<Instruction> => [[EQUAL, 0, 1, family], answer(ALLOW)]),
      answer(NO_SUCH_FAMILY),
    ]),
    ...MODES.flatMap(([x64, arm64, mode, flags]) => {
      const number = machine === "x64" ? x64 : arm64
      const setsId: ReadonlyArray<Instruction> = [
        [LOAD, 0, 0, argument(mode)],
        [HAS_BITS, 0, 1, SET_USER_ID],
        answer(NOT_PERMITTED),
        answer(ALLOW),
      ]
      const makes: ReadonlyArray<Instruction> =
        flags === undefined ? [] : [[LOAD, 0, 0, argument(flags)], [HAS_BITS, 1, 0, MAKES], answer(ALLOW)]
      return number === undefined ? [] : onCall(number, [...makes, ...setsId])
    }),
    // Its mode lies where no filter can look; programs that meet it take the older call.
    ...onCall(openat2, [answer(NO_SUCH_CALL)]),
    answer(ALLOW),
  ]
  return bytesOf(program)
}

const bytesOf = (program: ReadonlyArray<Instruction>): Uint8Array => {
  const bytes = new DataView(new ArrayBuffer(program.length * 8))
  for (const [place, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.setUint16(place * 8, code, true)
    bytes.setUint8(place * 8 + 2, ifTrue)
    bytes.setUint8(place * 8 + 3, ifFalse)
    bytes.setUint32(place * 8 + 4, value >>> 0, true)
  }
  return new Uint8Array(bytes.buffer)
}
