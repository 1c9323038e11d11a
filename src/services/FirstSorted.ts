/** The first of many in order, without keeping the many, and as much of them as an answer holds. Pure. */

export interface FirstSorted<A> {
  readonly offer: (value: A) => void
  /** The first `limit` in order, and how many more were offered. */
  readonly take: () => { readonly first: ReadonlyArray<A>; readonly more: number }
}

/** `compare` as for sorting an array. Keeps a few times `limit` values at most. */
export const firstSorted = <A>(limit: number, compare: (a: A, b: A) => number): FirstSorted<A> => {
  const kept: Array<A> = []
  let offered = 0
  const prune = (): void => {
    kept.sort(compare)
    kept.length = Math.min(kept.length, limit)
  }
  return {
    offer: (value) => {
      offered++
      kept.push(value)
      if (kept.length >= 4 * limit + 1000) prune()
    },
    take: () => {
      prune()
      return { first: kept, more: offered - kept.length }
    },
  }
}

/** By UTF-16 code units: the same on every machine. */
export const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** As many of the values as fit into a size, at least one. */
export const fitting = <A>(values: ReadonlyArray<A>, size: number, sizeOf: (value: A) => number): ReadonlyArray<A> => {
  let left = size
  const end = values.findIndex((value, at) => {
    left -= sizeOf(value)
    return left < 0 && at > 0
  })
  return end === -1 ? values : values.slice(0, end)
}
