#!/usr/bin/env python3
"""Seconds and bytes of real clients over a path, direct and through a tunnel that opens HTTPS, and what opening costs beside
HAProxy. Prints Markdown tables of docs/BENEFITS.md; the first form writes its cells into FIGURES/benefits-clients.csv, the last
into FIGURES/benefits-haproxy.csv, too, if FIGURES is set. CLIENTS limits the first form to clients that begin with a word. With
FIRST=1, the far end of the tunnel runs before all that shares its processors, as on a machine of its own: --inside auto opens
what it opens there. Only bytes mean something then.

    oncewire-path-emulator --delay-ms 10 --rate-mbit 100 -- scripts/https-times.py ONCEWIRE DIR     ROUNDS=3
    FIRST=1 CLIENTS=npm chrt -R -f 20 oncewire-path-emulator --delay-ms 10 --rate-mbit 100 -- scripts/https-times.py ONCEWIRE DIR
    scripts/https-times.py ONCEWIRE --haproxy                                                  ROUNDS=5 COUNT=400 MB=100

The first form needs what scripts/https.py fetched into DIR (run that first), pip, npm and git. In each round a new tunnel with
default options carries each client twice, after the client went to the origin directly; medians. Bytes are those that the near
end of the path sent and received, TLS and headers included. The second form needs haproxy and nginx: COUNT full handshakes of
TLS 1.3, one response each, and MB megabytes that nothing has seen. HAProxy terminates TLS and originates it again, with one
thread; ours does so in two processes with a tunnel between them. Their CPU time is counted, because the machine may be shared.
"""
import csv
import importlib.util
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import time

spec = importlib.util.spec_from_file_location("https", pathlib.Path(__file__).resolve().parent / "https.py")
https = importlib.util.module_from_spec(spec)
spec.loader.exec_module(https)
run, PORT, TUNNEL = https.run, 8443, 7077
NEAR, FAR = ([["ip", "netns", "exec", os.environ[name]] if name in os.environ else [] for name in ("NS_A", "NS_B")])
ADDRESS = os.environ.get("ADDR_B", "127.0.0.1")
ROUNDS = int(os.environ.get("ROUNDS", 3))


def median(values):
    return sorted(values)[len(values) // 2]


def certificates(keys, oncewire):
    for role in ("serve", "connect"):
        run(oncewire, "keygen", keys / f"{role}.key")
    run(oncewire, "ca", keys / "site.key", keys / "site.crt", "--only", "localhost")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    run("openssl", "req", "-x509", *curve, "-subj", "/CN=origins", "-keyout", keys / "origins.key", "-out", keys / "origins.crt")
    (keys / "leaf.ext").write_text(f"subjectAltName=DNS:localhost,IP:{ADDRESS}\n")
    run("openssl", "req", *curve, "-subj", "/CN=leaf", "-keyout", keys / "leaf.key", "-out", keys / "leaf.csr")
    run("openssl", "x509", "-req", "-in", keys / "leaf.csr", "-days", "2", "-extfile", keys / "leaf.ext", "-CA",
        keys / "origins.crt", "-CAkey", keys / "origins.key", "-set_serial", "7", "-out", keys / "leaf.crt")
    (keys / "leaf.pem").write_text((keys / "leaf.crt").read_text() + (keys / "leaf.key").read_text())


class Tunnel:
    """Both ends, which open the origin's port of localhost."""

    def __init__(self, oncewire, keys, *more, allow=None):
        public = {role: run(oncewire, "keygen", "--show", keys / f"{role}.key").strip() for role in ("serve", "connect")}
        service, self.processes = f"localhost:{PORT}", []
        first = ["chrt", "-f", "10"] if "FIRST" in os.environ else []
        self.show = [oncewire, "status", "--json", "--socket", keys / "connect.sock"]
        common = ["--log", "error"]
        for place, command in (
            ([*FAR, *first], ["serve", "--key", keys / "serve.key", "--peer", public["connect"], "--listen", f"{ADDRESS}:{TUNNEL}",
                   "--allow", allow or service, "--origin-ca", keys / "origins.crt", "--status", keys / "serve.sock"]),
            (NEAR, ["connect", f"{ADDRESS}:{TUNNEL}", "--key", keys / "connect.key", "--peer", public["serve"], "--terminate",
                    service, "--ca", keys / "site.key", "--status", keys / "connect.sock", *more]),
        ):
            self.processes.append(subprocess.Popen([*map(str, [*place, oncewire, *command, *common])]))
        for _ in range(300):
            shown = subprocess.run([str(word) for word in self.show], capture_output=True, text=True)
            if '"established"' in shown.stdout:
                break
            time.sleep(0.1)
        else:
            sys.exit("the tunnel does not come up")

    def shown(self):
        return json.loads(run(*self.show))[0]["https"][0]

    def check(self):
        shown = self.shown()
        if shown["passed"] or shown["ended"] or not shown["opened"]:
            sys.exit(f"not everything was opened: {shown}")

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()


def fetch(client, host, trust, proxy):
    """The command of a client, in a directory of its own."""
    url = f"https://{host}:{PORT}"
    kind, packages = client
    with tempfile.TemporaryDirectory() as place:
        if kind == "pip":
            command = [sys.executable, "-m", "pip", "download", "-q", "--isolated", "--no-cache-dir", "--no-deps",
                       "--disable-pip-version-check", "--cert", trust, "--index-url", f"{url}/simple", "-d", place, *packages]
            command += ["--proxy", proxy] if proxy else []
        elif kind == "npm":
            command = ["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=peer",
                       "--legacy-peer-deps", "--offline=false", "--cache", f"{place}/cache", "--prefix", place, "--cafile", trust]
            command += ["--https-proxy", proxy, "--noproxy", "none.invalid"] if proxy else ["--noproxy", host]
            command += [f"{url}/npm/{package.replace('@', '-')}.tgz" for package in packages]
        else:
            command = ["git", "-c", f"http.sslCAInfo={trust}", "-c", f"http.proxy={proxy}", "clone", "-q",
                       f"{url}/repository.git", f"{place}/clone"]
        keep = {name: value for name, value in os.environ.items() if "proxy" not in name.lower() and "CERT" not in name
                and "CA_BUNDLE" not in name and "CAINFO" not in name and not name.startswith(("PIP_", "npm_"))}
        begun = time.perf_counter()
        run(*NEAR, *command, env=keep)
        return time.perf_counter() - begun


def interface():
    links = json.loads(run("ip", "-j", "-s", "-n", os.environ["NS_A"], "link"))
    return sum(link["stats64"][way]["bytes"] for link in links if link["ifname"] != "lo" for way in ("rx", "tx"))


def over_path(oncewire, data, keys):
    code = ("import importlib.util, sys, threading; spec = importlib.util.spec_from_file_location('https', sys.argv[1]);"
            "https = importlib.util.module_from_spec(spec); spec.loader.exec_module(https);"
            f"https.serve_origin(*sys.argv[2:5], '0.0.0.0', {PORT}); threading.Event().wait()")
    origin = subprocess.Popen([*map(str, [*FAR, sys.executable, "-c", code, https.__file__, data, keys / "leaf.crt",
                                          keys / "leaf.key"])])
    clients = [
        ("pip download, three packages", ("pip", https.PIP)), ("pip download, next version of one", ("pip", https.PIP_NEXT)),
        ("npm install, two packages", ("npm", https.NPM[:1] + https.NPM[2:])),
        ("npm install, next version of one", ("npm", https.NPM_NEXT)), ("git clone", ("git", [])),
    ]
    clients = [client for client in clients if client[0].startswith(os.environ.get("CLIENTS", ""))]
    rows = {name: [[], [], []] for name, _ in clients}
    time.sleep(1)
    try:
        for _ in range(ROUNDS):
            tunnel = Tunnel(oncewire, keys, "--proxy", "127.0.0.1:1080")
            for name, client in clients:
                for at, (host, trust, proxy) in enumerate((
                    (ADDRESS, keys / "origins.crt", ""), *[("localhost", keys / "site.crt", "http://127.0.0.1:1080")] * 2)):
                    before = interface()
                    seconds = fetch(client, host, trust, proxy)
                    time.sleep(0.3)
                    rows[name][at].append((seconds, interface() - before))
            tunnel.check()
            tunnel.close()
    finally:
        origin.kill()
        origin.wait()
    cells = [["client", "direct", "first time", "second time", "bytes, second beside direct"]]
    for name, of in rows.items():
        seconds, bytes_ = ([median([pair[at] for pair in one]) for one in of] for at in (0, 1))
        cells.append([name, *[f"{https.size(count)}, {taken:.2f} s" for taken, count in zip(seconds, bytes_)],
                      f"{100 * bytes_[2] / bytes_[0]:.2g} %"])
    show("clients", cells)


def show(name, rows):
    """Prints a table, and writes its cells into FIGURES."""
    if "FIGURES" in os.environ:
        with open(pathlib.Path(os.environ["FIGURES"]) / f"benefits-{name}.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    for row in [rows[0], ["---", *["---:"] * (len(rows[0]) - 1)], *rows[1:]]:
        print(f"| {' | '.join(row)} |", flush=True)


def cpu(processes):
    total = 0
    for process in processes:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def ask(port, trust, path):
    """A request on a new connection, with a full handshake. Returns the length of the response."""
    context = ssl.create_default_context(cafile=trust)
    with socket.create_connection(("127.0.0.1", port)) as raw, context.wrap_socket(raw, server_hostname="localhost") as tls:
        tls.sendall(f"GET /{path} HTTP/1.0\r\n\r\n".encode())
        length = 0
        while part := tls.recv(1 << 18):
            length += len(part)
        return length


def beside_haproxy(oncewire, keys):
    count, megabytes = int(os.environ.get("COUNT", 400)), int(os.environ.get("MB", 100))
    (root := keys / "root").mkdir()
    (root / "small").write_bytes(b"content")
    os.chmod(keys, 0o755)
    (keys / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {keys}/nginx.pid; error_log stderr crit; events {{ }}\nhttp {{ access_log off; "
        f"server {{ listen 127.0.0.1:{PORT} ssl; ssl_certificate {keys}/leaf.crt; ssl_certificate_key {keys}/leaf.key; "
        f"root {root}; }} }}\n")
    run(oncewire, "ca", keys / "other.key", keys / "other.crt", "--only", "localhost")
    (keys / "haproxy.cfg").write_text(
        "global\n  nbthread 1\ndefaults\n  mode tcp\n  timeout client 60s\n  timeout server 60s\n  timeout connect 5s\n"
        f"listen all\n  bind 127.0.0.1:8444 ssl crt {keys}/leaf.pem\n"
        f"  server origin 127.0.0.1:{PORT} ssl ca-file {keys}/origins.crt verify required sni str(localhost) no-ssl-reuse\n")
    nginx = subprocess.Popen(["nginx", "-c", keys / "nginx.conf", "-p", keys, "-e", "stderr"], stderr=subprocess.DEVNULL)
    haproxy = subprocess.Popen(["haproxy", "-db", "-f", keys / "haproxy.cfg"], stderr=subprocess.DEVNULL)
    tunnel = Tunnel(oncewire, keys, "-L", f"8445:localhost:{PORT}")
    ways = {"HAProxy": (8444, keys / "origins.crt", [haproxy]), "connect and serve": (8445, keys / "site.crt", tunnel.processes)}
    figures = {name: {"handshakes": [], "content": []} for name in ways}
    try:
        for port, trust, _ in ways.values():
            ask(port, trust, "small")
        for _ in range(ROUNDS):
            for name, (port, trust, processes) in ways.items():
                begun, before = time.perf_counter(), [cpu([one]) for one in processes]
                for _ in range(count):
                    assert ask(port, trust, "small") > 7
                used = [cpu([one]) - was for one, was in zip(processes, before)]
                figures[name]["handshakes"].append((time.perf_counter() - begun, used))
                with open(root / "random", "wb") as random:
                    for _ in range(megabytes):
                        random.write(os.urandom(1_000_000))
                begun, before = time.perf_counter(), [cpu([one]) for one in processes]
                assert ask(port, trust, "random") > megabytes * 1_000_000
                used = [cpu([one]) - was for one, was in zip(processes, before)]
                figures[name]["content"].append((time.perf_counter() - begun, used))
        tunnel.check()
    finally:
        tunnel.close()
        for process in (nginx, haproxy):
            process.terminate()
            process.wait()
    rows = [["", "handshakes a second of CPU", "of wall time", "new content: MB a second of CPU", "of wall time"]]
    for name, of in figures.items():
        cells = []
        for what, amount in (("handshakes", count), ("content", megabytes)):
            each = [median([used[at] for _, used in of[what]]) for at in range(len(of[what][0][1]))]
            cells.append(" and ".join(f"{amount / max(one, 0.01):.0f}" for one in each))
            cells.append(f"{amount / median([seconds for seconds, _ in of[what]]):.0f}")
        rows.append([name, *cells])
    show("haproxy", rows)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    oncewire = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        keys = pathlib.Path(temporary)
        certificates(keys, oncewire)
        if sys.argv[2] == "--haproxy":
            return beside_haproxy(oncewire, keys)
        if "NS_A" not in os.environ:
            sys.exit("run it by oncewire-path-emulator, as below\n" + __doc__)
        over_path(oncewire, pathlib.Path(sys.argv[2]).resolve(), keys)


if __name__ == "__main__":
    main()
