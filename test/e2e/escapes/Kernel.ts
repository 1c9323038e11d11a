/** Attempts on other processes, on the kernel, and by calls that pass a sandbox by. */
import { type Attempt, call, numberOf, perl } from "./Attempt.ts"

const buffer = (size: number): string => `my $b = "\\0" x ${size};`
const inPerl = (before: string, name: Parameters<typeof numberOf>[0], ...args: ReadonlyArray<string>): string =>
  perl(
    `${before} my @a = (${[numberOf(name), ...args].join(", ")}); my $r = syscall(shift(@a), @a); print "GOT $r\\n" if $r != -1; print "$!\\n"`,
  )

const processes: ReadonlyArray<Attempt> = [
  { name: "kill another program", script: (at) => `kill -9 ${at.victim}`, harm: { ends: "victim" } },
  {
    name: "kill everything",
    script: () => "kill -9 -1; sleep 0.2",
    harm: { ends: "victim" },
    alone: { unsafe: "it would end this test too" },
  },
  {
    name: "kill the server",
    script: (at) => `kill -9 ${at.server}; kill -9 $PPID; kill -9 1; sleep 0.2`,
    harm: { ends: "server" },
    alone: { unsafe: "the server is needed for the other attempts" },
  },
  {
    name: "kill by name",
    script: (at) =>
      `for p in /proc/[0-9]*; do grep -qz 'sleep' $p/cmdline 2>/dev/null && [ $\{p#/proc/} = ${at.victim} ] && kill -9 $\{p#/proc/}; done; sleep 0.1`,
    harm: { ends: "victim" },
  },
  { name: "attach to another program", script: (at) => call("ptrace", "16", String(at.victim), "0", "0"), harm: { tells: "attached" } },
  {
    name: "trace a child of its own",
    script: () =>
      perl(
        `my $p = fork; if (!$p) { exit(syscall(${numberOf("ptrace")}, 0, 0, 0, 0) == -1 ? 1 : 0) } waitpid($p, 0); print "GOT\\n" if $? == 0`,
      ),
    harm: { tells: "ptrace" },
  },
  {
    name: "read another program's memory",
    script: (at) =>
      `${perl(`open(M, "<", "/proc/${at.victim}/maps") and <M> and print "GOT\\n"; open(N, "+<", "/proc/${at.victim}/mem") and print "GOT\\n"`)}`,
    harm: { tells: "maps or memory" },
  },
  {
    name: "take a descriptor of another program",
    script: (at) =>
      perl(
        `my $p = syscall(${numberOf("pidfd_open")}, ${at.victim}, 0); my $f = syscall(${numberOf("pidfd_getfd")}, $p, 0, 0); print "GOT\\n" if $p != -1 && $f != -1`,
      ),
    harm: { tells: "a descriptor" },
  },
  {
    name: "take a descriptor of the keeper",
    script: () =>
      perl(
        `my $p = syscall(${numberOf("pidfd_open")}, 1, 0); for my $n (0 .. 20) { my $f = syscall(${numberOf("pidfd_getfd")}, $p, $n, 0); print "GOT $n\\n" if $f != -1 }`,
      ),
    harm: { tells: "a descriptor" },
    alone: { unsafe: "process 1 is the machine's own there" },
  },
  {
    name: "use descriptors that were left open",
    script: () =>
      perl(
        'for my $n (3 .. 255) { my $l = readlink("/proc/self/fd/$n"); print "GOT $n $l\\n" if defined($l) && $l !~ m{^/proc/} && $l !~ m{^(pipe|/dev/pts)} && open(my $f, "<&=", $n) }',
      ),
    harm: { tells: "a descriptor of the server" },
    alone: { unsafe: "there is no server around it" },
  },
  {
    name: "leave a process behind",
    // Long enough for what was left to have its turn, if it lives.
    script: (at) => [
      `setsid sh -c 'sleep 2; echo x > ${at.app}/left' >/dev/null 2>&1 & setsid -f sh -c 'sleep 2; echo x > ${at.app}/left'; sleep 0.05`,
      "sleep 2.2",
    ],
    harm: { changes: "app/left" },
  },
  {
    name: "have the keeper say that all is over, and live on in it",
    script: (at) => [
      perl(
        `open(M, "+<", "/proc/1/mem") or die "$!"; open(P, "<", "/proc/1/maps"); my $old = q{status=$?; exec 8>&-;}; my $new = "echo \\"A 0\\" >&3; sleep 2; echo x > ${at.app}/left; exit #"; ` +
          `while (<P>) { next unless /^([0-9a-f]+)-([0-9a-f]+) rw/; my ($from, $size) = (hex($1), hex($2) - hex($1)); next if $size > 1 << 26; sysseek(M, $from, 0); next unless sysread(M, my $b, $size); ` +
          `for (my $i = index($b, $old); $i >= 0; $i = index($b, $old, $i + 1)) { sysseek(M, $from + $i, 0); syswrite(M, $new); print "written\\n" } }`,
      ),
      "sleep 2.2",
    ],
    harm: { changes: "app/left" },
    alone: { unsafe: "there is no keeper without a sandbox" },
  },
  {
    name: "give the terminal commands",
    tty: true,
    script: () =>
      perl('open(T, "+<", "/dev/tty"); for my $c (split //, "echo GO\\nT") { my $r = ioctl(T, 0x5412, $c); print "GOT\\n" if defined $r }'),
    harm: { tells: "TIOCSTI" },
    alone: { unsafe: "it would type into the terminal of this test" },
  },
]

const namespaces: ReadonlyArray<Attempt> = [
  { name: "make a user namespace", script: () => "unshare -Ur true && echo GOT", harm: { tells: "a user namespace" }, alone: "perhaps" },
  {
    name: "make a user namespace by the call",
    script: () => call("unshare", "0x10000000"),
    harm: { tells: "a user namespace" },
    alone: "perhaps",
  },
  {
    name: "make a user namespace by clone",
    script: () => perl(`my $r = syscall(${numberOf("clone")}, 0x10000011, 0, 0, 0, 0); if ($r == 0) { exit 0 } print "GOT\\n" if $r > 0`),
    harm: { tells: "a user namespace" },
    alone: "perhaps",
  },
  { name: "make a mount namespace", script: () => call("unshare", "0x20000"), harm: { tells: "a mount namespace" }, alone: "root" },
  { name: "make a network namespace", script: () => call("unshare", "0x40000000"), harm: { tells: "a network namespace" }, alone: "root" },
  {
    name: "enter the namespaces of process 1",
    script: () =>
      perl(`open(F, "<", "/proc/1/ns/mnt") and do { my $r = syscall(${numberOf("setns")}, fileno(F), 0); print "GOT\\n" if $r != -1 }`),
    harm: { tells: "namespaces of the first process" },
    alone: { unsafe: "they are its own there" },
  },
  {
    name: "uncover the home by unmounting",
    script: (at) =>
      `umount ${at.home}/.ssh; ${perl(`syscall(${numberOf("umount2")}, "${at.home}/.ssh", 2)`)}; unshare -Urm sh -c 'umount ${at.home}/.ssh'; cat ${at.home}/.ssh/id_rsa`,
    harm: { leaks: "ssh key" },
  },
  {
    name: "make the disk writable again",
    script: (at) =>
      `mount -o remount,rw / ; mount -o remount,rw,bind / ; ${perl(`syscall(${numberOf("mount")}, "none", "/", "none", 4128, 0)`)}; unshare -Urm sh -c 'mount -o remount,rw,bind /'; echo x > ${at.outside}/new`,
    harm: { changes: "outside" },
  },
  {
    name: "mount something",
    script: () => inPerl("", "mount", '"none"', '"/mnt"', '"tmpfs"', "0", "0"),
    harm: { tells: "a mount" },
    alone: { unsafe: "it would stay mounted" },
  },
  { name: "open a file system", script: () => call("fsopen", '"tmpfs"', "0"), harm: { tells: "a file system" }, alone: "root" },
  { name: "clone a mount", script: () => call("open_tree", "-100", '"/"', "1"), harm: { tells: "a mount of its own" }, alone: "root" },
  { name: "change the root folder", script: () => call("chroot", '"."'), harm: { tells: "chroot" }, alone: "root" },
  {
    name: "open files by handle",
    script: () => inPerl(buffer(128).replace("0", "0"), "name_to_handle_at", "-100", '"/"', "$b", "$b", "0"),
    harm: { tells: "a handle" },
    alone: "perhaps",
  },
]

const kernel: ReadonlyArray<Attempt> = [
  {
    name: "have the kernel run a program on a crash",
    script: () =>
      "echo '|/bin/false' > /proc/sys/kernel/core_pattern && echo GOT; [ -w /proc/sys/kernel/core_pattern ] && sh -c ': >> /proc/sys/kernel/core_pattern' && echo GOT",
    harm: { tells: "core_pattern" },
    alone: { unsafe: "it would change the machine" },
  },
  {
    name: "change other settings of the kernel",
    script: () =>
      "for f in kernel/modprobe kernel/hostname vm/swappiness net/ipv4/ip_forward fs/binfmt_misc/register; do (: >> /proc/sys/$f) 2>/dev/null && echo GOT $f; done",
    harm: { tells: "settings of the kernel" },
    alone: "root",
  },
  { name: "press the magic key", script: () => "(: >> /proc/sysrq-trigger) && echo GOT", harm: { tells: "sysrq" }, alone: "perhaps" },
  {
    name: "write into /sys",
    script: () =>
      "for f in /sys/kernel/mm/transparent_hugepage/enabled /sys/power/state /sys/kernel/uevent_helper /sys/module/*/parameters/*; do [ -e $f ] && (: >> $f) 2>/dev/null && echo GOT $f && break; done",
    harm: { tells: "/sys" },
    alone: "root",
  },
  {
    name: "make a control group",
    script: () =>
      "for d in /sys/fs/cgroup /sys/fs/cgroup/*; do mkdir $d/codespace-evil 2>/dev/null && echo GOT && rmdir $d/codespace-evil; done",
    harm: { tells: "a control group" },
    alone: "perhaps",
  },
  {
    name: "write to the log of the kernel",
    script: () => "[ -c /dev/kmsg ] && (echo x > /dev/kmsg) 2>/dev/null && echo GOT",
    harm: { tells: "/dev/kmsg" },
    alone: { unsafe: "it would write to the machine's log" },
  },
  {
    name: "set up io_uring",
    script: () => inPerl(buffer(256), "io_uring_setup", "4", "$b"),
    harm: { tells: "io_uring" },
    alone: "perhaps",
  },
  {
    name: "use the session's keys",
    script: () => call("keyctl", "0", "-3", "0", "0", "0"),
    harm: { tells: "a key ring" },
    alone: "perhaps",
  },
  {
    name: "add a key",
    script: () => call("add_key", '"user"', '"codespace"', '"x"', "1", "-3"),
    harm: { tells: "a key" },
    alone: "perhaps",
  },
  {
    name: "load a program into the kernel",
    script: () => inPerl(buffer(128), "bpf", "0", "$b", "128"),
    harm: { tells: "bpf" },
    alone: "perhaps",
  },
  {
    name: "measure the kernel",
    script: () => inPerl(`${buffer(128)} substr($b, 0, 8) = pack("LL", 1, 128);`, "perf_event_open", "$b", "0", "-1", "-1", "0"),
    harm: { tells: "perf events" },
    alone: "perhaps",
  },
  { name: "handle page faults", script: () => call("userfaultfd", "0"), harm: { tells: "userfaultfd" }, alone: "perhaps" },
  {
    name: "become another user",
    script: () =>
      "id -u > before; (su -c 'echo GOT' nobody; sudo -n echo GOT) </dev/null 2>/dev/null; perl -e '$> = 65533; $< = 65533; print \"GOT\\n\" if $< == 65533'",
    harm: { tells: "another user" },
    alone: "root",
  },
  ...(process.arch === "x64"
    ? [
        {
          name: "use the other numbers of calls",
          script: () =>
            perl(
              `my $r = syscall(0x40000000 + 521, 0, 0, 0, 0); print "GOT\\n" if $r != -1; my $p = syscall(0x40000000 + 39); print "GOT $p\\n" if $p > 0`,
            ),
          harm: { tells: "x32" },
          alone: "perhaps",
        } as const,
      ]
    : []),
]

export const onKernel: ReadonlyArray<Attempt> = [...processes, ...namespaces, ...kernel]
