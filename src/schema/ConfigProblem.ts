/**
 * What can be wrong with a configuration, in words for the operator: where, what was found, what is allowed. Needs no
 * schema, so that a start without a configuration file does not load the decoder.
 */
import { Data } from "effect"

/** `at` is a field such as `workspaces.app.root`, or a place in the file's text; empty for the configuration as a whole. */
export interface ConfigProblem {
  readonly at: string
  readonly problem: string
}

/** Everything wrong with a configuration at once; `file` is absent when none was read. */
export class ConfigInvalid extends Data.TaggedError("ConfigInvalid")<{
  readonly file?: string
  readonly problems: ReadonlyArray<ConfigProblem>
}> {
  override get message() {
    const lines = this.problems.map(({ at, problem }) => (at === "" ? `  ${problem}` : `  ${at}: ${problem}`))
    return [`the configuration${this.file === undefined ? "" : ` ${this.file}`} cannot be used:`, ...lines].join("\n")
  }
}

/** A field's path as text; a key that is no plain word is quoted. */
export const fieldPath = (path: ReadonlyArray<unknown>): string =>
  path.map((key, place) => (typeof key === "number" ? `[${key}]` : `${place === 0 ? "" : "."}${plain(String(key))}`)).join("")

const plain = (key: string): string => (/^[\w$-]+$/u.test(key) ? key : JSON.stringify(key))
