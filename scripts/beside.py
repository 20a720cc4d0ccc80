#!/usr/bin/env python3
"""Measures a tunnel whose content is compressed: how long a transfer takes on links of several rates, and how long
small requests take beside one, with each --inside.

    scripts/beside.py ONCEWIRE FILE...

The FILEs are sent one after the other, each for the first time; gzip'd releases of several projects suit. Needs root:
both ends and the link between them are in network namespaces of their own (veth, and tbf for the rate). Compares the
length and the hash of what arrives. Prints Markdown.
"""

import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

import namespaces

LINKS = [None, "1gbit", "300mbit", "100mbit", "20mbit"]
INSIDE = ["auto", "always", "off"]
SMALL = 15_000
ORIGIN, TUNNEL, LOCAL = 8080, 7077, 9090
NEAR, FAR = "10.217.0.1", "10.217.0.2"


def serve_files(files):
    """The origin: a line with the number of a file gets the file; `small N` gets N bytes that are new each time."""
    listener = socket.create_server((FAR, ORIGIN), backlog=256)

    def answer(connection):
        with connection:
            request = connection.makefile("rb").readline().split()
            if request and request[0] == b"small":
                connection.sendall(os.urandom(int(request[1])))
            elif request:
                with open(files[int(request[0])], "rb") as file:
                    connection.sendfile(file)

    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def fetch(request, address=("127.0.0.1", LOCAL), hashed=False):
    """What the origin answers: its length, the seconds to the last byte, and its hash if that is wanted."""
    begun, length, hasher = time.perf_counter(), 0, hashlib.sha256()
    with socket.create_connection(address) as connection:
        connection.sendall(request.encode() + b"\n")
        buffer = bytearray(1 << 18)
        while count := connection.recv_into(buffer):
            length += count
            if hashed:
                hasher.update(memoryview(buffer)[:count])
    return length, time.perf_counter() - begun, hasher.hexdigest()


def client(mode, count, seconds):
    """Runs in the near namespace: prints one JSON line."""
    if mode == "bulk":
        took = [fetch(str(nth)) for nth in range(count)]
        print(json.dumps({"bytes": sum(one[0] for one in took), "seconds": sum(one[1] for one in took)}))
    elif mode == "check":
        print(json.dumps([fetch(str(nth), hashed=True)[2] for nth in range(count)]))
    else:
        times, threads, stop, moved = [], [], threading.Event(), [0]

        def one():
            length, took, _ = fetch(f"small {SMALL}")
            assert length == SMALL
            times.append(took)

        # The bulk flow is a process of its own, so that it does not wait for this one's interpreter lock.
        bulk = None
        if mode == "beside":
            bulk = subprocess.Popen([sys.executable, __file__, "--client", "bulk", str(count), "0"],
                                    stdout=subprocess.PIPE)
            time.sleep(0.2)
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds and (bulk is None or bulk.poll() is None):
            threads.append(threading.Thread(target=one))
            threads[-1].start()
            time.sleep(max(0.0, begun + len(threads) * 0.01 - time.perf_counter()))
        for thread in threads:
            thread.join()
        times.sort()
        result = {"requests": len(times), "p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}
        if bulk:
            bulk.kill() if bulk.poll() is None else result.update(json.loads(bulk.stdout.read()))
        print(json.dumps(result))


class Path:
    """Two namespaces and a link between them."""

    def __init__(self, rate):
        self.near, self.far = namespaces.pair((NEAR, FAR))
        run = lambda *args: subprocess.run(args, check=True)
        for name in (self.near, self.far):
            if rate:
                run("tc", "-n", name, "qdisc", "add", "dev", "ow0", "root", "tbf", "rate", rate, "burst", "128k",
                    "latency", "40ms")

    def start(self, name, *command, **more):
        return subprocess.Popen(["ip", "netns", "exec", name, *map(str, command)], **more)

    def client(self, mode, count, seconds=10):
        with self.start(self.near, sys.executable, __file__, "--client", mode, count, seconds,
                        stdout=subprocess.PIPE) as process:
            return json.loads(process.communicate()[0])

    def close(self):
        for name in (self.near, self.far):
            subprocess.run(["ip", "netns", "delete", name], check=True)


class Tunnel:
    def __init__(self, path, oncewire, work, files, inside):
        self.path, self.oncewire, self.socket, self.processes = path, oncewire, work / "status.sock", []
        public = [(work / f"{end}.pub").read_text().strip() for end in "ab"]
        common = ["--inside", inside, "--log", "error"]
        self.run(path.far, sys.executable, __file__, "--origin", *files)
        self.run(path.far, oncewire, "serve", "--key", work / "b.key", "--peer", public[0], "--listen", f"*:{TUNNEL}",
                 "--allow", f"{FAR}/32:{ORIGIN}", "--status", work / "server.sock", *common)
        self.run(path.near, oncewire, "connect", f"{FAR}:{TUNNEL}", "--key", work / "a.key", "--peer", public[1],
                 "--status", self.socket, "-L", f"{LOCAL}:{FAR}:{ORIGIN}", *common)
        self.ready(work)

    def run(self, name, *command):
        self.processes.append(self.path.start(name, *command))

    def ready(self, work):
        for _ in range(100):
            time.sleep(0.1)
            if self.socket.exists() and self.peers():
                return
        sys.exit("the tunnel does not come up")

    def peers(self):
        out = subprocess.run([self.oncewire, "status", "--json", "--socket", self.socket], capture_output=True).stdout
        try:
            return [one for one in json.loads(out)[0]["sessions"] if one["here"]["transports"]]
        except (ValueError, KeyError, IndexError):
            return []

    def received(self):
        return self.peers()[0]["here"]["wire_received_bytes"]

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


def main():
    oncewire, files = os.path.abspath(sys.argv[1]), [os.path.abspath(file) for file in sys.argv[2:]]
    if not files:
        sys.exit(__doc__)
    hashes = [hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest() for file in files]
    total = sum(os.path.getsize(file) for file in files)
    links = [link or None for link in os.environ["LINKS"].split(",")] if "LINKS" in os.environ else LINKS
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for end in "ab":
            key = subprocess.run([oncewire, "keygen", work / f"{end}.key"], check=True, capture_output=True, text=True)
            (work / f"{end}.pub").write_text(key.stdout)

        def measured(rate, inside, act):
            path = Path(rate)
            try:
                tunnel = Tunnel(path, oncewire, work, files, inside)
                try:
                    return act(path, tunnel)
                finally:
                    tunnel.close()
            finally:
                path.close()

        def bulk(path, tunnel):
            before = tunnel.received()
            result = path.client("bulk", len(files))
            assert result["bytes"] == total, result
            return result["seconds"], tunnel.received() - before

        def check(path, _):
            assert path.client("check", len(files)) == hashes, "what arrived is not what was sent"

        measured(None, "auto", check)
        print(f"{len(files)} files, {total / 1e6:.1f} MB: seconds, MB on the wire\n")
        print("| link | " + " | ".join(f"`--inside {inside}`" for inside in INSIDE) + " |")
        print("|---|" + "---|" * len(INSIDE))
        for link in links:
            cells = []
            for inside in INSIDE:
                rounds = sorted(measured(link, inside, bulk) for _ in range(3))
                cells.append(f"{rounds[1][0]:.2f} s, {rounds[1][1] / 1e6:.1f}")
            print(f"| {link or 'none'} | " + " | ".join(cells) + " |", flush=True)
        print(f"\n{SMALL} new bytes on a new connection, 100 a second: ms; MB/s of the transfer\n")
        print("| beside | median | 99th percentile | transfer |")
        print("|---|---:|---:|---:|")
        rows = [("nothing", "auto", "alone")] + [(f"a transfer, `--inside {how}`", how, "beside") for how in INSIDE]
        for name, inside, mode in rows:
            rounds = [measured(None, inside, lambda path, _: path.client(mode, len(files), 8)) for _ in range(3)]
            middle = lambda key: sorted(one.get(key, 0) for one in rounds)[1]
            rate = f"{middle('bytes') / middle('seconds') / 1e6:.0f}" if middle("seconds") else "-"
            print(f"| {name} | {middle('p50') * 1e3:.1f} | {middle('p99') * 1e3:.1f} | {rate} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--origin"]:
        serve_files(sys.argv[2:])
    elif sys.argv[1:2] == ["--client"]:
        client(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
