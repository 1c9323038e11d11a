/** A refusal in the form the API answers it. */
import { type Refusal, toRecord } from "../schema/Refusal.ts"
import { Conflict, NotFound, type Problem, Rejected, Unavailable } from "./Problem.ts"

export const problemOf = (refusal: Refusal): Problem => {
  const { code, details, message, retry } = toRecord(refusal)
  const facts = { code, message, details }
  if (code.endsWith("_NOT_FOUND")) return new NotFound(facts)
  if (retry === "later") return new Unavailable(facts)
  return /_(CONFLICT|CLOSED|STALE|EXITED)$/.test(code) ? new Conflict(facts) : new Rejected(facts)
}
