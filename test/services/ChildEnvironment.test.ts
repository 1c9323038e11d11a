import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { allowedEnvironment, baseEnvironment } from "../../src/services/ChildEnvironment.ts"

const host = {
  PATH: "/bin",
  HOME: "/home/me",
  LC_ALL: "C",
  PAGER: "less",
  TERM: "xterm",
  CODESPACE_AUTH_TOKEN: "t0ken",
  AWS_SECRET_ACCESS_KEY: "s3cret",
  NPM_TOKEN: "npm",
}
const profile = { name: "guarded", env: ["NPM_TOKEN", "CI"] }

describe("ChildEnvironment", () => {
  it("takes over only listed names: no secret of the server reaches a child", () => {
    const base = baseEnvironment(host)
    assert.strictEqual(base["PATH"], "/bin")
    assert.strictEqual(base["LC_ALL"], "C")
    assert.isFalse(Object.values(base).some((value) => ["t0ken", "s3cret", "npm"].includes(value)))
  })

  it("asks nothing of a terminal that is not there", () => {
    const base = baseEnvironment(host)
    assert.deepStrictEqual(
      [base["PAGER"], base["GIT_PAGER"], base["GIT_TERMINAL_PROMPT"], base["GIT_EDITOR"], base["EDITOR"], base["TERM"], base["NO_COLOR"]],
      ["cat", "cat", "0", "true", "true", "dumb", "1"],
    )
    assert.isFalse("CI" in base)
  })

  it("adds exactly the names the profile allows", () => {
    const added = Result.getOrThrow(allowedEnvironment(host, profile, { CI: "1" }))
    assert.deepStrictEqual(added, { NPM_TOKEN: "npm", CI: "1" })
  })

  it("lets the call's value win over the host's", () => {
    assert.deepStrictEqual(Result.getOrThrow(allowedEnvironment(host, profile, { NPM_TOKEN: "mine" })), { NPM_TOKEN: "mine" })
  })

  it("refuses a name the profile does not allow, and names it but not its value", () => {
    const refusal = Result.getOrThrow(Result.flip(allowedEnvironment(host, profile, { LD_PRELOAD: "/evil.so" })))
    assert.strictEqual(refusal._tag, "POLICY_DENIED")
    assert.include(refusal.message, '"LD_PRELOAD"')
    assert.include(refusal.message, "env allows NPM_TOKEN, CI")
    assert.notInclude(refusal.message, "evil")
  })
})
