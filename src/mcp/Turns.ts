/**
 * Many calls that arrive at once are begun one in a turn of the event loop each, so that whatever else comes is answered
 * between them and not behind them all.
 */

/** Gives nothing where a call may begin now, and otherwise what resolves when its turn has come. */
export const makeTurns = (): (() => Promise<void> | undefined) => {
  const waiting: Array<() => void> = []
  let isTaken = false
  const next = () => {
    const begin = waiting.shift()
    isTaken = begin !== undefined
    if (begin === undefined) return
    begin()
    setImmediate(next)
  }
  return () => {
    if (isTaken) return new Promise((resolve) => void waiting.push(resolve))
    isTaken = true
    setImmediate(next)
    return undefined
  }
}
