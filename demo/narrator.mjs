/** Tells the story on stdout, and stops it with a clear sentence where CodeSpace did not do as promised. */

/** Something was not as promised; its message is for the reader. */
export class Broken extends Error {}

export const makeNarrator = (print = console.log) => {
  let step = 0
  const say = (who, text) => print(`    ${who.padEnd(10)} ${text.trimEnd().replaceAll("\n", `\n${" ".repeat(15)}`)}`)
  return {
    step: (title) => print(`\n${String(++step).padStart(2)}. ${title}`),
    agent: (text) => say("agent", text),
    codespace: (text) => say("CodeSpace", text),
    world: (text) => say("meanwhile", text),
    /** The demo's own look at the facts. */
    check: (holds, promise) => {
      if (!holds) throw new Broken(promise)
      say("checked", promise)
    },
    /** The data of an answer that must not be a refusal. */
    done: (answer, wanted) => {
      if (answer.refusal) throw new Broken(`${wanted} must work, but CodeSpace refused: ${answer.refusal.code}: ${answer.refusal.message}`)
      return answer.data
    },
    /** The refusal of an answer that must be one, of this code. */
    refused: (answer, code, what) => {
      const found = answer.refusal?.code ?? "no refusal at all"
      if (found !== code) throw new Broken(`${what} must be refused with ${code}, but there was ${found}`)
      say("CodeSpace", `No. ${code}: ${answer.refusal.message}`)
      return answer.refusal
    },
  }
}
