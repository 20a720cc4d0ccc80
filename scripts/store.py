#!/usr/bin/env python3
"""Figures of caches on disk (docs/STORE.md), of two ends on loopback with a store each.

    scripts/store.py ONCEWIRE DIR [--sizes 512M,2G,8G] [--megabytes 300] [--fill | --corpus FILE...]

DIR is on the disk to measure, and needs four times the largest size. Prints Markdown: bytes written to the
device for each byte of content; memory by the size of the store; CPU time and speed of new content;
how long both ends take from their start to the first byte after kill -9; the speed of content that
repeats only on disk, beside what the disk reads in sequence, and when it comes again and again; and
what objects of 15 KB cost that lie only on disk, beside the same objects from memory, as bytes on the
wire, CPU time of both ends, and time until the last byte. With --fill it only tells how long a restart takes with logs that are almost
full: until the first byte, and until the oldest content is found.
Objects and content are random, so that nothing repeats but what should. Bytes and CPU time are
counted; times are of the clock, so they mean something only on a machine that does nothing else. No
root, no network.

With --corpus, it measures instead what these files cost, one after the other, with everything in
memory, with a sixteenth of them in memory, and with that and the rest on disk:

    scripts/fetch-corpora.sh CORPORA django typescript
    scripts/store.py ONCEWIRE DIR --corpus CORPORA/*/*.tar
"""

import argparse
import contextlib
import functools
import itertools
import json
import mmap
import os
import pathlib
import random
import signal
import socket
import socketserver
import statistics
import subprocess
import tempfile
import threading
import time

# How often content comes from disk, after the first time.
TURNS = 4
OBJECT = 15_000
OBJECTS = 40
MEMORY = "128M"
ENDS = ("serve", "connect")


def size(text):
    units = {"M": 1 << 20, "G": 1 << 30}
    return int(float(text[:-1]) * units[text[-1]])


def sequential(paths):
    """Bytes a second that the disk gives in reads of 1 MiB, one after the other, past the page cache."""
    buffer, got, begin = mmap.mmap(-1, 1 << 20), 0, time.monotonic()
    for path in paths:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        while now := os.readv(file, [buffer]):
            got += now
        os.close(file)
    return got / (time.monotonic() - begin)


@functools.lru_cache(maxsize=80)
def random_content(number, length):
    """Random bytes, the same for the same number. Kept, because Python makes them slower than they move."""
    return random.Random(number).randbytes(length)


class Origin(socketserver.ThreadingTCPServer):
    """Sends content number N to whoever writes `N LENGTH` and a line feed: random, or file -N - 1."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, files=()):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        number, length = map(int, self.rfile.readline().split())
        file = self.server.files[-number - 1] if number < 0 else None
        self.wfile.write(file.read_bytes() if file else random_content(number, length))


def until(what, ready, limit=120):
    begin = time.monotonic()
    while not ready():
        if time.monotonic() - begin > limit:
            raise SystemExit(f"waited {limit} s in vain: {what}")
        time.sleep(0.005)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Tunnel:
    def __init__(self, program, dir, origin, per_peer, memory):
        self.program, self.dir, self.per_peer, self.memory, self.origin = program, dir, per_peer, memory, origin
        self.ports = {"serve": free_port(), "connect": free_port()}
        self.target = f"127.0.0.1:{origin.server_address[1]}"
        self.keys = {}
        for end in ENDS:
            made = subprocess.run([program, "keygen", dir / f"{end}.key"], check=True, capture_output=True, text=True)
            self.keys[end] = made.stdout.strip()
        self.processes = {}
        self.start()

    def start(self):
        begin = time.monotonic()
        for end, peer in (("serve", "connect"), ("connect", "serve")):
            listen = f"127.0.0.1:{self.ports[end]}"
            role = {
                "serve": ["serve", "--listen", listen, "--allow", self.target],
                "connect": ["connect", f"127.0.0.1:{self.ports['serve']}", "-L", f"{listen}:{self.target}"],
            }[end]
            store = ["--store", self.dir / end, "--store-size", "1T", "--store-per-peer", str(self.per_peer), "--store-for", "bytes"]
            common = ["--key", self.dir / f"{end}.key", "--peer", self.keys[peer], "--memory", self.memory]
            socket_of = ["--status", self.dir / f"{end}.sock"]
            log = open(self.dir / f"{end}.log", "ab")
            self.processes[end] = subprocess.Popen([self.program, *role, *common, *(store if self.per_peer else []), *socket_of], stderr=log, stdout=log)
        return begin

    def kill(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()

    def fetch(self, number, length):
        """Bytes on the wire that a content costs; checks it."""
        with socket.create_connection(("127.0.0.1", self.ports["connect"])) as stream:
            stream.sendall(f"{number} {length}\n".encode())
            with stream.makefile("rb") as content:
                got = content.read()
        wanted = self.origin.files[-number - 1].read_bytes() if number < 0 else random_content(number, length)
        if got != wanted:
            raise SystemExit(f"content {number} differs: {len(got)} of {length} bytes")

    def is_up(self):
        with contextlib.suppress(OSError, ValueError, SystemExit):
            self.fetch(0, 1)
            return True
        return False

    def status(self, end):
        asked = [self.program, "status", "--json", "--socket", self.dir / f"{end}.sock"]
        return json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)[0]

    def settled(self):
        until("all is on disk", lambda: all(self.status(end)["store"]["pending_bytes"] == 0 for end in ENDS))

    def wire(self):
        status = self.status("connect")
        return status["transport_sent_bytes"] + status["transport_received_bytes"]

    def cpu(self):
        ticks = 0
        for process in self.processes.values():
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident(self, end):
        lines = pathlib.Path(f"/proc/{self.processes[end].pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


@contextlib.contextmanager
def tunnel(program, parent, per_peer, memory=MEMORY, files=()):
    with tempfile.TemporaryDirectory(dir=parent) as dir, Origin(files) as origin:
        pair = Tunnel(program, pathlib.Path(dir), origin, per_peer, memory)
        try:
            until("the tunnel is up", pair.is_up)
            yield pair
        finally:
            pair.kill()
            origin.shutdown()


def objects(pair):
    """Bytes on the wire for each object of a turn."""
    costs = []
    for number in range(OBJECTS):
        before = pair.wire()
        pair.fetch(1000 + number, OBJECT)
        costs.append(pair.wire() - before)
    return costs


def time_of_objects(pair, turns):
    """CPU seconds for each object, without asking for anything in between; and seconds of each."""
    before, seconds = pair.cpu(), []
    for turn in turns:
        for number in range(OBJECTS):
            random_content(turn + number, OBJECT)
            begin = time.monotonic()
            pair.fetch(turn + number, OBJECT)
            seconds.append(time.monotonic() - begin)
    return (pair.cpu() - before) / len(seconds), seconds


def restart(program, parent, per_peer):
    """Bytes of a log that is almost full; seconds after kill -9 of both ends until the first byte, and
    until the oldest content is found, which is read from disk again."""
    old = [(40_000 + number, 100_000) for number in range(400)]
    filled = sum(length for _, length in old)
    with tunnel(program, parent, per_peer) as pair:
        for content in old:
            pair.fetch(*content)
        number = 50_000
        # Half of it is for what goes this way.
        while filled + 20_000_000 < per_peer // 2:
            pair.fetch(number, 10_000_000)
            number, filled = number + 1, filled + 10_000_000
            # What the disk is too slow for is not kept.
            until("it is written", lambda: all(pair.status(end)["store"]["written_bytes"] >= filled - 1_000_000 for end in ENDS))
        pair.settled()
        pair.kill()
        begin = pair.start()
        until("the tunnel is up again", pair.is_up)
        first = time.monotonic() - begin
        for content in old:
            before = pair.wire()
            pair.fetch(*content)
            if pair.wire() - before < content[1] / 10:
                return filled, first, time.monotonic() - begin
            time.sleep(0.5)
        return filled, first, None


def corpus(program, parent, files):
    """What a corpus costs with everything in memory, with a sixteenth of it, and with that and a disk."""
    projects = {}
    for file in sorted(files, key=lambda file: [int(part) for part in file.stem.split("-")[-1].split(".")]):
        projects.setdefault(file.stem.split("-")[0], []).append(file)
    # A release of each project in turn.
    files = [file for turn in itertools.zip_longest(*projects.values()) for file in turn if file]
    total = sum(file.stat().st_size for file in files)
    print(f"{len(files)} files of {total / 1e6:.1f} MB, a release of each project in turn\n")
    print("| | log in memory | bytes on the wire | saved | of what memory saves |")
    print("|---|---|---|---|---|")
    best = None
    # A quarter of the memory becomes each log.
    for name, memory, per_peer in [
        ("all in memory", total * 5, 0),
        ("a sixteenth in memory", total // 16 * 4, 0),
        ("a sixteenth in memory, all on disk", total // 16 * 4, total * 5),
    ]:
        with tunnel(program, parent, per_peer, str(memory), files) as pair:
            before = pair.wire()
            for number, file in enumerate(files):
                pair.fetch(-number - 1, file.stat().st_size)
            cost, log = pair.wire() - before, pair.status("serve")["sessions"][0]["here"]["log_capacity"]
            best = best or total - cost
            saved = total - cost
            print(f"| {name} | {log / 1e6:.1f} MB | {cost:,} | {saved / total:.1%} | {saved / best:.1%} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oncewire", type=pathlib.Path)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--sizes", default="512M,2G,8G")
    parser.add_argument("--megabytes", type=int, default=300, help="content that passes before memory is read (default 300)")
    parser.add_argument("--fill", action="store_true", help="fill logs of these sizes, and tell how long a restart takes")
    parser.add_argument("--corpus", type=pathlib.Path, nargs="+", help="files to carry instead, whose names end in a version")
    args = parser.parse_args()
    program = args.oncewire.resolve()
    if args.corpus:
        return corpus(program, args.dir, args.corpus)

    if args.fill:
        print("| store of a peer | content | first byte after kill -9 of both | its oldest content is found after |")
        print("|---|---|---|---|")
        for text in args.sizes.split(","):
            filled, first, found = restart(program, args.dir, size(text))
            print(f"| {text} | {filled / 1e9:.2f} GB | {first:.2f} s | {f'{found:.0f} s' if found else 'not within 200 s'} |", flush=True)
        return

    print("| store of a peer | device bytes per byte of content | content not stored | resident, serve, connect | CPU time of both ends per GB, speed | first byte after kill -9 of both |")
    print("|---|---|---|---|---|---|")
    none = None
    for text in ["none", *args.sizes.split(",")]:
        per_peer = 0 if text == "none" else size(text)
        with tunnel(program, args.dir, per_peer) as pair:
            length = args.megabytes * 10**6 // 30
            for number in range(30):
                random_content(10_000 + number, length)
            cpu, begin = pair.cpu(), time.monotonic()
            for number in range(30):
                pair.fetch(10_000 + number, length)
            speed = 30 * length / (time.monotonic() - begin) / 1e6
            if per_peer:
                pair.settled()
                stores = [pair.status(end)["store"] for end in ENDS]
                ratio = sum(one["device_written_bytes"] for one in stores) / sum(one["written_bytes"] for one in stores)
                lost = sum(one["lost_bytes"] for one in stores) / (2 * 30 * length)
            cpu = (pair.cpu() - cpu) / (30 * length) * 1e9
            resident = [pair.resident(end) for end in ENDS]
            none = none or resident
            shown = ", ".join(f"{bytes / 1e6:.1f} MB" for bytes in resident)
            pair.kill()
            begin = pair.start()
            until("the tunnel is up again", pair.is_up)
            again = time.monotonic() - begin
            if per_peer:
                print(f"| {text} | {ratio:.3f} | {lost:.0%} | {shown} | {cpu:.2f} s, {speed:.0f} MB/s | {again:.2f} s |", flush=True)
            else:
                print(f"| none | | | {shown} | {cpu:.2f} s, {speed:.0f} MB/s | {again:.2f} s, empty |", flush=True)

    with tunnel(program, args.dir, size("2G")) as pair:
        contents = [(30_000 + number, 12_000_000) for number in range(20)]
        for content in contents:
            pair.fetch(*content)
        pair.settled()
        # The oldest half is only on disk.
        before, begin = pair.status("serve")["store"], time.monotonic()
        for content in contents[:10]:
            pair.fetch(*content)
        seconds, after = time.monotonic() - begin, pair.status("serve")["store"]
        names = ("recalled_hour_bytes", "recalled_day_bytes", "recalled_older_bytes")
        recalled = sum(after[name] - before[name] for name in names)
        pair.settled()
        disk = sequential(pair.dir.glob("serve/*.log"))
        speed = 120e6 / seconds
        print(f"\nRepeats of which {recalled / 120e6:.0%} lay only on disk: {speed / 1e6:.0f} MB/s; the disk reads {disk / 1e6:.0f} MB/s in sequence: {speed / disk:.2f}.")
        # All of it in turns, so that what comes from disk has come from there before.
        written, cpu, begin = pair.status("serve")["store"]["device_written_bytes"], pair.cpu(), time.monotonic()
        for content in contents * TURNS:
            pair.fetch(*content)
        length = TURNS * 240e6
        speed, cpu = length / (time.monotonic() - begin), (pair.cpu() - cpu) / length * 1e9
        pair.settled()
        written = (pair.status("serve")["store"]["device_written_bytes"] - written) / length
        print(f"All of it {TURNS} times more: {speed / 1e6:.0f} MB/s, {cpu:.1f} s of CPU time of both ends per GB, {written:.2f} bytes written to a device for each.")

    print(f"\n| object of {OBJECT:,} bytes | bytes on the wire, median of {OBJECTS} | mean | CPU time of both ends, each | median of time |")
    print("|---|---|---|---|---|")
    with tunnel(program, args.dir, size(args.sizes.split(",")[0])) as pair:
        turns = (1000, 2000, 3000)
        rows = []
        first = objects(pair)
        rows.append(("new", first, *time_of_objects(pair, turns[1:])))
        # More than memory has room for.
        for number in range(10):
            pair.fetch(20_000 + number, 12_000_000)
        pair.settled()
        disk = objects(pair)
        rows.append(("only on disk", disk, *time_of_objects(pair, turns[1:])))
        memory = objects(pair)
        rows.append(("in memory", memory, *time_of_objects(pair, turns[1:])))
        for name, costs, cpu, seconds in rows:
            print(f"| {name} | {statistics.median(costs):.0f} | {statistics.mean(costs):.0f} | {cpu * 1e3:.2f} ms | {statistics.median(seconds) * 1e3:.2f} ms |")
        here = pair.status("serve")["store"]
        read = here["recalled_hour_bytes"] + here["recalled_day_bytes"] + here["recalled_older_bytes"]
        print(f"\n`serve` read {read:,} bytes from disk to send them as references; {here['lost_ranges']} ranges lost.")


if __name__ == "__main__":
    main()
