#!/usr/bin/env python3
"""What metrics, history and the page cost an end that carries 1 Gbit/s, in CPU time.

    scripts/admin-rate.py ONCEWIRE          ROUNDS=9 SECONDS=10 RATE=125000000

Two pairs of `serve` and `connect` on loopback carry the same random bytes in turns, as fast as RATE (bytes a second): one
pair has nothing of these, the other one has all at both ends, its pages asked every second and its metrics every 15.
Prints CPU milliseconds of each end for each second, medians of ROUNDS rounds, and by how much they differ within a
round: 10 are 1 % of a core. Needs curl. Nothing repeats: the content is longer than the caches.
"""

import http.server
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROUNDS, SECONDS, RATE = (int(os.environ.get(name, default)) for name, default in (("ROUNDS", 9), ("SECONDS", 10), ("RATE", 125_000_000)))
ENDS = ("serve", "connect")


class Origin(http.server.BaseHTTPRequestHandler):
    noise = os.urandom(256 << 20)

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(self.noise)
        except OSError:
            pass

    def log_message(self, *_):
        pass


def cpu(pid):
    """CPU time of all threads of a process so far, in milliseconds."""
    parts = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(part.read_text().split()[0]) for part in parts) / 1e6


class Pair:
    def __init__(self, program, dir, name, options, origin):
        self.children, self.admin, self.logs = {}, {}, {}
        keys = {end: dir / f"{name}-{end}.key" for end in ENDS}
        public = {end: subprocess.run([program, "keygen", keys[end]], check=True, capture_output=True, text=True).stdout.split()[0] for end in ENDS}
        special = {
            "serve": lambda: ["--peer", public["connect"], "--listen", "127.0.0.1:0", "--allow", f"127.0.0.1:{origin}"],
            "connect": lambda: [self.address, "--peer", public["serve"], "-L", f"0:127.0.0.1:{origin}"],
        }
        environment = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
        for end in ENDS:
            log = dir / f"{name}-{end}.log"
            own = [word.format(end=end) for word in options]
            command = [program, end, "--key", keys[end], "--status", dir / f"{name}-{end}.sock", "--memory", "64M", *own, *special[end]()]
            with log.open("w") as file:
                self.children[end] = subprocess.Popen(command, stderr=file, env=environment)
            pattern = r" listening .*address=(\S+)" if end == "serve" else r"session established"
            found = until(log, pattern)
            self.address = found.group(1) if end == "serve" else self.address
            text = log.read_text()
            admin = re.search(r"over HTTP address=(\S+)", text)
            self.admin[end] = admin and admin.group(1)
            self.local = re.search(r"(?:forwarding|listening).*?address=(127\.0\.0\.1:\d+)", text)

    def carry(self):
        """CPU milliseconds of each end for each second of one round."""
        before, begin = {end: cpu(child.pid) for end, child in self.children.items()}, time.monotonic()
        url = f"http://{self.local.group(1)}/"
        curl = subprocess.Popen(["curl", "-s", "--noproxy", "*", "-m", str(SECONDS), "--limit-rate", str(RATE), "-w", "%{size_download}", "-o", "/dev/null", url], stdout=subprocess.PIPE, text=True)
        second = 0
        while curl.poll() is None:
            for address in filter(None, self.admin.values()):
                urllib.request.urlopen(f"http://{address}/update?price=0.09%2FGB").read()
                if second % 15 == 0:
                    urllib.request.urlopen(f"http://{address}/metrics").read()
            second += 1
            time.sleep(max(0, begin + second - time.monotonic()))
        length = time.monotonic() - begin
        self.rate = int(curl.stdout.read()) / length
        return {end: (cpu(child.pid) - before[end]) / length for end, child in self.children.items()}


def until(log, pattern):
    for _ in range(600):
        if found := re.search(pattern, log.read_text()):
            return found
        time.sleep(0.05)
    sys.exit(f"{log.name} never says {pattern!r}:\n{log.read_text()}")


def main():
    program = os.path.abspath(sys.argv[1])
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as place:
        dir, pairs = pathlib.Path(place), {}
        try:
            for name, options in (("nothing", []), ("all", ["--admin", "0", "--history", f"{place}/history-{{end}}"])):
                pairs[name] = Pair(program, dir, name, options, origin.server_port)
            rounds = []
            for _ in range(1 + ROUNDS):
                rounds.append({name: pair.carry() for name, pair in pairs.items()})
                print({name: f"{pair.rate * 8 / 1e9:.2f} Gbit/s" for name, pair in pairs.items()}, rounds[-1], file=sys.stderr)
            # The first one touches memory for the first time.
            rounds = rounds[1:]
            for end in ENDS:
                nothing, all = ([one[name][end] for one in rounds] for name in ("nothing", "all"))
                differences = sorted(b - a for a, b in zip(nothing, all))
                print(
                    f"{end:8} {statistics.median(nothing):6.1f} ms a second without, {statistics.median(all):6.1f} with; difference"
                    f" {statistics.median(differences):+.1f} ({differences[0]:+.1f} to {differences[-1]:+.1f})"
                )
        finally:
            for pair in pairs.values():
                for child in pair.children.values():
                    child.terminate()
                    child.wait()


main()
