/** Ready-made settings for the clients people use, so that nobody has to look up where each wants its token. */

/** What `codespace serve` tells the person who started it. Without a token its place is marked, since it was shown before. */
export const welcome = (endpoint: string, token: string | undefined, workspaces: ReadonlyArray<string>): string => {
  const shown = token ?? "TOKEN"
  return [
    `CodeSpace serves ${workspaces.join(", ")} at ${endpoint}`,
    token === undefined
      ? "Token: shown when it was made and kept only as a hash. Put it in place of TOKEN below, or make a new one with --new-token."
      : `Token: ${token}\nIt is shown only now; keep it like a password.`,
    "",
    "Claude Code:",
    `  claude mcp add --transport http codespace ${endpoint} --header "Authorization: Bearer ${shown}"`,
    "",
    "Codex, in ~/.codex/config.toml:",
    "  [mcp_servers.codespace]",
    `  url = "${endpoint}"`,
    `  bearer_token_env_var = "CODESPACE_TOKEN"`,
    "and in the shell that starts it:",
    `  export CODESPACE_TOKEN="${shown}"`,
    "",
    "Cursor, in .cursor/mcp.json:",
    `  ${JSON.stringify({ mcpServers: { codespace: { url: endpoint, headers: { Authorization: `Bearer ${shown}` } } } })}`,
    "",
    "VS Code, in .vscode/mcp.json:",
    `  ${JSON.stringify({ servers: { codespace: { type: "http", url: endpoint, headers: { Authorization: `Bearer ${shown}` } } } })}`,
    "",
    "Stop with Ctrl-C.",
    "",
  ].join("\n")
}
