/**
 * The pages for a person, walked in a real browser against the built program: what a policy on scripts, forms and cookies
 * does to them only a browser says.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type Browser, chromium, startBrowser } from "../support/Browser.ts"
import { browserOn, pkce } from "../support/LoginHouse.ts"
import { credentialOf, rootOf } from "../support/OperatorSide.ts"
import { connect, type Home, makeHome, refusalOf, type Served, serve } from "../support/Program.ts"
import { until } from "../support/Until.ts"

if (chromium === undefined) console.warn("browser.test.ts is skipped: there is no Chromium in PATH")

const app = { workspace_id: "app" }

describe.skipIf(chromium === undefined)("in a browser", { timeout: 60_000 }, () => {
  let browser: Browser
  let home: Home
  let server: Served
  beforeAll(async () => {
    const made = makeHome({ "a.txt": "one\n" })
    const file = join(made.home, "codespace.json")
    writeFileSync(file, JSON.stringify({ workspaces: { app: { root: made.workspace, profile: "workspace-write", approvals: "confirm" } } }))
    home = { ...made, folders: [], env: { ...made.env, CODESPACE_CONFIG: file } as typeof made.env }
    server = await serve(home)
    browser = await startBrowser(chromium ?? "")
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await server?.stop()
    home?.remove()
  })

  const held = async (call: Promise<Parameters<typeof refusalOf>[0]>): Promise<string> => {
    const refusal = refusalOf(await call)
    expect(refusal?.code).toBe("APPROVAL_REQUIRED")
    return String(refusal?.details["approval_id"])
  }
  const logIn = async () => {
    await browser.type("input[type=password]", credentialOf(home))
    await browser.click("button", "Log in")
  }

  it("the operator logs in, sees a hostile command as text, and allows it once", async () => {
    const client = await connect("v2-2025", { http: server })
    const hostile = `echo '<img src=x onerror=alert(1)><script>alert(2)</script></pre><form action=//evil.example>' > seen.txt`
    const id = await held(client.call("exec_command", { ...app, script: hostile }))

    await browser.open(`${rootOf(server)}/approvals/${id}`)
    await browser.shows("log in as the operator")
    await browser.type("input[type=password]", "not the credential")
    await browser.click("button", "Log in")
    await browser.shows("That is not the operator's credential.")
    await logIn()
    await browser.shows("exec_command in app")
    expect(await browser.value("document.querySelector('pre').textContent")).toBe(hostile)
    expect(await browser.value("document.querySelectorAll('img, script, iframe').length")).toBe(0)
    expect(await browser.value("[...document.forms].map((form) => new URL(form.action).pathname)")).toEqual([`/approvals/${id}`])
    // A script that came into the page all the same would not run.
    await browser.value("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(3)>')")
    await browser.value("document.body.append(Object.assign(document.createElement('script'), { textContent: 'alert(4)' }))")
    expect(await browser.value("document.cookie")).toBe("")

    await browser.click("button", "Allow once")
    await browser.shows("granted")
    expect(browser.dialogs).toEqual([])
    expect(browser.requested.filter((url) => !url.startsWith(`${rootOf(server)}/`) && !url.startsWith("about:"))).toEqual([])
    expect(existsSync(join(home.workspace, "seen.txt"))).toBe(false)
    const resumed = await client.call("operation_resume", { approval_id: id })
    expect(resumed.structuredContent).toMatchObject({ result: { exit_code: 0 } })
    expect(readFileSync(join(home.workspace, "seen.txt"), "utf8")).toContain("<script>alert(2)</script>")
    await client.close()
  })

  it("the operator finds a call in the list and denies it with a reason", async () => {
    const client = await connect("v2-2025", { http: server })
    const id = await held(client.call("write", { ...app, path: "b.txt", content: "<b>b</b>\n" }))
    await browser.open(`${rootOf(server)}/approvals`)
    await browser.click("a", "write in app")
    await browser.shows("+<b>b</b>")
    await browser.type("input[name=reason]", "not on a Friday")
    await browser.click("button", "Deny")
    await browser.shows("denied")
    const refusal = refusalOf(await client.call("operation_resume", { approval_id: id }))
    expect(JSON.stringify(refusal)).toContain("not on a Friday")
    expect(existsSync(join(home.workspace, "b.txt"))).toBe(false)
    await client.close()
  })

  it("the operator lets a client in by OAuth, which then calls with the token it got", async () => {
    const root = rootOf(server)
    const answers: Array<URL> = []
    const callback = createServer((request, response) => {
      if (request.url?.startsWith("/callback")) answers.push(new URL(request.url, "http://127.0.0.1"))
      response.setHeader("content-type", "text/html").end("<p>the client has its answer</p>")
    })
    await new Promise<void>((resolve) => void callback.listen(0, "127.0.0.1", resolve))
    const redirect_uri = `http://127.0.0.1:${(callback.address() as AddressInfo).port}/callback`
    const { client_id } = (
      await browserOn(root, "").register({ client_name: "<script>alert(5)</script>Loop", redirect_uris: [redirect_uri] })
    ).body
    const { challenge, verifier } = pkce()
    const asked = { client_id, redirect_uri, response_type: "code", code_challenge: challenge, code_challenge_method: "S256", state: "s&1" }

    // Nobody is logged in after a logout, as on the first visit.
    await browser.value(
      `(() => { const form = document.createElement("form"); form.method = "post"; form.action = "/logout"; document.body.append(form); form.submit() })()`,
    )
    await browser.shows("log in as the operator")
    await browser.open(`${root}/authorize?${new URLSearchParams(asked)}`)
    await browser.shows("log in as the operator")
    await logIn()
    await browser.shows("Let this client use CodeSpace?")
    await browser.shows("<script>alert(5)</script>Loop")
    expect(await browser.value("document.scripts.length")).toBe(0)
    await browser.click("input[name=workspace]")
    await browser.click("button", "Allow")
    await browser.shows("Choose at least one workspace, or deny.")
    await browser.click("button", "Allow")
    await browser.shows("the client has its answer")
    expect(browser.dialogs).toEqual([])
    expect(answers.map(({ searchParams }) => searchParams.get("state"))).toEqual(["s&1"])

    const exchanged = await browserOn(root, "").post("/token", {
      ...{ grant_type: "authorization_code", code: answers[0]?.searchParams.get("code") ?? "" },
      ...{ client_id, redirect_uri, code_verifier: verifier },
    })
    const { access_token } = (await exchanged.json()) as { readonly access_token: string }
    const client = await connect("v2-2025", { http: { ...server, token: access_token } })
    // And one that a script did put up would have been seen.
    await browser.value("void setTimeout(() => alert('seen'))")
    await until(() => browser.dialogs.includes("seen"))
    expect((await client.call("read", { ...app, path: "a.txt" })).structuredContent).toMatchObject({ text: "one\n" })
    await client.close()
    callback.close()
  })
})
