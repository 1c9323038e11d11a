import { readFileSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { TestClock } from "effect/testing"
import { credentialIn, openOperator } from "../support/Operating.ts"
import { temporaryFolder } from "../support/Tree.ts"

describe("the operator's credential", () => {
  it.effect("is made once, readable by its owner only, and its hash is all the database holds", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const servers = yield* Effect.all(
        Array.from({ length: 5 }, () => openOperator(folder)),
        { concurrency: "unbounded" },
      )
      const credential = credentialIn(folder)
      assert.match(credential, /^cso_[\w-]{43}$/)
      assert.strictEqual(statSync(join(folder, "operator")).mode & 0o777, 0o600)
      for (const operator of servers) {
        assert.isTrue(yield* operator.isCredential(credential))
        for (const wrong of ["", "cso_", credential.slice(0, -1), `${credential}x`]) assert.isFalse(yield* operator.isCredential(wrong))
      }
      for (const file of ["codespace.sqlite", "codespace.sqlite-wal"])
        assert.notInclude(readFileSync(join(folder, file), "latin1"), credential)
    }),
  )

  it.effect("survives a restart, and the loss of its file", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      yield* Effect.scoped(openOperator(folder))
      const credential = credentialIn(folder)
      rmSync(join(folder, "operator"))
      const operator = yield* openOperator(folder)
      assert.isTrue(yield* operator.isCredential(credential))
      assert.throws(() => credentialIn(folder))
    }),
  )

  it.effect("is renewed for every server at once, and ends the logins made with the old one", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const [one, other] = [yield* openOperator(folder), yield* openOperator(folder)]
      const old = credentialIn(folder)
      const login = Option.getOrThrow(yield* one.logIn(old))
      assert.isTrue(yield* other.isLoggedIn(login))
      yield* one.renew
      assert.isFalse(yield* other.isCredential(old))
      assert.isFalse(yield* other.isLoggedIn(login))
      assert.isTrue(yield* other.isCredential(credentialIn(folder)))
      assert.strictEqual(statSync(join(folder, "operator")).mode & 0o777, 0o600)
    }),
  )
})

describe("a browser's login", () => {
  it.effect("survives a restart, ends by itself and when it is ended, and is no credential", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const logIn = Effect.flatMap(openOperator(folder), (operator) => operator.logIn(credentialIn(folder)))
      const first = Option.getOrThrow(yield* Effect.scoped(logIn))
      const operator = yield* openOperator(folder)
      assert.isTrue(yield* operator.isLoggedIn(first))
      assert.isFalse(yield* operator.isCredential(first))
      const second = Option.getOrThrow(yield* operator.logIn(credentialIn(folder)))
      yield* operator.logOut(second)
      assert.isFalse(yield* operator.isLoggedIn(second))
      yield* TestClock.adjust("12 hours")
      assert.isFalse(yield* operator.isLoggedIn(first))
    }),
  )

  it.effect("is refused for a while after some wrong attempts, even with the right credential, and longer after more", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const operator = yield* openOperator(folder)
      for (let attempt = 0; attempt < 5; attempt++) assert.isTrue(Option.isNone(yield* operator.logIn("guess")))
      assert.strictEqual((yield* Effect.flip(operator.logIn(credentialIn(folder))))._tag, "TooManyAttempts")
      yield* TestClock.adjust("2 seconds")
      assert.isTrue(Option.isNone(yield* operator.logIn("guess")))
      yield* TestClock.adjust("2 seconds")
      assert.match((yield* Effect.flip(operator.logIn(credentialIn(folder)))).message, /try again in 2 seconds/)
      yield* TestClock.adjust("2 seconds")
      assert.isTrue(Option.isSome(yield* operator.logIn(credentialIn(folder))))
      for (let attempt = 0; attempt < 5; attempt++) assert.isTrue(Option.isNone(yield* operator.logIn("guess")))
      assert.isTrue(yield* operator.isCredential(credentialIn(folder)))
    }),
  )
})
