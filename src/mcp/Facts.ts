/** The facts of a result as lines of text, so that the text alone says what the structured part says. */
import { toJson } from "../services/JsonText.ts"

/** `name: value` for each named field that is there; plain values as they are, others as JSON. */
export const factsOf = <T extends object>(result: T, names: ReadonlyArray<keyof T & string>): string =>
  names
    .filter((name) => result[name] !== undefined)
    .map((name) => {
      const value = result[name]
      return `${name}: ${typeof value === "object" ? toJson(value) : String(value)}`
    })
    .join("\n")
