/** Root folders whose n-th operation goes wrong, to show what a transaction leaves behind wherever it is hit. */
import { Effect } from "effect"
import { DiskFault, type Root } from "../../src/services/Disk.ts"

export type Fault =
  /** The operation is not done. */
  | { readonly kind: "refuse"; readonly code: string }
  /** It is done, and reported as failed. */
  | { readonly kind: "do and refuse"; readonly code: string }
  /** This and every later operation is not done. */
  | { readonly kind: "refuse from then on"; readonly code: string }
  | { readonly kind: "die" }
  /** The fiber is interrupted just before it. */
  | { readonly kind: "interrupt" }
  /** The server dies: its fiber never goes on, and nothing it does afterwards reaches the disk. */
  | { readonly kind: "freeze" }
  /** The process is killed. */
  | { readonly kind: "kill" }

export interface FaultyRoots {
  /** Puts the fault into a root; all of them count together. */
  readonly through: (real: Root) => Root
  /** The operations while it was armed, in order. */
  readonly operations: ReadonlyArray<string>
  readonly arm: () => void
  readonly disarm: () => void
}

/** Counts operations from 0 once it is armed; without a fault it only counts. */
export const faultyRoots = (position: number, fault?: Fault): FaultyRoots => {
  const operations: Array<string> = []
  let isArmed = false
  const around = <A, E, R>(operation: string, path: string, run: Effect.Effect<A, E, R>): Effect.Effect<A, E | DiskFault, R> =>
    Effect.suspend((): Effect.Effect<A, E | DiskFault, R> => {
      if (!isArmed) return run
      const index = operations.push(`${operation} ${path}`) - 1
      const failed = (code: string) => Effect.fail(new DiskFault({ operation, path, code }))
      if (fault === undefined) return run
      if (fault.kind === "refuse from then on") return index >= position ? failed(fault.code) : run
      if (fault.kind === "freeze" && index > position && position >= 0) return failed("EIO")
      if (index !== position) return run
      switch (fault.kind) {
        case "refuse":
          return failed(fault.code)
        case "do and refuse":
          return Effect.andThen(run, failed(fault.code))
        case "freeze":
          return Effect.never
        case "kill":
          return Effect.sync(() => process.kill(process.pid, "SIGKILL")).pipe(Effect.andThen(Effect.never))
        case "die":
          return Effect.die(new Error(`a defect in ${operation}`))
        case "interrupt":
          return Effect.withFiber((fiber) => {
            fiber.interruptUnsafe()
            return Effect.andThen(Effect.yieldNow, run)
          })
      }
    })
  const through = (real: Root): Root => ({
    path: real.path,
    handle: real.handle,
    stat: (path) => around("stat", path, real.stat(path)),
    list: (path) => around("list", path, real.list(path)),
    readLink: (path) => around("read link", path, real.readLink(path)),
    open: (path) => around("open", path, real.open(path)),
    readFile: (path) => around("read", path, real.readFile(path)),
    createFile: (path, ...rest) => around("create", path, real.createFile(path, ...rest)),
    makeDirectory: (path, mode) => around("make folder", path, real.makeDirectory(path, mode)),
    removeDirectory: (path) => around("remove folder", path, real.removeDirectory(path)),
    rename: (from, to, into) => around("rename", to, real.rename(from, to, into)),
    link: (from, to, into) => around("link", to, real.link(from, to, into)),
    unlink: (path) => around("unlink", path, real.unlink(path)),
    syncDirectory: (path) => around("sync folder", path, real.syncDirectory(path)),
  })
  const arm = () => {
    isArmed = true
  }
  const disarm = () => {
    isArmed = false
  }
  return { through, operations, arm, disarm }
}
