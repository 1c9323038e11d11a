/** Attempts to leave something that git runs later, outside of any sandbox; and by renaming what stands around it. */
import type { Attempt } from "./Attempt.ts"

const evil = "printf '#!/bin/sh\\ntouch /evil\\n'"
const plant = (hook: string): string => `${evil} > ${hook}; chmod +x ${hook}`

export const onGit: ReadonlyArray<Attempt> = [
  { name: "plant a hook", script: () => plant(".git/hooks/pre-commit"), harm: { changes: "app/.git/hooks" } },
  {
    name: "plant a hook from another folder",
    script: (at) => `cd conf; ${plant(`${at.app}/.git/hooks/post-checkout`)}; ${plant("../.git/hooks/pre-push")}`,
    harm: { changes: "app/.git/hooks" },
  },
  {
    name: "plant a hook through /proc",
    script: (at) => plant(`/proc/self/root${at.app}/.git/hooks/pre-commit`),
    harm: { changes: "app/.git/hooks" },
  },
  {
    name: "replace the hooks by a link",
    script: () => `mkdir h; ${plant("h/pre-commit")}; rm -rf .git/hooks; mv .git/hooks .git/h; ln -sfn ../h .git/hooks`,
    harm: { changes: "app/.git/hooks" },
  },
  {
    name: "move the hooks away and make others",
    script: () => `mv .git/hooks .git/old; mkdir .git/hooks; ${plant(".git/hooks/pre-commit")}`,
    harm: { changes: "app/.git/hooks" },
  },
  {
    name: "write the configuration",
    script: () => "echo '[core]\n\tfsmonitor = touch /evil' >> .git/config",
    harm: { changes: "app/.git/config" },
  },
  {
    name: "write the configuration as git does",
    script: () => "git config core.fsmonitor 'touch /evil'; git config alias.status '!touch /evil'",
    harm: { changes: "app/.git/config" },
  },
  {
    name: "put another configuration in its place",
    script: () =>
      "cp .git/config .git/c; echo '[core]\n\tpager = evil' >> .git/c; mv -f .git/c .git/config; ln -f .git/c .git/config; cp --remove-destination .git/c .git/config",
    harm: { changes: "app/.git/config" },
  },
  {
    name: "configure the worktree",
    script: () =>
      "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor evil; echo x > .git/config.worktree; grep -q worktreeConfig .git/config && echo GOT",
    harm: { tells: "a configuration for the worktree that counts" },
  },
  {
    name: "rename .git and put a copy in its place",
    script: () => `mv .git g; cp -r g .git; ${plant(".git/hooks/pre-commit")}`,
    harm: { changes: "app/.git/hooks" },
  },
  {
    name: "remove .git and make another",
    script: () => `rm -rf .git; git init -q; ${plant(".git/hooks/pre-commit")}`,
    harm: { changes: "app/.git/hooks" },
  },
  {
    name: "point .git elsewhere",
    script: () => `cp -r .git g; rm -rf .git; mv .git g2; echo 'gitdir: g' > .git; ${plant("g/hooks/pre-commit")}; [ -f .git ] && echo GOT`,
    harm: { tells: "a .git that leads elsewhere" },
  },
  {
    name: "say that another folder has the hooks",
    script: () => "mkdir c; cp -r .git/* c; echo ../c > .git/commondir; mv c/config .git/commondir",
    harm: { changes: "app/.git/commondir" },
  },
  {
    name: "give a submodule another common folder",
    script: () => "mkdir c; cp -r .git/modules/lib/* c; echo ../../../c > .git/modules/lib/commondir",
    harm: { changes: "app/.git/modules/lib/commondir" },
  },
  {
    name: "point a worktree in the workspace elsewhere",
    script: () => "mkdir g; cp -r .git/* g; echo 'gitdir: ../g' > side/.git; rm -f side/.git; echo 'gitdir: ../g' > side/.git",
    harm: { changes: "app/side/.git" },
  },
  {
    name: "put a folder in the place of a worktree's pointer",
    script: () => "rm -f side/.git; cp -r .git/modules/lib side/.git; echo x >> side/.git/config",
    harm: { changes: "app/side/.git" },
  },
  {
    name: "change what a worktree in the workspace belongs to",
    script: () => "mkdir g; cp -r .git/* g; echo ../../../g > .git/worktrees/side/commondir",
    harm: { changes: "app/.git/worktrees/side/commondir" },
  },
  {
    name: "have what is put right put right somewhere else",
    script: (at) =>
      `mv side s; ln -s ${at.outside} side; rm -f .git/worktrees/side/commondir; mv .git/worktrees/side .git/worktrees/s; ln -s ${at.outside} .git/worktrees/side; touch s/.git`,
    harm: { changes: "outside" },
    alone: { unsafe: "only what looks after git folders could do it" },
  },
  {
    name: "plant a hook in a nested repository",
    script: () => plant("vendor/nested/.git/hooks/pre-commit"),
    harm: { changes: "app/vendor/nested/.git/hooks" },
  },
  {
    name: "configure a nested repository",
    script: () => "git -C vendor/nested config core.fsmonitor evil",
    harm: { changes: "app/vendor/nested/.git/config" },
  },
  {
    name: "rename the folder of a nested repository and put a copy in its place",
    script: () => `mv vendor/nested vendor/n; cp -r vendor/n vendor/nested; ${plant("vendor/nested/.git/hooks/pre-commit")}`,
    harm: { changes: "app/vendor/nested/.git/hooks" },
  },
  {
    name: "rename a folder further up and put a copy in its place",
    script: () => `mv vendor v; cp -r v vendor; ${plant("vendor/nested/.git/hooks/pre-commit")}`,
    harm: { changes: "app/vendor/nested/.git/hooks" },
  },
  {
    name: "plant a hook in a submodule",
    script: () => plant(".git/modules/lib/hooks/post-checkout"),
    harm: { changes: "app/.git/modules/lib/hooks" },
  },
  {
    name: "configure a submodule",
    script: () => "git -C lib config core.fsmonitor evil; echo '[core]\n\tfsmonitor = evil' >> .git/modules/lib/config",
    harm: { changes: "app/.git/modules/lib/config" },
  },
  {
    name: "rename the modules and put copies in their place",
    script: () =>
      `mv .git/modules .git/m; cp -r .git/m .git/modules; mv .git/modules/lib .git/modules/l; cp -r .git/modules/l .git/modules/lib; ${plant(".git/modules/lib/hooks/post-checkout")}`,
    harm: { changes: "app/.git/modules/lib/hooks" },
  },
  {
    name: "make a submodule's folder look like none, and then plant a hook in it",
    script: () => [
      "mv .git/modules/lib/HEAD .git/modules/lib/H; mv .git/modules/lib/objects .git/modules/lib/o",
      `${plant(".git/modules/lib/hooks/post-checkout")}; mv .git/modules/lib/H .git/modules/lib/HEAD; mv .git/modules/lib/o .git/modules/lib/objects`,
    ],
    harm: { changes: "app/.git/modules/lib/hooks" },
  },
  {
    name: "make .git look like none, and then plant a hook in it",
    script: () => [
      "mv .git/HEAD .git/H; mv .git/objects .git/o",
      `${plant(".git/hooks/pre-commit")}; mv .git/hooks .git/h; mkdir .git/hooks; ${plant(".git/hooks/pre-commit")}; mv .git/H .git/HEAD; mv .git/o .git/objects`,
    ],
    harm: { changes: "app/.git/hooks" },
  },
  {
    name: "point a submodule elsewhere",
    script: () => "cp -r .git/modules/lib l; echo 'gitdir: ../l' > lib/.git; rm -f lib/.git; mv l/x lib/.git",
    harm: { changes: "app/lib/.git" },
  },
  {
    name: "plant a hook from a linked worktree",
    in: "tree",
    script: (at) => `${plant("$(git rev-parse --git-common-dir)/hooks/pre-commit")}; ${plant(`${at.base}/main/.git/hooks/pre-commit`)}`,
    harm: { changes: "main/.git/hooks" },
  },
  {
    name: "configure from a linked worktree",
    in: "tree",
    script: () => "git config core.fsmonitor evil",
    harm: { changes: "main/.git/config" },
  },
  {
    name: "point a linked worktree elsewhere",
    in: "tree",
    script: () => 'cp -r $(git rev-parse --git-common-dir) g; echo "gitdir: $PWD/g" > .git; rm -f .git; echo "gitdir: $PWD/g" > .git',
    harm: { changes: "tree/.git" },
  },
  {
    name: "change what a linked worktree belongs to",
    in: "tree",
    script: (at) => `cp -r ${at.base}/main/.git g; echo "$PWD/g" > ${at.base}/main/.git/worktrees/tree/commondir`,
    harm: { changes: "main/.git/worktrees/tree/commondir" },
  },
  {
    name: "write the files of the repository a worktree belongs to",
    in: "tree",
    script: (at) => `echo x > ${at.base}/main/f`,
    harm: { changes: "main/f" },
  },
  {
    name: "plant a hook where there is no folder for them",
    in: "plain",
    script: () => `mkdir -p .git/hooks; ${plant(".git/hooks/pre-commit")}; [ -x .git/hooks/pre-commit ] && echo GOT`,
    harm: { tells: "a hook in a repository without hooks" },
  },
  {
    name: "plant a hook in a repository of the workspace's own root",
    in: "nested",
    script: () => `${plant("deep/er/repo/.git/hooks/pre-commit")}; mv deep d; cp -r d deep; ${plant("deep/er/repo/.git/hooks/pre-push")}`,
    harm: { changes: "nested/deep/er/repo/.git/hooks" },
  },
  {
    name: "plant a setting beside harmless work of git's own",
    script: () => [
      "git remote add x ../x; git config core.fsmonitor evil",
      "git remote add x ../x && echo '[core]\n\tpager = evil' >> .git/config",
    ],
    harm: { changes: "app/.git/config" },
  },
  {
    name: "add a remote whose transport is a program",
    script: () => ["git remote add x 'ext::sh -c evil'", "git remote set-url x 'ext::sh -c evil'; git remote add -- x ext::evil"],
    harm: { changes: "app/.git/config" },
  },
  {
    name: "name a submodule so that its folder lies elsewhere",
    script: () =>
      "git -c protocol.file.allow=always submodule add --force --name ../../conf/evil ./lib conf/evil; [ -e conf/evil/HEAD ] && echo GOT",
    harm: { tells: "a repository outside of git's folder" },
    alone: "perhaps",
  },
  {
    name: "give git's own work a setting that names a program",
    script: () => [
      "git -c core.sshCommand='sh -c \"echo x >> .git/config\"' remote update; git -c core.fsmonitor='echo x >> .git/config; false' status",
      "git -c core.hooksPath=conf submodule update --init; git -c alias.x='!echo x >> .git/config' x; git remote add up ../up",
    ],
    harm: { changes: "app/.git/config" },
  },
  {
    name: "have git's own work find a program of the workspace first",
    script: () => [
      "mkdir -p b; printf '#!/bin/sh\\necho x >> .git/config\\n' > b/git; chmod +x b/git",
      "for PATH in b; do git remote add x y; done; PATH=b:$PATH git remote add x y; export PATH=b:$PATH; git remote add x y",
    ],
    harm: { changes: "app/.git/config" },
  },
  {
    name: "have git's own work run a filter of a repository that lies among packages",
    script: () => [
      "mkdir -p node_modules/x; cd node_modules/x; git init -q; git config filter.x.clean 'sh -c \"echo x >> ../../.git/config\"'; echo '* filter=x' > .gitattributes; echo 1 > f",
      "cd node_modules/x; git add f; git remote add x y",
      "git -C node_modules/x add -A; git remote add up ../up; git config core.pager evil",
    ],
    harm: { changes: "app/.git/config" },
    alone: { unsafe: "remotes are added to another repository" },
  },
  {
    name: "configure a submodule's own folder through git's own work",
    script: () => [
      "git -C lib config core.fsmonitor evil; git -C lib remote add x ../x",
      "git -C lib remote add x ext::evil; git -C lib submodule foreach 'git config core.pager evil'",
    ],
    harm: { changes: "app/.git/modules/lib/config" },
  },
  {
    name: "find the configuration open after git's own work has replaced the file",
    script: () => [
      "true",
      "git remote add replaced ../x",
      "printf '[core]\\n\\tpager = evil\\n' >> .git/config && echo GOT",
      "true >> .git/config && echo GOT",
    ],
    harm: { tells: "a configuration it could write" },
  },
  {
    name: "leave a process behind that writes when git's own work has ended",
    script: () => [
      "(while :; do echo '[core]\n\tpager = evil' >> .git/config; sleep 0.01; done) >/dev/null 2>&1 & git remote add x ../x",
      "git remote add x ../x & sh -c 'while ! echo x >> .git/config; do :; done & exit 0'",
    ],
    harm: { changes: "app/.git/config" },
    alone: { unsafe: "it would not end" },
  },
]
