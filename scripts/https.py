#!/usr/bin/env python3
"""Bytes that real clients cost through a tunnel that opens HTTPS, the first and the second time.

Fetches packages with pip and npm, and a git repository, from an origin with TLS on this machine, through `oncewire serve`
and `oncewire connect`: once with the service not named, so that its bytes pass untouched, and twice with it named. Both
ends have `--inside always`, because a link to the same machine is too fast for `auto` to open compressed content. Prints
the CSV of a table in docs/PERFORMANCE.md: the client, bytes on the transport each time (TLS of the tunnel included, both
directions), and the second as a share of what passes untouched. Bytes only: times on one machine say nothing about a link.

Usage: scripts/https.py ONCEWIRE [DIR]

DIR keeps what the clients fetch (default: a temporary directory). Needs pip, npm, git, openssl, python3, and a package
registry for pip and npm, each in its ordinary configuration, when DIR is empty.
"""
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

PIP = ["django==5.0.6", "numpy==1.26.4", "pygments==2.18.0"]
PIP_NEXT = ["django==5.0.7"]
NPM = ["typescript@5.4.5", "react-dom@18.3.1", "lodash@4.17.21"]
NPM_NEXT = ["typescript@5.5.2"]


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr[-2000:]}{done.stdout[-500:]}")
    return done.stdout


class Origin(http.server.SimpleHTTPRequestHandler):
    """Files, and git repositories by git's own CGI program."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.do_GET()

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if ".git/" not in path:
            return super().do_GET()
        body = self.body()
        environment = {
            **os.environ, "GIT_PROJECT_ROOT": self.directory, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "CONTENT_LENGTH": str(len(body)),
        }
        answer = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=environment).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((int(value.split()[0]) for name, value in lines if name == "Status"), 200)
        self.send_response(status)
        for name, value in lines:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


def serve_origin(directory, certificate, key, address="127.0.0.1", port=0):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = lambda *args: Origin(*args, directory=str(directory))
    server = http.server.ThreadingHTTPServer((address, port), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def fetch_packages(directory):
    """What the clients are to fetch: wheels with an index, tarballs, and a repository."""
    if (directory / "done").exists():
        return
    wheels, tarballs = directory / "wheels", directory / "npm"
    for made in (wheels, tarballs):
        made.mkdir(parents=True, exist_ok=True)
    for package in PIP + PIP_NEXT:
        run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", wheels, package)
    for package in NPM + NPM_NEXT:
        run("npm", "pack", "--silent", package, cwd=tarballs)
    for wheel in wheels.glob("*.whl"):
        name = wheel.name.split("-")[0].lower().replace("_", "-")
        index = directory / "simple" / name
        index.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, index / wheel.name)
    for index in (directory / "simple").iterdir():
        links = "".join(f'<a href="{wheel.name}">{wheel.name}</a>\n' for wheel in sorted(index.glob("*.whl")))
        (index / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    checkout = pathlib.Path(__file__).resolve().parent.parent
    run("git", "clone", "-q", "--bare", "--depth", "200", f"file://{checkout}", directory / "repository.git")
    (directory / "done").touch()


@contextlib.contextmanager
def tunnel(oncewire, keys, allow, named):
    """Both ends; yields the proxy's address and a function that counts bytes of the transport."""
    processes, listening = [], {}

    def start(role, *arguments):
        status = keys / f"{role}.sock"
        status.unlink(missing_ok=True)
        common = [oncewire, role, *arguments, "--status", status, "--memory", "512M", "--inside", "always", "--log", "error"]
        processes.append(subprocess.Popen([str(word) for word in common]))
        for _ in range(600):
            shown = subprocess.run([oncewire, "status", "--json", "--socket", status], capture_output=True, text=True)
            if shown.returncode == 0:
                listening[role] = json.loads(shown.stdout)[0]["listening"]
                return lambda: json.loads(run(oncewire, "status", "--json", "--socket", status))[0]
            time.sleep(0.1)
        sys.exit(f"{role} does not start")

    public = {role: run(oncewire, "keygen", "--show", keys / f"{role}.key").strip() for role in ("serve", "connect")}
    try:
        start("serve", "--key", keys / "serve.key", "--peer", public["connect"], "--allow", allow,
              "--listen", "127.0.0.1:0", "--origin-ca", keys / "origins.crt")
        state = start("connect", listening["serve"][0], "--key", keys / "connect.key", "--peer", public["serve"],
                      "--proxy", "127.0.0.1:0", *named)
        while not any(session["phase"] == "established" for session in state()["sessions"]):
            time.sleep(0.1)

        def cost(act):
            count = lambda: sum(state()[f"transport_{way}_bytes"] for way in ("sent", "received"))
            before = count()
            act()
            time.sleep(1.5)
            return count() - before

        yield listening["connect"][0], cost, state
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def clients(port, proxy, trust):
    """Each client, and what it runs, in order."""
    url, environment = f"https://localhost:{port}", {**os.environ, "https_proxy": f"http://{proxy}", "no_proxy": ""}
    # Some come before what the command line says.
    for name in list(environment):
        if name.lower().endswith("_proxy") and name not in ("https_proxy", "no_proxy"):
            del environment[name]
        elif "CERT" in name or "CA_BUNDLE" in name or "CAINFO" in name or name.startswith(("PIP_", "npm_")):
            del environment[name]

    def fresh(act):
        def once():
            with tempfile.TemporaryDirectory() as place:
                act(place)
        return once

    def pip(packages):
        return fresh(lambda place: run(
            sys.executable, "-m", "pip", "download", "-q", "--isolated", "--no-cache-dir", "--no-deps", "--cert", trust,
            "--proxy", f"http://{proxy}", "--index-url", f"{url}/simple", "-d", place, *packages, env=environment))

    def npm(packages):
        tarballs = [f"{url}/npm/{package.replace('@', '-')}.tgz" for package in packages]
        return fresh(lambda place: run(
            "npm", "install", "--silent", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=peer",
            "--legacy-peer-deps", "--offline=false", "--cache", f"{place}/cache", "--prefix", place, "--cafile", trust,
            "--https-proxy", f"http://{proxy}", "--noproxy", "none.invalid", *tarballs, env=environment))

    def git():
        return fresh(lambda place: run(
            "git", "-c", f"http.sslCAInfo={trust}", "-c", f"http.proxy=http://{proxy}", "clone", "-q",
            f"{url}/repository.git", f"{place}/clone", env=environment))

    return [
        ("pip download, three packages", pip(PIP)), ("pip download, next version of one", pip(PIP_NEXT)),
        ("npm install, three packages", npm(NPM[:1] + NPM[2:])), ("npm install, next version of one", npm(NPM_NEXT)),
        ("git clone", git()),
    ]


def size(count):
    """Three digits and a decimal unit."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:.{max(0, 3 - len(str(int(count / one))))}f} {unit}"
    return f"{count} B"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    oncewire = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        keys = pathlib.Path(temporary)
        data = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) == 3 else keys / "data"
        fetch_packages(data)
        for role in ("serve", "connect"):
            run(oncewire, "keygen", keys / f"{role}.key")
        for name in ("site", "origins"):
            run(oncewire, "ca", keys / f"{name}.key", keys / f"{name}.crt", "--only", "localhost")
        (keys / "leaf.ext").write_text("subjectAltName=DNS:localhost\n")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
            "-keyout", keys / "leaf.key", "-out", keys / "leaf.csr")
        run("openssl", "x509", "-req", "-in", keys / "leaf.csr", "-days", "2", "-extfile", keys / "leaf.ext", "-CA",
            keys / "origins.crt", "-CAkey", keys / "origins.key", "-set_serial", "7", "-out", keys / "leaf.crt")
        port = serve_origin(data, keys / "leaf.crt", keys / "leaf.key")
        service, untouched, opened = f"localhost:{port}", {}, {}
        with tunnel(oncewire, keys, service, []) as (proxy, cost, _):
            for name, act in clients(port, proxy, keys / "origins.crt"):
                untouched[name] = cost(act)
        with tunnel(oncewire, keys, service, ["--terminate", service, "--ca", keys / "site.key"]) as (proxy, cost, state):
            for name, act in clients(port, proxy, keys / "site.crt"):
                opened[name] = [cost(act), cost(act)]
            shown = state()["https"][0]
            if shown["passed"] or not shown["opened"]:
                sys.exit(f"not everything was opened: {shown}")
        print("client,untouched,\"opened, first time\",second time,second time beside untouched")
        for name, whole in untouched.items():
            first, second = opened[name]
            print(f'"{name}",{size(whole)},{size(first)},{size(second)},{100 * second / whole:.2g} %')


if __name__ == "__main__":
    main()
