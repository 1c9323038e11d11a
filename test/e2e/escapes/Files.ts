/** Attempts on files outside of the workspace, on secrets, and on what the profile denies inside of it. */
import { type Attempt, numberOf, perl } from "./Attempt.ts"

const writing: ReadonlyArray<Attempt> = [
  { name: "write beside the workspace", script: (at) => `echo x > ${at.outside}/new`, harm: { changes: "outside" } },
  { name: "append to a shell's start file", script: (at) => `echo x >> ${at.home}/.bashrc`, harm: { changes: "home/.bashrc" } },
  { name: "make a start file that was not there", script: (at) => `echo x > ${at.home}/.zshenv`, harm: { changes: "home/.zshenv" } },
  {
    name: "authorize a key",
    script: (at) => `mkdir -p ${at.home}/.ssh; echo x >> ${at.home}/.ssh/authorized_keys`,
    harm: { changes: "home/.ssh" },
  },
  {
    name: "write through a link made inside",
    script: (at) => `ln -s ${at.outside}/precious out; echo x > out`,
    harm: { changes: "outside" },
  },
  { name: "write through a link to a folder", script: (at) => `ln -s ${at.outside} door; echo x > door/new`, harm: { changes: "outside" } },
  { name: "write through a hard link", script: (at) => `ln ${at.outside}/precious hard && echo x > hard`, harm: { changes: "outside" } },
  { name: "write through /proc/self/root", script: (at) => `echo x > /proc/self/root${at.outside}/new`, harm: { changes: "outside" } },
  {
    name: "write through the root of process 1",
    script: (at) => `echo x > /proc/1/root${at.outside}/new`,
    harm: { changes: "outside" },
    alone: "perhaps",
  },
  { name: "write through /proc/self/cwd", script: () => "echo x > /proc/self/cwd/../outside/new", harm: { changes: "outside" } },
  {
    name: "write through an open folder",
    script: (at) => `exec 9<${at.outside}; echo x > /proc/self/fd/9/new`,
    harm: { changes: "outside" },
  },
  { name: "move a file out", script: (at) => `echo x > f2; mv f2 ${at.outside}/moved`, harm: { changes: "outside" } },
  { name: "move a file in", script: (at) => `mv ${at.outside}/precious here`, harm: { changes: "outside" } },
  { name: "remove a file outside", script: (at) => `rm -f ${at.outside}/precious`, harm: { changes: "outside" } },
  { name: "truncate a file outside", script: (at) => `truncate -s 0 ${at.outside}/precious`, harm: { changes: "outside" } },
  { name: "change a mode outside", script: (at) => `chmod 777 ${at.outside}/precious`, harm: { changes: "outside" } },
  { name: "put a folder beside the workspace", script: () => "mkdir ../evil", harm: { changes: "evil" } },
  { name: "rename the workspace", script: (at) => `mv ${at.app} ${at.app}2; mkdir ${at.app}2`, harm: { changes: "app2" } },
  { name: "write into another workspace", script: (at) => `echo x > ${at.base}/other/new`, harm: { changes: "other" } },
  {
    name: "write into the ledger's folder",
    script: (at) => `mkdir -p ${at.state}; echo x > ${at.state}/evil`,
    harm: { changes: "home/.local/state/codespace/evil" },
  },
  {
    name: "replace the configuration",
    script: (at) => `echo '{}' > ${at.config}`,
    harm: { changes: "home/.config/codespace/config.json" },
  },
  {
    name: "put another configuration in its place by renaming",
    script: (at) => `echo '{}' > c; mv -f c ${at.config}`,
    harm: { changes: "home/.config/codespace/config.json" },
  },
  { name: "write where all is read-only", in: "reader", script: () => "echo x > f; echo x > new", harm: { changes: "reader" } },
  { name: "remove where all is read-only", in: "reader", script: () => "rm -rf f ./*", harm: { changes: "reader" } },
  {
    name: "leave a program that runs as its owner",
    script: () => "cp /bin/sh suid && chmod 4755 suid; chmod u+s suid; chmod 6755 suid; stat -c %a suid | grep -q '^[46]' && echo GOT",
    harm: { tells: "a set-user-id file in the workspace" },
  },
  {
    name: "make a device",
    script: () => "mknod disk b 254 0 && head -c 4 disk >/dev/null && echo GOT; mknod mem c 1 1 && echo GOT",
    harm: { tells: "a device" },
    alone: "root",
  },
  {
    name: "open the disk",
    script: () =>
      "for d in /dev/vd? /dev/sd? /dev/nvme?n? /dev/mem /dev/kmsg /dev/loop-control /dev/fuse /dev/kvm; do [ -e $d ] && echo GOT $d; done",
    harm: { tells: "devices of the host" },
    alone: "root",
  },
]

const leak = (
  name: string,
  secret: Extract<Attempt["harm"], { readonly leaks: unknown }>["leaks"],
  script: Attempt["script"],
  more: Partial<Attempt> = {},
): Attempt => ({
  name,
  script,
  harm: { leaks: secret },
  ...more,
})

const reading: ReadonlyArray<Attempt> = [
  leak("read an ssh key", "ssh key", (at) => `cat ${at.home}/.ssh/id_rsa`),
  leak("read an ssh key through a link", "ssh key", (at) => `ln -s ${at.home}/.ssh/id_rsa key; cat key`),
  leak("read an ssh key through /proc", "ssh key", (at) => `cat /proc/self/root${at.home}/.ssh/id_rsa /proc/1/root${at.home}/.ssh/id_rsa`),
  leak("read an ssh key by a hard link", "ssh key", (at) => `ln ${at.home}/.ssh/id_rsa key && cat key`),
  leak("read a cloud login", "cloud login", (at) => `cat ${at.home}/.aws/credentials`),
  leak("read .netrc", "netrc", (at) => `cat ${at.home}/.netrc`),
  leak(
    "read stored git logins",
    "git login",
    (at) =>
      `cat ${at.home}/.git-credentials; printf 'protocol=https\\nhost=h.example\\n\\n' | git -c credential.helper=store credential fill`,
  ),
  leak("read the token of a tool", "token of a tool", (at) => `cat ${at.home}/.config/gh/hosts.yml`),
  leak("read what was typed", "history", (at) => `cat ${at.home}/.bash_history`),
  leak("archive the whole home", "ssh key", (at) => `tar cf - ${at.home} 2>/dev/null | cat -v`),
  leak(
    "read the ledger",
    "ledger",
    (at) => `cat ${at.state}/codespace.sqlite* | strings -n 4 2>/dev/null || cat -v ${at.state}/codespace.sqlite*`,
  ),
  leak("find the ledger wherever it is", "ledger", (at) => `find ${at.base} -name 'codespace.sqlite*' -exec cat -v {} +`),
  leak("read the configuration", "configuration", (at) => `cat ${at.config}`),
  leak(
    "read the server's environment",
    "server environment",
    (at) => `cat /proc/${at.server}/environ; cat /proc/[0-9]*/environ; tr '\\0' '\\n' < /proc/1/environ; env`,
  ),
  leak("read the environment of another program", "victim environment", (at) => `cat /proc/${at.victim}/environ /proc/[0-9]*/environ`),
  leak("read a denied file", "denied file", () => "cat .env; cat conf/.env"),
  leak(
    "read a denied file by its whole path",
    "denied file",
    (at) => `cat ${at.app}/.env /proc/self/root${at.app}/.env /proc/self/cwd/.env`,
  ),
  leak(
    "read a denied file from another folder",
    "denied file",
    (at) => `cd / && cat ${at.app.slice(1)}/.env; cd ${at.app}/conf && cat ../.env .env`,
  ),
  leak("rename a denied file", "denied file", () => "mv .env e; cat e"),
  leak("rename the folder of a denied file", "denied file", () => "mv conf conf2; cat conf2/.env; cp -r conf2 conf3; cat conf3/.env"),
  leak("give a denied file another name", "denied file", () => "ln .env e && cat e; cp .env e2; cat e2"),
  leak("read a denied file by a link that is there", "denied file", () => "cat link-to-env"),
  leak("read a denied file by a hard link that is there", "denied file", () => "cat twin-of-env"),
  leak("archive a denied file", "denied file", () => "tar cf - . | cat -v; git add -f .env; git show :.env"),
  leak("send a denied file to itself", "denied file", () =>
    perl('open(F, "<", ".env"); open(G, "<&=", fileno(F)); print <G>; open(H, "<", "/dev/fd/" . fileno(F)); print <H>'),
  ),
  leak(
    "take the mask off a denied file",
    "denied file",
    () => `umount .env; chmod 644 .env; ${perl(`syscall(${numberOf("umount2")}, ".env", 2)`)}; cat .env`,
  ),
  leak("read below a denied folder", "denied folder", () => "cat private/inner/key; cd private && ls -R . && cat inner/key"),
  leak("rename a denied folder", "denied folder", () => "mv private p; cat p/inner/key; chmod 755 private; cat private/inner/key"),
  leak("read another workspace", "other workspace", (at) => `cat ${at.base}/other/secret.txt`),
  leak("read another workspace by a link", "other workspace", (at) => `ln -s ${at.base}/other o; cat o/secret.txt`),
  leak("read what others left in /tmp", "host tmp", (at) => `cat ${at.tmpSecret}; cat /tmp/codespace-secret-*`),
  leak("read shared memory files", "host shm", (at) => `cat ${at.shmFile} /dev/shm/*`),
  leak("read shared memory", "shared memory", (at) => perl(`my $b; shmread(${at.sharedMemory}, $b, 0, 64); print $b`)),
]

export const onFiles: ReadonlyArray<Attempt> = [...writing, ...reading]
