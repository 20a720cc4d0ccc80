#!/usr/bin/env python3
"""Measures what isolation domains cost: bytes of messages between the two ends of a tunnel on loopback, for each
--share and for some --pad, when clients in different domains fetch the same content.

    scripts/domains.py ONCEWIRE DIR [--csv FILE] [CASE...]

CASEs are numbers of the kinds of content, from 1 on; without any, all are measured. DIR has the corpora of
scripts/fetch-corpora.sh (django and typescript). FILE gets a row of each kind, with the MB that crossed for each option. Compares every byte of objects and releases that it receives.
"""

import base64
import csv
import hashlib
import http.server
import json
import pathlib
import random
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request

# The options, and what the columns of FILE call them.
OPTIONS = ["--share all", "--share chunks", "--share none", "--pad 1K", "--pad 4K", "--pad 64K"]
COLUMNS = ["`--share all`", "`chunks`, the default", "`none`", "`--pad 1K`", "`4K`", "`64K`"]
CLIENTS = 6


class Origin(http.server.BaseHTTPRequestHandler):
    """Serves what `objects` holds; a page gets the name and the token of the user who asks."""

    protocol_version = "HTTP/1.1"
    objects: dict = {}

    def do_GET(self):
        body = self.objects[self.path]
        self.send_response(200)
        user = self.headers.get("X-User")
        if user:
            token = hashlib.sha256(f"{user}{self.path}".encode()).hexdigest()
            self.send_header("Set-Cookie", f"session={token}; HttpOnly; Secure; SameSite=Lax")
            body = body.replace(b"USER", user.encode()).replace(b"TOKEN", token[:32].encode())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def free_ports(count):
    """Ports that nobody uses, all different."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Tunnel:
    """Both ends, with one forward for each of `domains` domains."""

    def __init__(self, oncewire, work, origin, options, domains, memory):
        self.oncewire, self.status, self.processes = oncewire, work / "status.sock", []
        port, self.proxy, *self.ports = free_ports(2 + domains)
        public = [(work / f"{end}.pub").read_text().strip() for end in "ab"]
        common = [*options.split(), "--memory", memory, "--log", "error"]
        self.run("serve", "--key", work / "b.key", "--peer", public[0], "--listen", f"127.0.0.1:{port}",
                 "--allow", f"127.0.0.1/32:{origin}", "--status", work / "server.sock", *common)
        self.run("connect", f"127.0.0.1:{port}", "--key", work / "a.key", "--peer", public[1], "--status", self.status,
                 "--proxy", f"127.0.0.1:{self.proxy}", *(part for at, listen in enumerate(self.ports)
                   for part in ("-L", f"{listen}:127.0.0.1:{origin},domain=user{at}")), *common)
        for listen in self.ports:
            for _ in range(100):
                try:
                    socket.create_connection(("127.0.0.1", listen)).close()
                    break
                except OSError:
                    time.sleep(0.05)
        time.sleep(0.5)

    def run(self, *args):
        self.processes.append(subprocess.Popen([self.oncewire, *map(str, args)]))

    def fetch(self, domain, path, **headers):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[domain]}{path}", headers=headers)
        with urllib.request.urlopen(request) as response:
            return response.read()

    def fetch_as(self, user, origin, path):
        """Through the proxy, as one of its users."""
        request = urllib.request.Request(f"http://127.0.0.1:{origin}{path}", headers={
            "Proxy-Authorization": "Basic " + base64.b64encode(f"{user}:x".encode()).decode(), "X-User": user})
        request.set_proxy(f"127.0.0.1:{self.proxy}", "http")
        with urllib.request.urlopen(request) as response:
            return response.read()

    def peak(self):
        """Most resident memory of either end, in bytes."""
        return max(int(line.split()[1]) * 1024 for process in self.processes
                   for line in open(f"/proc/{process.pid}/status") if line.startswith("VmHWM"))

    def sent(self):
        """Bytes of messages in both directions, once little more crosses than this question."""
        before = 0
        while True:
            time.sleep(0.5)
            out = subprocess.run([self.oncewire, "status", "--json", "--socket", self.status],
                                 check=True, capture_output=True).stdout
            here = json.loads(out)[0]["sessions"][0]["here"]
            total = here["wire_sent_bytes"] + here["wire_received_bytes"]
            if total - before < 5_000:
                return total
            before = total

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()


def at_once(tunnel, path, expected):
    """Every client fetches the same object at the same time."""
    def fetch(domain):
        assert tunnel.fetch(domain, path) == expected, "wrong bytes"

    threads = [threading.Thread(target=fetch, args=(at,)) for at in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    oncewire, corpora, chosen = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    file = None
    if chosen[:1] == ["--csv"]:
        file, chosen = chosen[1], chosen[2:]
    rows = []
    releases = {
        name: [pathlib.Path(line) for line in (corpora / f"{name}.list").read_text().split()]
        for name in ("typescript", "django")
    }
    for files in releases.values():
        Origin.objects.update({f"/{file.name}": file.read_bytes() for file in files})
    generator = random.Random(1)
    Origin.objects["/random"] = generator.randbytes(100_000_000)
    Origin.objects["/sources"] = b"".join(file.read_bytes() for file in releases["django"])[:100_000_000]
    # Pages: the documentation of Django, each in the same frame of menus.
    menu = "".join(f'<li class="item"><a href="/docs/{at:04}/index.html">Chapter {generator.getrandbits(40):x}</a></li>\n'
                   for at in range(40))
    with tarfile.open(releases["django"][5]) as tar:
        texts = [tar.extractfile(member).read() for member in tar
                 if "/docs/" in member.name and member.name.endswith(".txt") and 4_000 < member.size < 40_000]
    for at, text in enumerate(texts):
        Origin.objects[f"/page{at}"] = (
            f"<html><head><meta name=csrf content=TOKEN></head><body>Welcome, USER<ul>{menu}</ul>".encode() + text
            + b"</body></html>")

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = server.server_address[1]

    def object_at_once(tunnel, path):
        at_once(tunnel, path, Origin.objects[path])
        return len(Origin.objects[path]) * CLIENTS, len(Origin.objects[path])

    def releases_by_turns(tunnel, name):
        total = 0
        for at, file in enumerate(releases[name]):
            expected = Origin.objects[f"/{file.name}"]
            assert tunnel.fetch(at % CLIENTS, f"/{file.name}") == expected, "wrong bytes"
            total += len(expected)
        return total, None

    def pages_of_users(tunnel, _):
        total, order = 0, random.Random(2)
        for _ in range(3_000):
            user = order.randrange(50)
            total += len(tunnel.fetch(user, f"/page{int(order.paretovariate(0.6)) % len(texts)}",
                                      **{"X-User": f"user number {user}"}))
        return total, None

    def users_of_the_proxy(tunnel, _):
        total = 0
        for turn in range(2):
            for user in range(1_000):
                total += len(tunnel.fetch_as(f"user{user}", origin, f"/page{user % len(texts)}"))
        return total, None

    cases = [
        (f"{CLIENTS} clients, 100 MB of random bytes at once", object_at_once, "/random", CLIENTS, "1GiB"),
        (f"{CLIENTS} clients, 100 MB of Django's sources at once", object_at_once, "/sources", CLIENTS, "1GiB"),
        (f"9 TypeScript releases, each by the next of {CLIENTS} clients", releases_by_turns, "typescript", CLIENTS, "1GiB"),
        (f"8 Django releases, each by the next of {CLIENTS} clients", releases_by_turns, "django", CLIENTS, "2GiB"),
        ("3,000 pages of 50 users, tokens in head and body", pages_of_users, None, 50, "1GiB"),
        ("a page for each of 1,000 users of the proxy, twice", users_of_the_proxy, None, 0, "512MiB"),
    ]
    print("content                                               options          content MB    crossed MB     saved    of all   peak MB")
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        for end in "ab":
            key = subprocess.run([oncewire, "keygen", work / f"{end}.key"], check=True, capture_output=True).stdout
            (work / f"{end}.pub").write_bytes(key)
        for at, (title, run, argument, domains, memory) in enumerate(cases, 1):
            if chosen and str(at) not in chosen:
                continue
            most, row = None, [title]
            for options in OPTIONS:
                tunnel = Tunnel(oncewire, work, origin, options, domains, memory)
                try:
                    before = tunnel.sent()
                    total, once = run(tunnel, argument)
                    crossed, peak = tunnel.sent() - before, tunnel.peak()
                finally:
                    tunnel.close()
                saved = 1 - crossed / total
                row += [f"{total / 1e6:.1f}"] * (len(row) == 1) + [f"{crossed / 1e6:.1f}"]
                # The first is --share all.
                most = most or saved
                copies = f"  {crossed / once:.3f} copies" if once else ""
                print(f"{title:<53} {options:<14} {total / 1e6:>11.1f} {crossed / 1e6:>13.2f} {saved:>9.2%} "
                      f"{saved / most:>9.2%} {peak / 1e6:>9.0f}{copies}", flush=True)
            rows.append(row)
    if file:
        with open(file, "w", newline="") as target:
            csv.writer(target, lineterminator="\n").writerows([["content", "MB", *COLUMNS], *rows])


if __name__ == "__main__":
    main()
