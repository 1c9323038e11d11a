/** Ready-made settings for the clients people use, so that nobody has to look up where each wants its server. */

export interface ClientSetup {
  readonly client: string
  /** What to do there, line by line. */
  readonly lines: ReadonlyArray<string>
}

/** Clients that reach a running server over HTTP. Without a token its place is marked, since it was shown before. */
export const httpClients = (endpoint: string, token = "TOKEN"): ReadonlyArray<ClientSetup> => {
  const headers = { Authorization: `Bearer ${token}` }
  return [
    {
      client: "Claude Code",
      lines: [`claude mcp add --transport http codespace ${endpoint} --header "Authorization: Bearer ${token}"`],
    },
    {
      client: "Codex, in ~/.codex/config.toml",
      lines: [
        "[mcp_servers.codespace]",
        `url = "${endpoint}"`,
        `bearer_token_env_var = "CODESPACE_TOKEN"`,
        `# and in the shell that starts it: export CODESPACE_TOKEN="${token}"`,
      ],
    },
    { client: "Cursor, in .cursor/mcp.json", lines: [JSON.stringify({ mcpServers: { codespace: { url: endpoint, headers } } })] },
    {
      client: "VS Code, in .vscode/mcp.json",
      lines: [JSON.stringify({ servers: { codespace: { type: "http", url: endpoint, headers } } })],
    },
  ]
}

/** Clients that start the server themselves, by this command line. */
export const stdioClients = ([command = "", ...args]: ReadonlyArray<string>): ReadonlyArray<ClientSetup> => [
  { client: "Claude Code", lines: [`claude mcp add codespace -- ${[command, ...args].map(shellWord).join(" ")}`] },
  {
    client: "Claude Desktop, in claude_desktop_config.json",
    lines: [JSON.stringify({ mcpServers: { codespace: { command, args } } })],
  },
  {
    client: "Codex, in ~/.codex/config.toml",
    lines: ["[mcp_servers.codespace]", `command = ${JSON.stringify(command)}`, `args = ${JSON.stringify(args)}`],
  },
  { client: "Cursor, in .cursor/mcp.json", lines: [JSON.stringify({ mcpServers: { codespace: { command, args } } })] },
  { client: "VS Code, in .vscode/mcp.json", lines: [JSON.stringify({ servers: { codespace: { type: "stdio", command, args } } })] },
]

/** Clients that run elsewhere reach a server on this machine through a tunnel that ends TLS, and log in with the credential in this file. */
export const tunnelClients = (port: number, credential: string): ReadonlyArray<ClientSetup> => [
  {
    client: "ChatGPT, through a tunnel",
    lines: [
      `# a tunnel to this machine, for instance: cloudflared tunnel --url http://127.0.0.1:${port}`,
      `# its name into the configuration, then start again: "http": { "hosts": ["NAME.trycloudflare.com"] }`,
      "# in ChatGPT, Settings > Apps & Connectors, developer mode, create with OAuth: https://NAME.trycloudflare.com/mcp",
      `# your browser asks for the operator's credential, which the first start of the server makes: cat ${credential}`,
    ],
  },
]

/** Clients with what to do in each, indented under its name. */
export const setupText = (clients: ReadonlyArray<ClientSetup>): ReadonlyArray<string> =>
  clients.flatMap(({ client, lines }) => [`${client}:`, ...lines.map((line) => `  ${line}`), ""])

/** What `codespace serve` tells the person who started it. */
export const welcome = (endpoint: string, token: string | undefined, workspaces: ReadonlyArray<string>): string =>
  [
    `CodeSpace serves ${workspaces.join(", ")} at ${endpoint}`,
    token === undefined
      ? "Token: shown when it was made and kept only as a hash. Put it in place of TOKEN below, or make a new one with --new-token."
      : `Token: ${token}\nIt is shown only now; keep it like a password.`,
    "",
    ...setupText(httpClients(endpoint, token)),
    "Stop with Ctrl-C.",
    "",
  ].join("\n")

/** A word as a POSIX shell takes it whole. */
const shellWord = (word: string): string => (/^[\w@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
