/**
 * What lies in a home folder and is nobody's business but its owner's: keys, tokens, and what people typed. Commands find
 * folders of this list empty, and files too.
 */
import { lstatSync, realpathSync, statSync } from "node:fs"
import { join } from "node:path"
import type { Mount } from "../services/MountPlan.ts"
import { canBeReached } from "./Reach.ts"

const SECRETS = [
  // Keys and logins.
  ...[".ssh", ".gnupg", ".pki", ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".config/op", ".vault-token"],
  ...[".netrc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub"],
  ...[".config/glab-cli", ".config/github-copilot", ".authinfo", ".authinfo.gpg", ".msmtprc", ".config/rclone", ".s3cfg", ".boto"],
  // Clouds and clusters.
  ...[".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/containers", ".config/doctl", ".config/helm", ".oci"],
  ...[".terraform.d", ".terraformrc", ".config/heroku", ".fly", ".config/fly", ".netlify", ".config/netlify", ".config/vercel"],
  // Registries of packages.
  ...[".npmrc", ".yarnrc.yml", ".pypirc", ".config/pypoetry", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"],
  ...[".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".composer/auth.json", ".nuget/NuGet", ".huggingface"],
  // Agents and this server.
  ...[".claude", ".claude.json", ".codex", ".gemini", ".config/codespace", ".local/state/codespace"],
  // Browsers and mail.
  ...[".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge"],
  ...["Library/Keychains", "Library/Cookies", "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox"],
  // What was typed.
  ...[".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".history", ".python_history", ".node_repl_history"],
  ...[".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history", ".lesshst", ".viminfo"],
]

/** What only root can read, and a command that runs as root must not. */
const SYSTEM_SECRETS = [
  ...[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
  ],
  ...[
    "/etc/kubernetes",
    "/etc/rancher",
    "/var/lib/kubelet",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/spool/cron",
  ],
  ...["rsa", "ecdsa", "ed25519", "dsa"].map((kind) => `/etc/ssh/ssh_host_${kind}_key`),
]

export const systemSecrets = (): ReadonlyArray<Mount> => SYSTEM_SECRETS.flatMap(hidden)

/** Those that are there. A link is followed: what it names is hidden. */
export const homeSecrets = (home: string): ReadonlyArray<Mount> => SECRETS.flatMap((name) => hidden(join(home, name)))

/** A mount that hides what is at a path; nothing where nothing is. Mount points must not pass through links. */
export const hidden = (path: string): ReadonlyArray<Mount> => {
  try {
    // Of a long list hardly anything is there, and a failed look for the real path costs twenty times this one.
    if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return []
    const real = realpathSync.native(path)
    return canBeReached(real) ? [{ kind: "hide", path: real, isFolder: statSync(real).isDirectory() }] : []
  } catch {
    // It is not there, or cannot be looked at from here, so neither from there.
    return []
  }
}
