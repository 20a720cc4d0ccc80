#!/usr/bin/env python3
"""Measures a hub whose one processor several peers share: all of them download content that is new to them, at once.

    scripts/hub.py ONCEWIRE FILE...            ROUNDS=3 OPTIONS=

Each FILE is what one peer downloads. `serve` has processor 0, and everything else the others. Prints Markdown:
seconds until all have it, the CPU time of `serve` for each byte of content, megabytes on the wire, and how much of the
content was coded at level 1; medians. OPTIONS are more options of `serve`, such as `--level 3`. On loopback, without
root; compares every byte.
"""

import hashlib
import json
import os
import pathlib
import socket
import socketserver
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")


class Origin(socketserver.ThreadingTCPServer):
    """Sends file N to whoever writes N and a line feed."""

    allow_reuse_address = True
    daemon_threads = True


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        # Whoever only looks whether it is up asks for nothing.
        if line := self.rfile.readline():
            with open(self.server.files[int(line)], "rb") as file:
                self.request.sendfile(file)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def download(port, number, digests):
    digest = hashlib.blake2b()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{number}\n".encode())
        buffer = bytearray(1 << 20)
        while got := connection.recv_into(buffer):
            digest.update(memoryview(buffer)[:got])
    digests[number] = digest.digest()


def until(what, ready, limit=60):
    begin = time.monotonic()
    while not ready():
        if time.monotonic() - begin > limit:
            raise SystemExit(f"waited {limit} s in vain: {what}")
        time.sleep(0.01)


def is_up(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


def once(program, files, digests, options):
    """Returns seconds, CPU time in ns a byte, bytes on the wire, and the share of the content at level 1."""
    origin = Origin(("127.0.0.1", 0), Handler)
    origin.files = files
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    target = f"127.0.0.1:{origin.server_address[1]}"
    hub, ports, processes = free_port(), [free_port() for _ in files], []
    others = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)) if cpu) or "0"
    with tempfile.TemporaryDirectory() as dir:
        dir = pathlib.Path(dir)

        def key(name):
            made = subprocess.run([program, "keygen", dir / name], check=True, capture_output=True, text=True)
            return made.stdout.strip()

        def start(name, cpus, *words):
            own = ["--status", dir / f"{name}.sock", "--key", dir / name]
            command = ["taskset", "-c", cpus, program, *words, *own]
            log = open(dir / f"{name}.log", "wb")
            processes.append(subprocess.Popen([str(word) for word in command], stdout=log, stderr=log))

        try:
            server, peers = key("serve"), [key(f"peer-{nth}") for nth in range(len(files))]
            allow = [word for peer in peers for word in ("--peer", peer)]
            start("serve", "0", "serve", "--listen", f"127.0.0.1:{hub}", "--allow", target, *allow, *options)
            until("the hub listens", lambda: is_up(hub))
            for nth, port in enumerate(ports):
                forward = ["-L", f"127.0.0.1:{port}:{target}", "--peer", server]
                start(f"peer-{nth}", others, "connect", f"127.0.0.1:{hub}", *forward)

            def status():
                command = [program, "status", "--json", "--socket", dir / "serve.sock"]
                return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[0]

            until("all peers are there", lambda: len(status()["sessions"]) == len(files) and all(map(is_up, ports)))
            got, before, begin = {}, ticks(processes[0].pid), time.monotonic()
            threads = [threading.Thread(target=download, args=(port, nth, got)) for nth, port in enumerate(ports)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            seconds, cpu = time.monotonic() - begin, (ticks(processes[0].pid) - before) / TICK
            if [got.get(nth) for nth in range(len(files))] != digests:
                raise SystemExit("a wrong byte arrived")
            here = [session["here"] for session in status()["sessions"]]
        finally:
            for process in processes:
                process.terminate()
                process.wait()
            origin.shutdown()
            origin.server_close()
    content = sum(one["sent_bytes"] for one in here)
    wire = sum(one["wire_sent_bytes"] for one in here)
    return seconds, cpu * 1e9 / content, wire, sum(one["hurried_bytes"] for one in here) / content


def ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__.strip())
    program, files = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    digests = [hashlib.blake2b(pathlib.Path(file).read_bytes()).digest() for file in files]
    options = os.environ.get("OPTIONS", "").split()
    runs = [once(program, files, digests, options) for _ in range(int(os.environ.get("ROUNDS", "3")))]
    seconds, cpu, wire, hurried = (statistics.median(column) for column in zip(*runs))
    content = sum(pathlib.Path(file).stat().st_size for file in files)
    print(f"| peers | content | seconds | CPU time of `serve`, ns per byte | on the wire | at level 1 |\n|{'---|' * 6}")
    print(f"| {len(files)} | {content / 1e6:.0f} MB | {seconds:.2f} | {cpu:.1f} | {wire / 1e6:.1f} MB | {hurried:.0%} |")


if __name__ == "__main__":
    main()
