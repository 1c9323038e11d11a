import { assert, describe, it } from "@effect/vitest"
import { type Machine, seccompProgram, waitingProgram } from "../../src/layers/Seccomp.ts"

const ALLOWED = 0x7fff0000
const REFUSED = 0x00050001
const NO_SUCH_CALL = 0x00050026
const NO_SUCH_FAMILY = 0x00050061
const AS_IF_DONE = 0x00050000
const KILLED = 0x80000000

/** Runs a program as the kernel does on one call. */
const answerTo = (program: Uint8Array, audit: number, number: number, args: ReadonlyArray<number> = []): number => {
  const view = new DataView(program.buffer)
  const words = new Map([
    [0, number],
    [4, audit],
    [16, args[0] ?? 0],
    [24, args[1] ?? 0],
    [32, args[2] ?? 0],
  ])
  let value = 0
  for (let at = 0; at < program.length / 8; at++) {
    const operand = view.getUint32(at * 8 + 4, true)
    const jump = (isTrue: boolean) => {
      at += view.getUint8(at * 8 + (isTrue ? 2 : 3))
    }
    switch (view.getUint16(at * 8, true)) {
      case 0x20:
        value = words.get(operand) ?? 0
        break
      case 0x15:
        jump(value === operand)
        break
      case 0x35:
        jump(value >= operand)
        break
      case 0x45:
        jump((value & operand) !== 0)
        break
      default:
        return operand
    }
  }
  throw new Error("the program has no end")
}

const machines: ReadonlyArray<readonly [Machine, number, Readonly<Record<string, number>>]> = [
  [
    "x64",
    0xc000003e,
    { read: 0, ptrace: 101, mount: 165, keyctl: 250, clone: 56, unshare: 272, clone3: 435, ioctl: 16, fcntl: 72, socket: 41, bpf: 321 },
  ],
  [
    "arm64",
    0xc00000b7,
    { read: 63, ptrace: 117, mount: 40, keyctl: 219, clone: 220, unshare: 97, clone3: 435, ioctl: 29, fcntl: 25, socket: 198, bpf: 280 },
  ],
]

describe.each(machines)("the filter of %s", (machine, audit, calls) => {
  const open = seccompProgram(machine, false)
  const strict = seccompProgram(machine, true)
  const ask = (name: string, args?: ReadonlyArray<number>, program = open) => answerTo(program, audit, calls[name]!, args)

  it("lets through what programs need, and refuses what leads out", () => {
    for (const name of ["read", "ioctl", "clone", "unshare"]) assert.strictEqual(ask(name), ALLOWED, name)
    for (const name of ["ptrace", "mount", "keyctl", "bpf"]) assert.strictEqual(ask(name), REFUSED, name)
    assert.strictEqual(ask("clone3"), NO_SUCH_CALL)
    for (const flag of [0x10000000, 0x00020000, 0x40000000, 0x02000000, 0x20000011]) {
      assert.strictEqual(ask("clone", [flag]), REFUSED)
      assert.strictEqual(ask("unshare", [flag]), REFUSED)
    }
    assert.strictEqual(ask("clone", [0x003d0f00]), ALLOWED)
    assert.strictEqual(ask("ioctl", [0, 0x5412]), REFUSED)
    assert.strictEqual(ask("ioctl", [0, 0x541c]), REFUSED)
    assert.strictEqual(ask("ioctl", [0, 0x5401]), ALLOWED)
  })

  it("refuses Unix sockets only where it is strict, sockets of the internet never, and families that go past the network always", () => {
    for (const program of [open, strict]) assert.strictEqual(ask("socket", [40], program), NO_SUCH_FAMILY)
    assert.strictEqual(ask("socket", [1]), ALLOWED)
    assert.strictEqual(ask("socket", [1], strict), REFUSED)
    assert.strictEqual(ask("socket", [2], strict), ALLOWED)
    assert.strictEqual(ask("read", [1], strict), ALLOWED)
  })

  it("lets nobody ask that standard output and error never make a writer wait, and everything else", () => {
    const [FIONBIO, F_SETFL, F_GETFL, O_NONBLOCK, O_APPEND] = [0x5421, 4, 3, 0o4000, 0o2000]
    for (const program of [open, strict, waitingProgram(machine)]) {
      for (const output of [1, 2]) {
        assert.strictEqual(ask("ioctl", [output, FIONBIO], program), AS_IF_DONE)
        assert.strictEqual(ask("fcntl", [output, F_SETFL, O_NONBLOCK | O_APPEND], program), AS_IF_DONE)
        assert.strictEqual(ask("fcntl", [output, F_SETFL, O_APPEND], program), ALLOWED)
        assert.strictEqual(ask("fcntl", [output, F_GETFL, O_NONBLOCK], program), ALLOWED)
        assert.strictEqual(ask("ioctl", [output, 0x5401], program), ALLOWED)
      }
      for (const other of [0, 3]) {
        assert.strictEqual(ask("ioctl", [other, FIONBIO], program), ALLOWED)
        assert.strictEqual(ask("fcntl", [other, F_SETFL, O_NONBLOCK], program), ALLOWED)
      }
    }
    for (const name of Object.keys(calls)) assert.strictEqual(ask(name, [], waitingProgram(machine)), ALLOWED, name)
    assert.strictEqual(answerTo(waitingProgram(machine), 0x40000003, calls["ioctl"]!, [1, FIONBIO]), ALLOWED)
  })

  it("ends what calls in the manner of another machine", () => {
    assert.strictEqual(answerTo(open, 0x40000003, calls["read"]!), KILLED)
    if (machine === "x64") assert.strictEqual(answerTo(open, audit, 0x40000000 + 101), REFUSED)
  })
})
