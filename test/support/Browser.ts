/**
 * A real browser without a window, as a person uses one: it opens addresses, reads what is shown, clicks and types. Spoken
 * to by the DevTools protocol over its WebSocket, so it needs no package.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { until } from "./Until.ts"

/** The browser of this machine, if it has one that can be driven. */
export const chromium: string | undefined = (process.env["PATH"] ?? "")
  .split(":")
  .flatMap((folder) => ["chromium", "chromium-browser", "google-chrome"].map((name) => join(folder, name)))
  .find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  })

/** No window, no sandbox (which root cannot have), and nothing that goes to the network by itself. */
const FLAGS = [
  ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0"],
]

/** Milliseconds until a page has to be as expected. */
const PATIENCE = 20_000

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: Record<string, unknown>
  readonly result?: Record<string, unknown>
  readonly error?: { readonly message: string }
}

export interface Browser {
  readonly open: (url: string) => Promise<void>
  /** The value of an expression in the page, as JSON carries it. */
  readonly value: <A>(expression: string) => Promise<A>
  /** Waits until the page shows this text. */
  readonly shows: (text: string) => Promise<void>
  /** Presses the mouse on the first element that fits and has this text, and lets it go. */
  readonly click: (selector: string, text?: string) => Promise<void>
  readonly type: (selector: string, text: string) => Promise<void>
  /** Addresses that pages asked for, and questions that their scripts put up. */
  readonly requested: ReadonlyArray<string>
  readonly dialogs: ReadonlyArray<string>
  readonly close: () => Promise<void>
}

export const startBrowser = async (program: string): Promise<Browser> => {
  const profile = mkdtempSync(join(tmpdir(), "codespace-browser-"))
  const child = spawn(program, [...FLAGS, `--user-data-dir=${profile}`, "about:blank"], { stdio: ["ignore", "ignore", "pipe"] })
  const address = await listening(child)
  const socket = new WebSocket(address)
  await once(socket, "open")
  const answers = new Map<number, Message>()
  const requested: Array<string> = []
  const dialogs: Array<string> = []
  let last = 0
  let session: string | undefined
  const send = async (method: string, params: object = {}): Promise<Record<string, unknown>> => {
    const id = ++last
    socket.send(JSON.stringify({ id, method, params, ...(session === undefined ? {} : { sessionId: session }) }))
    const { error, result } = await until(() => answers.get(id), 30_000)
    if (error !== undefined) throw new Error(`${method}: ${error.message}`)
    return result ?? {}
  }
  socket.addEventListener("message", ({ data }) => {
    const message = JSON.parse(String(data)) as Message
    if (message.id !== undefined) answers.set(message.id, message)
    if (message.method === "Network.requestWillBeSent")
      requested.push(String((message.params?.["request"] as Record<string, unknown> | undefined)?.["url"]))
    if (message.method !== "Page.javascriptDialogOpening") return
    dialogs.push(String(message.params?.["message"]))
    void send("Page.handleJavaScriptDialog", { accept: true })
  })

  const { targetId } = await send("Target.createTarget", { url: "about:blank" })
  session = String((await send("Target.attachToTarget", { targetId, flatten: true }))["sessionId"])
  for (const domain of ["Page", "Runtime", "Network"]) await send(`${domain}.enable`)

  const value = async <A>(expression: string): Promise<A> => {
    const { exceptionDetails, result } = await send("Runtime.evaluate", { expression, returnByValue: true })
    if (exceptionDetails !== undefined) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`)
    return (result as { readonly value: A }).value
  }
  /** A page may be on its way out while it is asked. */
  const eventually = <A>(expression: string, isSo: (found: A) => boolean) =>
    until(async () => {
      const found = await value<A>(expression).catch(() => undefined)
      return found !== undefined && isSo(found) ? found : undefined
    }, PATIENCE).catch(async () => {
      throw new Error(`${expression} is not as expected at ${await value("location.href + '\\n' + document.body.innerText")}`)
    })
  const click = async (selector: string, text = "") => {
    const found = `[...document.querySelectorAll(${JSON.stringify(selector)})].find((one) => one.textContent.includes(${JSON.stringify(text)}))`
    const place = `(() => { const one = ${found}; if (one === undefined) return undefined; one.scrollIntoView({ block: "center" }); const box = one.getBoundingClientRect(); return { x: box.x + box.width / 2, y: box.y + box.height / 2 } })()`
    const { x, y } = await eventually<{ readonly x: number; readonly y: number }>(place, () => true)
    for (const type of ["mousePressed", "mouseReleased"])
      await send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 })
  }
  return {
    open: async (url) => void (await send("Page.navigate", { url })),
    value,
    shows: async (text) => void (await eventually<string>("document.body.innerText", (shown) => shown.includes(text))),
    click,
    type: async (selector, text) => {
      await click(selector)
      await send("Input.insertText", { text })
    },
    requested,
    dialogs,
    close: async () => {
      socket.close()
      const ended = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined
      child.kill("SIGTERM")
      await ended
      rmSync(profile, { recursive: true, force: true, maxRetries: 10 })
    },
  }
}

/** Where it can be spoken to; it says so once it is there. */
const listening = (child: ChildProcess): Promise<string> =>
  new Promise((resolve, reject) => {
    let said = ""
    child.stderr?.on("data", (chunk) => {
      said += String(chunk)
      const address = /DevTools listening on (ws:\S+)/u.exec(said)?.[1]
      if (address !== undefined) resolve(address)
    })
    child.once("exit", (code) => reject(new Error(`the browser ended with ${code}: ${said}`)))
  })
