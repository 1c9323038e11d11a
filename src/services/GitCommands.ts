/**
 * Which git commands are known here: what each may be given without running a program that its words or a file name, and
 * whether it writes the configuration of its repository or runs its hooks. What no line here knows is not known. Pure.
 */

/** `perhaps`: only when it records what a branch follows, or moves a submodule. */
export type Writes = "no" | "perhaps" | "always"

export interface KnownGit {
  readonly writes: Writes
  readonly runsHooks: boolean
}

interface Known {
  /** Options it may have, whole words; `--x=` with any value behind it. */
  readonly options: ReadonlySet<string>
  readonly runsHooks?: boolean
  /** Options with which it writes the configuration, or a judgement on its other words. */
  readonly writes?: ReadonlySet<string> | ((operands: ReadonlyArray<string>, options: ReadonlyArray<string>) => Writes)
  /** Words of its own that may stand first. */
  readonly under?: ReadonlySet<string>
}

const set = (words: string): ReadonlySet<string> => new Set(words.split(" "))

const READING =
  "-s -b -v -vv -q -p -a -l -n -1 -2 -3 -5 -10 -20 -r -z --oneline --short --long --porcelain --stat --name-only --name-status --cached --staged --graph --all --decorate --format= --pretty= --abbrev-ref --abbrev-commit --show-toplevel --git-dir --git-common-dir --is-inside-work-tree --verify --branch --recursive --quiet --max-count= --others --exclude-standard --stage --recurse-submodules --submodule --submodule= --ignored --tags --heads --no-color --color --color= --untracked-files --untracked-files= --get-url --symref --no-patch --no-renames --always --dirty --ff-only"

/** Settings that a command may be given with `-c`: none names a program. */
const SETTINGS = new Set([
  ...["protocol.file.allow", "user.name", "user.email", "init.defaultbranch", "advice.detachedhead", "advice.addembeddedrepo"],
  ...["commit.gpgsign", "tag.gpgsign", "core.quotepath", "color.ui", "pull.rebase", "pull.ff", "push.default", "submodule.recurse"],
])

const tracks = set("-t --track --track= --set-upstream --set-upstream-to --set-upstream-to= -u --guess-remote")

const KNOWN: Readonly<Record<string, Known>> = {
  submodule: {
    under: set("add init update sync deinit status summary set-url set-branch"),
    options: set(
      "-q --quiet -b --branch --branch= -f --force --name --name= --depth --depth= --init --remote -N --no-fetch --checkout --merge --rebase --recursive --progress --jobs --jobs= -j --single-branch --no-single-branch --recommend-shallow --no-recommend-shallow --all --cached --default -d",
    ),
    writes: ([under]) => (under === "status" || under === "summary" || under === undefined ? "no" : "always"),
  },
  remote: {
    under: set("add remove rm rename set-url set-branches set-head show get-url prune update"),
    options: set("-v --verbose -t -m -f --tags --no-tags --mirror=fetch --mirror=push --push --add --delete --all -a -d -n --prune -p"),
    writes: ([under = ""]) => (/^(add|remove|rm|rename|set-url|set-branches)$/u.test(under) ? "always" : "no"),
  },
  branch: {
    options: set(
      "-m -M -d -D -c -C -f --force --move --copy --delete -u --set-upstream-to --set-upstream-to= --unset-upstream -t --track --track= --no-track -a -r -v -vv -q --quiet --list --all --remotes --show-current --merged --no-merged --contains --points-at --sort= --format= --no-color",
    ),
    writes: (operands, options) =>
      options.some((option) => /^(-[mMdDcCut]|--(move|copy|delete|set-upstream-to=?.*|unset-upstream|track(=.*)?))$/u.test(option))
        ? "always"
        : operands.length > 1
          ? "perhaps"
          : "no",
  },
  checkout: {
    options: set(
      "-b -B -t --track --track= --no-track -q --quiet -f --force --detach --ours --theirs --recurse-submodules --guess --no-guess",
    ),
    runsHooks: true,
    writes: (operands, options) => (options.some((option) => tracks.has(option)) ? "always" : operands.length > 0 ? "perhaps" : "no"),
  },
  switch: {
    options: set(
      "-c -C --create --force-create -t --track --track= --no-track -q --quiet -f --force --discard-changes --detach -d --guess --no-guess --recurse-submodules",
    ),
    runsHooks: true,
    writes: (operands, options) => (options.some((option) => tracks.has(option)) ? "always" : operands.length > 0 ? "perhaps" : "no"),
  },
  push: {
    options: set(
      "-u --set-upstream -f --force --force-with-lease --force-with-lease= --tags --all --delete -d -q --quiet -n --dry-run --follow-tags --porcelain -v --verbose --progress --no-verify",
    ),
    runsHooks: true,
    writes: set("-u --set-upstream"),
  },
  pull: {
    options: set(
      "--rebase --rebase= --no-rebase --ff --ff-only --no-ff -q --quiet --set-upstream --tags --no-tags --prune -p --depth --depth= --recurse-submodules --recurse-submodules= --autostash --no-edit -v --verbose --all --progress",
    ),
    runsHooks: true,
    writes: set("--set-upstream"),
  },
  fetch: {
    options: set(
      "--all --tags -t --no-tags --prune -p --prune-tags --depth --depth= --unshallow -q --quiet -v --verbose --recurse-submodules --recurse-submodules= --no-recurse-submodules --force -f --set-upstream -j --jobs --jobs= --dry-run --progress",
    ),
    writes: set("--set-upstream"),
  },
  worktree: {
    under: set("add list remove prune lock unlock"),
    options: set("-b -B --track --no-track -f --force --detach -d -q --quiet --guess-remote --no-guess-remote --porcelain -v --reason"),
    runsHooks: true,
    writes: ([under, ...rest], options) =>
      under === "add" && (rest.length > 1 || options.some((option) => tracks.has(option))) ? "perhaps" : "no",
  },
  mv: { options: set("-f --force -k -v -n"), writes: () => "perhaps" },
  init: { options: set("-q --quiet -b --initial-branch --initial-branch= --bare"), writes: () => "perhaps" },
  rm: { options: set("-f --force -r --cached -q --quiet --ignore-unmatch -n") },
  clone: {
    options: set(
      "-q --quiet -b --branch --branch= --depth --depth= --recursive --recurse-submodules --recurse-submodules= --single-branch --no-single-branch --bare --mirror --no-checkout -n --no-tags --shallow-submodules -j --jobs --jobs= --progress -o --origin --origin= --filter= -v",
    ),
  },
  add: { options: set("-A -u -f -v -N --all --force --update --intent-to-add --verbose") },
  commit: {
    options: set(
      "-m -a -am -q -s -n -qm -qam --message --message= --quiet --allow-empty --allow-empty-message --amend --no-edit --signoff --author --author= --date --date= --no-verify --no-gpg-sign --all",
    ),
    runsHooks: true,
  },
  merge: { options: set("--ff --ff-only --no-ff --no-edit -m -q --quiet --abort --squash --no-commit"), runsHooks: true },
  rebase: { options: set("-q --quiet --abort --onto --autostash --no-autostash"), runsHooks: true },
  reset: { options: set("--hard --soft --mixed --keep -q --quiet") },
  stash: {
    under: set("push pop apply list show drop"),
    options: set("-q --quiet -u --include-untracked --index -m --message -k --keep-index"),
  },
  restore: { options: set("--staged --worktree -q --quiet -s --source --source=") },
  tag: { options: set("-a -m -l -d -f -n --list --delete --annotate --force") },
  ...Object.fromEntries(
    [
      "status",
      "log",
      "diff",
      "show",
      "rev-parse",
      "rev-list",
      "ls-files",
      "ls-tree",
      "describe",
      "merge-base",
      "symbolic-ref",
      "cat-file",
    ].map((name): [string, Known] => [name, { options: set(READING) }]),
  ),
  "ls-remote": { options: set("-q --quiet --heads --tags --refs --symref --get-url") },
}

/** Why `git config` is not known where it may write. */
export const GIT_CONFIG = "git config"

/** What a git command is, by the words behind `git`; or why it is not known. */
export const knownGit = (words: ReadonlyArray<string>): KnownGit | string => {
  const start = subcommandAt(words)
  if (typeof start === "string") return start
  const [name = "", ...rest] = words.slice(start)
  if (name === "config") return readsConfig(rest) ? { writes: "no", runsHooks: false } : GIT_CONFIG
  const known = KNOWN[name]
  if (known === undefined) return `git ${name}`
  const end = rest.indexOf("--")
  const before = end === -1 ? rest : rest.slice(0, end)
  const options = before.filter((word) => word.startsWith("-") && word !== "-")
  const operands = [...before.filter((word) => !word.startsWith("-")), ...(end === -1 ? [] : rest.slice(end + 1))]
  const strange = options.find((option) => !known.options.has(option) && !known.options.has(option.replace(/=.*$/su, "=")))
  if (strange !== undefined) return `git ${name} ${strange}`
  if (known.under !== undefined && operands[0] !== undefined && !known.under.has(operands[0])) return `git ${name} ${operands[0]}`
  // A transport that is a program (`ext::sh -c …`).
  if (operands.some((word) => /^[A-Za-z0-9+.-]+::/u.test(word))) return `git ${name} with a transport that is a program`
  // Files that are named and no branch is: nothing to be recorded.
  const writes =
    typeof known.writes === "function"
      ? end !== -1 && (name === "checkout" || name === "switch")
        ? "no"
        : known.writes(operands, options)
      : options.some((option) => (known.writes as ReadonlySet<string> | undefined)?.has(option) === true)
        ? "always"
        : "no"
  return { writes, runsHooks: known.runsHooks === true }
}

/** Where the name of what git is to do stands; or which word before it is not known. */
const subcommandAt = (words: ReadonlyArray<string>): number | string => {
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ""
    if (word === "-C") at++
    else if (word === "-c") {
      const setting = words[++at] ?? ""
      if (!SETTINGS.has((setting.split("=", 1)[0] ?? "").toLowerCase())) return `git -c ${setting.split("=", 1)[0]}`
    } else if (word !== "--no-pager" && word !== "-P") return word.startsWith("-") ? `git ${word}` : at
  }
  return words.length
}

/** It only reads, or is about `.gitmodules`, which is a file of the workspace like others. */
const readsConfig = (words: ReadonlyArray<string>): boolean => {
  const at = words.findIndex((word) => word === "-f" || word === "--file")
  const others = at === -1 ? words : [...words.slice(0, at), ...words.slice(at + 2)]
  const isPlain = others.every((word) => !word.startsWith("-") || CONFIG_OPTIONS.has(word))
  if (at !== -1) return isPlain && words[at + 1] === ".gitmodules"
  const operands = others.filter((word) => !word.startsWith("-"))
  return (
    isPlain &&
    (others.some((word) => CONFIG_READS.has(word)) || (operands.length === 1 && operands[0] !== "edit" && operands[0] !== "list"))
  )
}

const CONFIG_READS = set("--get --get-all --get-regexp --list -l")
const CONFIG_OPTIONS = set(
  "--get --get-all --get-regexp --list -l --local --global --show-origin --name-only --add --unset --bool --int -z",
)

/** Whether these words would make git write a configuration for certain, whatever else is in them. */
export const wantsConfiguration = (words: ReadonlyArray<string>): boolean => {
  const name = words.find((word, at) => !word.startsWith("-") && words[at - 1] !== "-C" && words[at - 1] !== "-c") ?? ""
  const rest = words.slice(words.indexOf(name) + 1)
  if (name === "config") return !readsConfig(rest) && rest.filter((word) => !word.startsWith("-")).length > 1
  const writes = KNOWN[name]?.writes
  if (writes === undefined) return false
  const options = rest.filter((word) => word.startsWith("-"))
  if (typeof writes !== "function") return options.some((option) => writes.has(option))
  return (
    writes(
      rest.filter((word) => !word.startsWith("-")),
      options,
    ) === "always"
  )
}
