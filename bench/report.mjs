/** From samples to figures, and from figures to the table. */

export const quantile = (values, q) => {
  if (values.length === 0) return Number.NaN
  const sorted = [...values].sort((a, b) => a - b)
  const at = (sorted.length - 1) * q
  const below = Math.floor(at)
  const above = Math.min(below + 1, sorted.length - 1)
  return sorted[below] + (sorted[above] - sorted[below]) * (at - below)
}

const median = (values) => quantile(values, 0.5)

const figures = (rounds) => {
  const samples = rounds.flat()
  const values = samples.map((sample) => sample.value)
  const wrongs = samples.filter((sample) => sample.wrong !== undefined)
  return {
    median: median(values),
    p95: quantile(values, 0.95),
    p99: quantile(values, 0.99),
    samples: samples.length,
    wrong: wrongs.length,
    ...(wrongs.length > 0 ? { firstWrong: wrongs[0].wrong } : {}),
    roundMedians: rounds.map((round) => median(round.map((sample) => sample.value))),
  }
}

/**
 * One job's figures. The ratio is the median of the per-round ratios: both servers of a round met the same noise. An aim is
 * met only by right results.
 */
export const summarize = (job, rounds) => {
  const [codespace, floor] = ["codespace", "floor"].map((name) => figures(rounds.map((round) => round[name])))
  const ratios = codespace.roundMedians.map((value, i) => value / floor.roundMedians[i])
  const ratio = { median: median(ratios), min: Math.min(...ratios), max: Math.max(...ratios) }
  const correct = codespace.samples > 0 && codespace.wrong === 0 && floor.wrong === 0
  return {
    ...{ id: job.id, title: job.title, unit: job.unit, rounds: rounds.length, correct, codespace, floor, ratio },
    ...(job.aim === undefined ? {} : { aim: job.aim, met: correct && ratio.median <= job.aim }),
  }
}

const number = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2))

const results = ({ correct, codespace, floor }) => {
  if (correct) return `right (${codespace.samples})`
  return [codespace, floor]
    .map((side, i) => (side.wrong > 0 ? `WRONG ${["ours", "floor"][i]} ${side.wrong} of ${side.samples}: ${side.firstWrong}` : ""))
    .filter(Boolean)
    .join("; ")
}

const row = (job) => [
  job.title,
  job.unit,
  `${number(job.codespace.median)} (${number(job.codespace.p95)})`,
  `${number(job.floor.median)} (${number(job.floor.p95)})`,
  `${job.ratio.median.toFixed(2)} (${job.ratio.min.toFixed(2)}–${job.ratio.max.toFixed(2)})`,
  job.aim === undefined ? "" : `≤ ${job.aim}`,
  job.aim === undefined ? "" : job.met ? "met" : "not met",
  results(job),
]

/** The table as text, and below it what it means. */
export const table = (jobs) => {
  const head = ["job", "", "CodeSpace (p95)", "floor (p95)", "ratio (min–max)", "aim", "", "results"]
  const rows = [head, ...jobs.map(row)]
  const widths = head.map((_, column) => Math.max(...rows.map((cells) => cells[column].length)))
  const print = (cells) =>
    cells
      .map((cell, i) => (i === head.length - 1 ? cell : cell.padEnd(widths[i])))
      .join("  ")
      .trimEnd()
  const small = jobs.find((job) => job.id === "small-1000")
  const tail = small
    ? [
        `small call: p50 ${number(small.codespace.median)} ms, p99 ${number(small.codespace.p99)} ms (floor ${number(small.floor.median)}, ${number(small.floor.p99)})`,
      ]
    : []
  return [print(head), widths.map((width) => "-".repeat(Math.min(width, 40))).join("  "), ...rows.slice(1).map(print), ...tail].join("\n")
}
