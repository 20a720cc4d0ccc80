#!/usr/bin/env python3
"""Measures `oncewire link` beside other ways to join two sites: bare TCP, wireguard-go and boringtun.

    scripts/link.py ONCEWIRE FILE... [--ways WAYS] [--contents CONTENTS] [--turns N] [--csv FILE] [--figures FILE]

Ways: `tcp` (no tunnel; all TCP is `cubic`), `plain` (`oncewire link --match none`), `ours` (`oncewire link`), `wireguard-go`, `boringtun`.
Each has its own cable (veth) between two network namespaces, which this script makes and removes, and its own tunnel.
Both ends of every tunnel start anew in each turn, and the ways take turns with each content:

  new             the FILEs, one after the other, on one TCP connection
  repeated        the same again
  incompressible  random bytes, as many as the FILEs have, at most --random megabytes
  small           requests of 200 bytes on an open connection; each answer has 1,000 new bytes of text
  idle            nothing, for --idle seconds, all ways at once
  replay          with --replay: the IP packets of a capture (pcap, Ethernet) go into the devices of `plain` and `ours`, from
                  the near end if their source is in --inside, else from the far end, at their times, and in runs as the
                  kernel would join them. Bytes are those of the packets with Ethernet headers; all must arrive. To
                  compare: `oncewire study CAPTURE --algorithms oncewire-link`

CPU is user and system time of both ends of the tunnel, from /proc/PID/stat. Path bytes are those of both directions
with their Ethernet headers, from the counters of a queue on each end of the cable, which count the segments of a run.
The first turn is not counted: it compares the hash of everything that arrives. Writes one row of CSV for each measurement,
and prints medians; --figures prints the medians of such a file. Needs root and `ip` and `tc` of iproute2, and for the
rivals:

  apt-get install wireguard-tools
  go install golang.zx2c4.com/wireguard@latest     # --wireguard-go PATH of the program `wireguard`
  cargo install boringtun-cli                      # --boringtun PATH

Over an emulated path, which all ways share, everything but idle:

  oncewire-path-emulator --delay-ms 25 --rate-mbit 20 --loss 0.01 --congestion cubic -- scripts/link.py ONCEWIRE FILE...
"""

import argparse
import csv
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = ["tcp", "plain", "ours", "wireguard-go", "boringtun"]
CONTENTS = ["new", "repeated", "incompressible", "small", "idle"]
# Room for captured packets of 1,500 bytes, which the link need not divide then.
REPLAY_MTU = 1700
COLUMNS = ["turn", "content", "way", "bytes", "seconds", "cpu_near", "cpu_far", "path_bytes", "p50", "p99"]
TICK = os.sysconf("SC_CLK_TCK")
PORT, ORIGIN = 7077, 8080
REQUEST, ANSWER = 200, 1000
MTU = 1420
# Seconds after which anything that has not ended has failed.
LIMIT = 300


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT,
                          **more).stdout


def text_of(number, length):
    """Text that no other number has, and that compresses as markup does."""
    seed = hashlib.sha256(str(number).encode()).hexdigest()
    rows = (f'<tr id="r{seed[at:at + 6]}"><td>{int(seed[at:at + 8], 16)}</td><td>item {at}</td></tr>\n'
            for at in range(0, 56, 2))
    return "".join(rows).encode()[:length].ljust(length, b".")


def origin(files):
    """Runs in the far namespace. A line with names of files, separated by tabs, gets their content; `small` begins
    exchanges of REQUEST and ANSWER bytes. One connection at a time."""
    with socket.create_server(("0.0.0.0", ORIGIN), backlog=16) as listener:
        # Connections inherit it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                try:
                    answer(connection, files)
                except OSError:
                    pass


def answer(connection, files):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader = connection.makefile("rb")
    what = reader.readline().decode().strip()
    if what == "small":
        number = time.time_ns()
        while len(reader.read(REQUEST)) == REQUEST:
            connection.sendall(text_of(number, ANSWER))
            number += 1
    else:
        for name in what.split("\t"):
            with open(files[int(name)], "rb") as file:
                connection.sendfile(file)


def client(host, what, check):
    """Runs in the near namespace. Prints one line of JSON."""
    with socket.create_connection((host, ORIGIN), timeout=LIMIT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if what.startswith("small "):
            connection.sendall(b"small\n")
            times, reader = [], connection.makefile("rb")
            for _ in range(int(what.split()[1])):
                begun = time.perf_counter()
                connection.sendall(os.urandom(REQUEST // 2).hex().encode())
                assert len(reader.read(ANSWER)) == ANSWER
                times.append(time.perf_counter() - begun)
            times.sort()
            result = {"bytes": len(times) * (REQUEST + ANSWER), "seconds": sum(times), "p50": times[len(times) // 2],
                      "p99": times[len(times) * 99 // 100]}
        else:
            begun, length, hasher, buffer = time.perf_counter(), 0, hashlib.sha256(), bytearray(1 << 20)
            connection.sendall(what.encode() + b"\n")
            while count := connection.recv_into(buffer):
                length += count
                if check:
                    hasher.update(memoryview(buffer)[:count])
            result = {"bytes": length, "seconds": time.perf_counter() - begun, "hash": hasher.hexdigest()}
    print(json.dumps(result))


def emulated():
    """Whether this runs under oncewire-path-emulator."""
    return "NS_A" in os.environ


class Site:
    """A namespace, and the processes in it."""

    def __init__(self, name):
        """Uses the namespace if it exists, and makes it otherwise."""
        self.name, self.is_made = name, name not in run("ip", "netns", "list").split()
        if not self.is_made:
            return
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        # Neighbor discovery would count as traffic.
        for which in ("all", "default"):
            path = f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6"
            run("ip", "netns", "exec", name, "sh", "-c", f"[ ! -e {path} ] || echo 1 > {path}")

    def start(self, *command, **more):
        # `ip netns exec` becomes the program, so the process is the program's.
        return subprocess.Popen(["ip", "netns", "exec", self.name, *map(str, command)], **more)

    def run(self, *command):
        return run("ip", "netns", "exec", self.name, *command)

    def ip(self, *command):
        return run("ip", "-n", self.name, *command)

    def device_with(self, address):
        links = json.loads(self.ip("-j", "address", "show"))
        return next(link["ifname"] for link in links if any(one.get("local") == address for one in link["addr_info"]))

    def remove(self):
        if not self.is_made:
            return
        for pid in run("ip", "netns", "pids", self.name).split():
            os.kill(int(pid), signal.SIGKILL)
        run("ip", "netns", "delete", self.name)


class Way:
    """A cable between the sites, and a tunnel over it. Number `nth` is in all its addresses and names."""

    def __init__(self, sites, name, nth, options, work):
        self.sites, self.name, self.options, self.work, self.processes = sites, name, options, work, []
        self.port = PORT + nth
        self.device = f"owt{os.getpid() % 100_000}-{nth}"
        self.outer = [f"10.218.{nth}.{end}" for end in (1, 2)]
        if emulated():
            self.outer = [os.environ["ADDR_A"], os.environ["ADDR_B"]]
            self.cables = [site.device_with(address) for site, address in zip(sites, self.outer)]
        else:
            self.cables = 2 * [f"cable{nth}"]
            self.connect()
        self.inner = self.outer if name == "tcp" else [f"10.219.{nth}.{end}" for end in (1, 2)]
        for site, cable in zip(sites, self.cables):
            # Its counters know the segments of a run; those of the device do not.
            run("tc", "-n", site.name, "qdisc", "replace", "dev", cable, "root", "pfifo", "limit", "10000")

    def connect(self):
        near, far = (["netns", site.name] for site in self.sites)
        run("ip", "link", "add", self.cables[0], *near, "type", "veth", "peer", "name", self.cables[1], *far)
        for site, address, cable in zip(self.sites, self.outer, self.cables):
            site.ip("address", "add", f"{address}/24", "dev", cable)
            site.ip("link", "set", cable, "mtu", REPLAY_MTU if self.options.replay else 1500, "up")
        for end, cable in enumerate(self.cables):
            # Nobody asks for addresses of Ethernet while a link is idle.
            ethernet = json.loads(self.sites[end].ip("-j", "link", "show", "dev", cable))[0]["address"]
            self.sites[1 - end].ip("neighbor", "replace", self.outer[end], "lladdr", ethernet, "dev", self.cables[1 - end],
                                   "nud", "permanent")

    def device_of(self, end):
        # Control sockets of the rivals share a directory.
        return self.device + "ab"[end]

    def path_bytes(self):
        counters = [json.loads(run("tc", "-n", site.name, "-s", "-j", "qdisc", "show", "dev", cable))
                    for site, cable in zip(self.sites, self.cables)]
        return sum(counter[0]["bytes"] for counter in counters)

    def start(self):
        if self.name in ("plain", "ours"):
            for end in (1, 0):
                self.processes.append(self.link(end))
        elif self.name != "tcp":
            for end in (1, 0):
                self.processes.append(self.rival(end))
            for end in (1, 0):
                self.configure(end)
        # The near end's process first.
        self.processes.reverse()
        self.wait()

    def link(self, end):
        peer = (self.work / f"{'ba'[end]}.pub").read_text().strip()
        where = [f"{self.outer[1]}:{self.port}"] if end == 0 else ["--listen", f"{self.outer[1]}:{self.port}"]
        return self.sites[end].start(
            self.options.oncewire, "link", *where, "--key", self.work / f"{'ab'[end]}.key", "--peer", peer, "--allowed",
            f"{self.inner[1 - end]}/32", "--address", f"{self.inner[end]}/24", "--device", self.device_of(end), "--status",
            self.work / f"{self.device_of(end)}.status", "--log", "error",
            *(["--allowed", "0.0.0.0/0", "--allowed", "::/0", "--routes", "off", "--path-mtu", REPLAY_MTU]
              if self.options.replay else []),
            *(["--match", "none"] if self.name == "plain" else self.options.link_options.split()))

    def rival(self, end):
        if self.name == "wireguard-go":
            command = [self.options.wireguard_go, "-f", self.device_of(end)]
        else:
            command = [self.options.boringtun, "-f", "--disable-drop-privileges", self.device_of(end)]
        return self.sites[end].start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def configure(self, end):
        site, device = self.sites[end], self.device_of(end)
        for _ in range(100):
            if os.path.exists(f"/var/run/wireguard/{device}.sock"):
                break
            time.sleep(0.05)
        peer = (self.work / f"{'ba'[end]}.wg.pub").read_text().strip()
        site.run("wg", "set", device, "private-key", self.work / f"{'ab'[end]}.wg", "listen-port", self.port, "peer", peer,
                 "allowed-ips", f"{self.inner[1 - end]}/32", "endpoint", f"{self.outer[1 - end]}:{self.port}")
        site.ip("address", "add", f"{self.inner[end]}/24", "dev", device)
        site.ip("link", "set", device, "mtu", MTU, "up")

    def wait(self):
        """Until a connection gets through."""
        for _ in range(100):
            try:
                self.sites[0].run(sys.executable, __file__, "--client", self.inner[1], "small 1", "0")
                return
            except subprocess.CalledProcessError:
                if any(process.poll() is not None for process in self.processes):
                    break
                time.sleep(0.1)
        sys.exit(f"link.py: {self.name} does not come up")

    def cpu(self):
        """Seconds of user and system time of the near end and of the far end."""
        def of(process):
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / TICK
        return [of(process) for process in self.processes] or [0.0, 0.0]

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []


class Measurement:
    """Sites, ways, and what is sent."""

    def __init__(self, options, work):
        self.options, self.work, self.sites, self.ways = options, work, [], []
        self.server = None
        self.files = [str(pathlib.Path(file).resolve()) for file in options.files]
        size = min(options.random * 1_000_000, sum(map(os.path.getsize, self.files)) or options.random * 1_000_000)
        (work / "random").touch()
        self.random = size
        self.names = {"new": list(range(len(self.files))), "incompressible": [len(self.files)]}
        self.names["repeated"] = self.names["new"]
        for end in "ab":
            (work / f"{end}.pub").write_text(run(options.oncewire, "keygen", work / f"{end}.key"))
            if {"wireguard-go", "boringtun"} & set(options.ways):
                secret = run("wg", "genkey")
                (work / f"{end}.wg").write_text(secret)
                os.chmod(work / f"{end}.wg", 0o600)
                (work / f"{end}.wg.pub").write_text(run("wg", "pubkey", input=secret))

    def open(self):
        for end, name in (("near", "NS_A"), ("far", "NS_B")):
            self.sites.append(Site(os.environ.get(name, f"owlink-{end}-{os.getpid()}")))
        self.ways = [Way(self.sites, name, nth, self.options, self.work) for nth, name in enumerate(self.options.ways)]
        self.server = self.sites[1].start(sys.executable, __file__, "--origin", *self.files, self.work / "random",
                                     stdout=subprocess.PIPE)
        self.server.stdout.readline()

    def close(self):
        for way in self.ways:
            way.stop()
        if self.server:
            self.server.kill()
            self.server.wait()
        for site in self.sites:
            site.remove()

    def turn(self, turn, write):
        check = turn == 0
        with open(self.work / "random", "wb") as random:
            for begin in range(0, self.random, 1 << 20):
                random.write(os.urandom(min(1 << 20, self.random - begin)))
        # A way that restarts first in every turn would always find the same state of the machine.
        ways = self.ways[turn % len(self.ways):] + self.ways[:turn % len(self.ways)]
        for way in ways:
            way.start()
        for content in self.options.contents:
            if content == "idle":
                self.idle(turn, ways, write)
                continue
            if content == "replay":
                for way in ways:
                    self.replay(turn, way, write)
                continue
            for way in ways:
                self.measure(turn, content, way, check, write)
        for way in ways:
            way.stop()

    def measure(self, turn, content, way, check, write):
        small = content == "small"
        what = f"small {self.options.requests}" if small else "\t".join(map(str, self.names[content]))
        path, cpu = way.path_bytes(), way.cpu()
        result = json.loads(self.sites[0].run(sys.executable, __file__, "--client", way.inner[1], what, int(check)))
        # Acknowledgments and what the receiver still has.
        time.sleep(0.2)
        spent = [after - before for after, before in zip(way.cpu(), cpu)]
        if not small:
            self.compare(content, way, result, check)
        if turn > 0:
            write({**result, "turn": turn, "content": content, "way": way.name, "cpu_near": spent[0], "cpu_far": spent[1],
                   "path_bytes": way.path_bytes() - path})

    def compare(self, content, way, result, check):
        files = [(*self.files, self.work / "random")[nth] for nth in self.names[content]]
        if result["bytes"] != sum(map(os.path.getsize, files)):
            sys.exit(f"link.py: {way.name} delivered {result['bytes']} bytes of {content}")
        if check:
            hasher = hashlib.sha256()
            for file in files:
                hasher.update(pathlib.Path(file).read_bytes())
            if result["hash"] != hasher.hexdigest():
                sys.exit(f"link.py: {way.name} delivered other bytes of {content}")

    def replay(self, turn, way, write):
        # Segments: the device counts runs.
        received = lambda end: json.loads(self.sites[end].run(self.options.oncewire, "status", "--json", "--socket",
                                                              self.work / f"{way.device_of(end)}.status"))[0]["received"]["packets"]
        before = [received(end) for end in (1, 0)]
        for end, site in enumerate(self.sites):
            # Packets do not come from TCP of this machine, which would wait for a full queue.
            site.ip("link", "set", way.device_of(end), "txqueuelen", "20000")
        path, cpu, begun = way.path_bytes(), way.cpu(), time.perf_counter()
        senders = [self.sites[end].start(sys.executable, pathlib.Path(__file__).with_name("replay.py"), way.device_of(end),
                                         self.options.replay, self.options.inside, side, stdout=subprocess.PIPE)
                   for end, side in enumerate(("near", "far"))]
        sent = [json.loads(sender.communicate(timeout=LIMIT)[0]) for sender in senders]
        seconds = time.perf_counter() - begun
        time.sleep(0.5)
        arrived = [received(end) - count for end, count in zip((1, 0), before)]
        if any(side["skipped"] for side in sent) or arrived != [side["packets"] for side in sent]:
            print(f"link.py: {way.name} delivered {arrived} packets of {sent}", file=sys.stderr)
        spent = [after - before for after, before in zip(way.cpu(), cpu)]
        if turn > 0:
            write({"turn": turn, "content": "replay", "way": way.name, "bytes": sum(side["bytes"] for side in sent),
                   "seconds": seconds, "cpu_near": spent[0], "cpu_far": spent[1], "path_bytes": way.path_bytes() - path})

    def idle(self, turn, ways, write):
        if turn == 0:
            return
        before = [(way.path_bytes(), way.cpu()) for way in ways]
        time.sleep(self.options.idle)
        for way, (path, cpu) in zip(ways, before):
            spent = [after - before for after, before in zip(way.cpu(), cpu)]
            write({"turn": turn, "content": "idle", "way": way.name, "bytes": 0, "seconds": self.options.idle,
                   "cpu_near": spent[0], "cpu_far": spent[1], "path_bytes": way.path_bytes() - path})


def figures(rows):
    """Prints medians of the rows of a CSV file."""
    ways = [way for way in WAYS if any(row["way"] == way for row in rows)]
    for content in dict.fromkeys(row["content"] for row in rows):
        cells = {way: [row for row in rows if (row["way"], row["content"]) == (way, content)] for way in ways}
        cells = {way: found for way, found in cells.items() if found}
        middle = lambda way, of: statistics.median(of(row) for row in cells[way])
        cpu = lambda row: float(row["cpu_near"]) + float(row["cpu_far"])
        number = lambda name: lambda row: float(row[name] or 0)
        turns = max(len(found) for found in cells.values())
        total = middle(next(iter(cells)), number("bytes"))
        speed = {way: total / middle(way, cpu) / 1e9 if middle(way, cpu) else 0 for way in cells}
        if content == "idle":
            print(f"\nidle, {middle(next(iter(cells)), number('seconds')):.0f} s; {turns} turns\n")
            print("| way | bytes a day | CPU s a day |\n|---|---:|---:|")
            for way in cells:
                day = 86_400 / middle(way, number("seconds"))
                print(f"| {way} | {middle(way, number('path_bytes')) * day:,.0f} | {middle(way, cpu) * day:,.0f} |")
            continue
        ratio = lambda way, to, of: f"{of[way] / of[to]:.2f}" if of.get(way) and of.get(to) else "-"
        if content == "small":
            requests = total / (REQUEST + ANSWER)
            times = {way: {p: middle(way, number(p)) * 1e6 for p in ("p50", "p99")} for way in cells}
            bare = times.get("tcp", {"p50": 0})["p50"]
            added = {way: times[way]["p50"] - bare for way in cells if way != "tcp"}
            print(f"\nsmall, {requests:.0f} requests; {turns} turns\n")
            print("| way | us | 99th | added | to plain | path bytes each | CPU us each |\n|---|---:|---:|---:|---:|---:|---:|")
            for way in cells:
                print(f"| {way} | {times[way]['p50']:.0f} | {times[way]['p99']:.0f} | {added.get(way, 0):.0f} | "
                      f"{ratio(way, 'plain', added)} | {middle(way, number('path_bytes')) / requests:.0f} | "
                      f"{middle(way, cpu) / requests * 1e6:.1f} |")
            continue
        print(f"\n{content}, {total / 1e6:.0f} MB; {turns} turns\n")
        print("| way | s | CPU s near, far | GB per CPU s | to plain | path bytes | to plain |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        paths = {way: middle(way, number("path_bytes")) / total for way in cells}
        for way in cells:
            rate = f"{speed[way]:.3f}" if speed[way] else "-"
            near, far = middle(way, number("cpu_near")), middle(way, number("cpu_far"))
            spent = f"{near:.2f}, {far:.2f}" if near + far else "-"
            print(f"| {way} | {middle(way, number('seconds')):.2f} | {spent} | {rate} | "
                  f"{ratio(way, 'plain', speed)} | {paths[way]:.4f} | {ratio(way, 'plain', paths)} |")


def missing(options):
    """What this machine lacks."""
    needs = {"ip": "apt-get install iproute2", "tc": "apt-get install iproute2"}
    if {"wireguard-go", "boringtun"} & set(options.ways):
        needs["wg"] = "apt-get install wireguard-tools"
    if "wireguard-go" in options.ways:
        needs[options.wireguard_go] = "go install golang.zx2c4.com/wireguard@latest, then --wireguard-go PATH"
    if "boringtun" in options.ways:
        needs[options.boringtun] = "cargo install boringtun-cli, then --boringtun PATH"
    lacks = [f"{name} is missing: {how}" for name, how in needs.items() if shutil.which(name) is None]
    if os.geteuid() != 0:
        lacks.append("network namespaces need root")
    if not os.path.exists("/dev/net/tun"):
        lacks.append("/dev/net/tun is missing: modprobe tun")
    return lacks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oncewire", nargs="?")
    parser.add_argument("files", nargs="*")
    names = lambda known: lambda text: [name if name in known else parser.error(f"{name} is none of {', '.join(known)}")
                                        for name in text.split(",")]
    parser.add_argument("--ways", type=names(WAYS), default=WAYS)
    parser.add_argument("--contents", type=names(CONTENTS), default=CONTENTS)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--random", type=int, default=300, help="most megabytes of random bytes")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--idle", type=int, default=60, help="seconds")
    parser.add_argument("--replay", metavar="CAPTURE", help="replay this, with the ways plain and ours, and nothing else")
    parser.add_argument("--inside", metavar="NETWORKS", help="networks of the near end in the capture, by commas")
    parser.add_argument("--csv", default="link.csv")
    parser.add_argument("--figures", help="print the medians of this file, and measure nothing")
    parser.add_argument("--link-options", default="", help="options of `ours`, separated by spaces")
    parser.add_argument("--wireguard-go", default="wireguard")
    parser.add_argument("--boringtun", default="boringtun-cli")
    options = parser.parse_args()
    if options.figures:
        with open(options.figures, newline="") as source:
            return figures(list(csv.DictReader(source)))
    if not options.oncewire or not (options.files or options.replay):
        parser.error("ONCEWIRE and at least one FILE are needed")
    if options.replay:
        if not options.inside or emulated():
            parser.error("--replay needs --inside, and cables")
        options.replay, options.contents = os.path.abspath(options.replay), ["replay"]
        options.ways = [way for way in options.ways if way in ("plain", "ours")]
    if emulated() and "idle" in options.contents:
        options.contents = [content for content in options.contents if content != "idle"]
    if lacks := missing(options):
        sys.exit("link.py: " + "\nlink.py: ".join(lacks))
    options.oncewire = os.path.abspath(options.oncewire)
    # Namespaces are removed after a signal, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = []
    with tempfile.TemporaryDirectory() as work, open(options.csv, "w", newline="") as target:
        out = csv.DictWriter(target, COLUMNS, extrasaction="ignore", lineterminator="\n")
        out.writeheader()

        def write(row):
            row = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()}
            rows.append({name: row.get(name, "") for name in COLUMNS})
            out.writerow(row)
            target.flush()

        measurement = Measurement(options, pathlib.Path(work))
        try:
            measurement.open()
            for turn in range(options.turns + 1):
                measurement.turn(turn, write)
        finally:
            measurement.close()
    print(f"load {os.getloadavg()[1]:.1f} of {os.cpu_count()} cores in the last 5 minutes")
    figures(rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--origin"]:
        origin(sys.argv[2:])
    elif sys.argv[1:2] == ["--client"]:
        client(sys.argv[2], sys.argv[3], sys.argv[4] == "1")
    else:
        main()
