/** Attempts to reach what the profile does not allow: directly, by other families of sockets, and through the proxy. */
import { type Attempt, perl } from "./Attempt.ts"

const connect = (host: string, port: number, family: "INET" | "INET6" = "INET"): string =>
  perl(
    `use Socket qw(:all); socket(S, AF_${family}, SOCK_STREAM, 0) or die; ` +
      `my $a = inet_pton(AF_${family}, "${host}"); connect(S, ${family === "INET" ? "pack_sockaddr_in" : "pack_sockaddr_in6"}(${port}, $a)) or die "$!"; syswrite S, "GET / HTTP/1.0\\r\\n\\r\\n"; sysread S, my $b, 64; print $b`,
  )

const connectUnix = (path: string): string =>
  perl(
    `use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or die "$!"; connect(S, pack_sockaddr_un("${path}")) or die "$!"; syswrite S, "hi"; sysread S, my $b, 64; print $b`,
  )

const family = (number: number, type: number, protocol = 0): string =>
  perl(`socket(S, ${number}, ${type}, ${protocol}) and print "GOT\\n"; print "$!\\n"`)

/** Asks the proxy that the environment names for a tunnel, or for a page. */
const throughProxy = (lines: string, host = "x"): string =>
  perl(
    `use Socket; my ($h, $p) = (($ENV{http_proxy} || $ENV{HTTP_PROXY} || "") =~ m{://([^:/]+):(\\d+)}) or die "no proxy"; socket(S, AF_INET, SOCK_STREAM, 0); ` +
      `connect(S, pack_sockaddr_in($p, inet_aton($h))) or die "$!"; syswrite S, "${lines}"; sysread S, my $b, 512; print $b; if ($b =~ m{^HTTP/1.. 200}) { syswrite S, "GET / HTTP/1.0\\r\\nHost: ${host}\\r\\n\\r\\n"; alarm 5; while (sysread S, my $c, 512) { print $c } }`,
  )

const tunnel = (target: string): string => throughProxy(`CONNECT ${target} HTTP/1.1\\r\\nHost: ${target}\\r\\n\\r\\n`, target)

const socks = (address: string, port: number): string =>
  perl(
    `use Socket; my ($h, $p) = (($ENV{http_proxy} || $ENV{HTTP_PROXY} || "") =~ m{://([^:/]+):(\\d+)}) or die "no proxy"; socket(S, AF_INET, SOCK_STREAM, 0); ` +
      `connect(S, pack_sockaddr_in($p, inet_aton($h))) or die; syswrite S, "\\5\\1\\0"; sysread S, my $b, 2; syswrite S, "\\5\\1\\0\\1" . inet_aton("${address}") . pack("n", ${port}); sysread S, $b, 10; print unpack("H*", $b), "\\n"; syswrite S, "x"; sysread S, $b, 64; print $b`,
  )

/** What is allowed, so that the other ways through the proxy are known to fail for their targets alone. */
export const throughTheProxy: Attempt = {
  name: "reach what is allowed",
  in: "allowed",
  script: (at) => tunnel(`127.0.0.1:${at.ports.allowed}`),
  harm: { reaches: "allowed" },
}

const direct = (place: Attempt["in"] & string): ReadonlyArray<Attempt> => [
  {
    name: `connect to the host's loopback (${place})`,
    in: place,
    script: (at) => connect("127.0.0.1", at.ports.tcp),
    harm: { reaches: "tcp" },
  },
  {
    name: `connect to the host's own address (${place})`,
    in: place,
    script: (at) => connect(at.lanAddress, at.ports.lan),
    harm: { reaches: "lan" },
  },
  {
    name: `send a datagram (${place})`,
    in: place,
    script: (at) =>
      perl(
        `use Socket; socket(S, AF_INET, SOCK_DGRAM, 0); send(S, "x", 0, pack_sockaddr_in(${at.ports.udp}, inet_aton("127.0.0.1"))); print "$!\\n"`,
      ),
    harm: { reaches: "udp" },
  },
  {
    name: `connect to a socket without a file (${place})`,
    in: place,
    script: (at) => connectUnix(at.sockets.abstract),
    harm: { reaches: "abstract" },
  },
  {
    name: `connect to a daemon's socket in /run (${place})`,
    in: place,
    script: (at) => connectUnix(at.sockets["run socket"]),
    harm: { reaches: "run socket" },
  },
  {
    name: `connect to a daemon's socket in /tmp (${place})`,
    in: place,
    script: (at) => connectUnix(at.sockets["tmp socket"]),
    harm: { reaches: "tmp socket" },
  },
  {
    name: `connect to a daemon's socket elsewhere (${place})`,
    in: place,
    script: (at) => connectUnix(at.sockets["home socket"]),
    harm: { reaches: "home socket" },
  },
]

export const onNetwork: ReadonlyArray<Attempt> = [
  ...direct("app"),
  ...direct("looped"),
  ...direct("allowed"),
  { name: "connect to the host's loopback by IPv6", script: (at) => connect("::1", at.ports.ipv6, "INET6"), harm: { reaches: "ipv6" } },
  {
    name: "connect to a daemon's socket although the network is open",
    in: "open",
    script: (at) => connectUnix(at.sockets["home socket"]),
    harm: { reaches: "home socket" },
  },
  { name: "talk to the hypervisor", script: () => family(40, 1), harm: { tells: "a vsock" }, alone: "perhaps" },
  { name: "make raw packets", script: () => `${family(17, 3, 768)}; ${family(2, 3, 1)}`, harm: { tells: "a raw socket" }, alone: "root" },
  { name: "use the kernel's own ciphers", script: () => family(38, 5), harm: { tells: "an AF_ALG socket" }, alone: "perhaps" },
  {
    name: "ask the proxy for a raw address",
    in: "allowed",
    script: (at) => tunnel(`127.0.0.1:${at.ports.tcp}`),
    harm: { reaches: "tcp" },
    alone: { unsafe: "there is no proxy without a sandbox" },
  },
  {
    name: "ask the proxy for a name that leads to this machine",
    in: "allowed",
    script: (at) => tunnel(`localhost:${at.ports.tcp}`),
    harm: { reaches: "tcp" },
    alone: { unsafe: "there is no proxy without a sandbox" },
  },
  {
    name: "ask the proxy for an address in other clothes",
    in: "allowed",
    script: (at) =>
      ["2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0", "[64:ff9b::7f00:1]"]
        .map((host) => tunnel(`${host}:${at.ports.tcp}`))
        .join("; "),
    harm: { reaches: "tcp" },
    alone: { unsafe: "there is no proxy without a sandbox" },
  },
  {
    name: "ask the proxy for a page of another port",
    in: "allowed",
    script: (at) =>
      throughProxy(
        `GET http://127.0.0.1:${at.ports.tcp}/ HTTP/1.1\\r\\nHost: 127.0.0.1:${at.ports.allowed}\\r\\nConnection: close\\r\\n\\r\\n`,
      ),
    harm: { reaches: "tcp" },
    alone: { unsafe: "there is no proxy without a sandbox" },
  },
  {
    name: "ask the proxy as SOCKS does",
    in: "allowed",
    script: (at) => socks("127.0.0.1", at.ports.tcp),
    harm: { reaches: "tcp" },
    alone: { unsafe: "there is no proxy without a sandbox" },
  },
  {
    name: "use the proxy of another workspace",
    in: "neighbour",
    script: (at) =>
      `${tunnel(`127.0.0.1:${at.ports.allowed}`)}; find / -xdev -type s 2>/dev/null | while read -r s; do perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un($ARGV[0])) and syswrite S, "CONNECT 127.0.0.1:${at.ports.allowed} HTTP/1.1\\r\\n\\r\\n" and sysread S, my $b, 64' "$s"; done`,
    harm: { reaches: "allowed" },
    alone: { unsafe: "there is no proxy without a sandbox" },
  },
]
