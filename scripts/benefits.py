#!/usr/bin/env python3
"""EndRE's latency experiments with the real programs, in turns in one run: direct, through the tunnel, `ssh -C`, a proxy that
compresses with gzip, and a relay that compresses with zstd.

    scripts/benefits.py ONCEWIRE EMULATOR DIR [EXPERIMENT...]        ROUNDS=3 FIGURES=docs/figures

EMULATOR is oncewire-path-emulator, which needs root; DIR is what scripts/https.py fetched. Experiments (default: all):

  transactions  seconds of HTTP transactions by their number of round trips (EndRE, Table 5), 100 Mbit/s and 200 ms
  transfers     seconds of long transfers at T1, 3, 10 and 100 Mbit/s, with 20 and 200 ms; Martynov's benefit function of
                these; CPU seconds for a delivered megabyte, of both ends
  pages         load times of a page with 30 parts in Chromium, over HTTP/2
  packages      an image by skopeo, an upgrade by apt: seconds and bytes

Needs nginx, curl, sshd, zstd, openssl; chromium; docker-registry, skopeo, dpkg-deb, apt-get. Writes the cells of the tables of
docs/BENEFITS.md into FIGURES/benefits-*.csv, and prints them as Markdown. Medians of ROUNDS; in each round, new tunnels and
relays carry everything, in turns. What arrives is compared with what was sent.
"""
import csv
import gzip
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
import zlib

spec = importlib.util.spec_from_file_location("times", pathlib.Path(__file__).resolve().parent / "https-times.py")
times = importlib.util.module_from_spec(spec)
spec.loader.exec_module(times)
run, median, Tunnel, NEAR, FAR, ADDRESS = times.run, times.median, times.Tunnel, times.NEAR, times.FAR, times.ADDRESS
ROUNDS = int(os.environ.get("ROUNDS", 3))
ORIGIN, GZIP, ZSTD, SSHD, LOCAL = 8080, 8081, 8082, 2222, 9090
WAYS = ["direct", "Oncewire", "ssh -C", "gzip proxy", "zstd relay"]
RATES = {"T1": 1.544, "3": 3, "10": 10, "100": 100}
DELAYS = (20, 200)
# Bytes of a response that take this many round trips, with an initial window of ten segments that doubles.
TRIPS = {"1": 12_000, "2": 38_000, "3": 90_000, "4": 190_000, "5": 400_000, "> 5": 1_200_000}


def wait_for(port, place):
    """Until something listens."""
    for _ in range(200):
        if subprocess.run([*place, "ss", "-Hltn", f"sport = :{port}"], capture_output=True).stdout:
            return
        time.sleep(0.05)
    sys.exit(f"nothing listens at port {port}")


def sources(data, version):
    """The Python files of a release of Django, as a tar."""
    made = io.BytesIO()
    with zipfile.ZipFile(next((data / "wheels").glob(f"[Dd]jango-{version}*.whl"))) as wheel, \
            tarfile.open(fileobj=made, mode="w") as tar:
        for name in sorted(wheel.namelist()):
            if name.endswith((".py", ".js", ".html", ".css", ".po")):
                entry = tarfile.TarInfo(name)
                entry.size = len(content := wheel.read(name))
                tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def nginx(directory, name, text):
    (directory / name).write_text(
        f"daemon off; master_process off; pid {directory}/{name}.pid; error_log stderr crit; events {{ }}\n"
        f"http {{ keepalive_requests 10000; {text} }}\n")
    os.chmod(directory, 0o755)
    command = [*FAR, "nginx", "-c", directory / name, "-p", directory, "-e", "stderr"]
    return subprocess.Popen([str(word) for word in command], stderr=subprocess.DEVNULL)


def descendants(pid):
    found = [pid]
    for at in found:
        try:
            children = pathlib.Path(f"/proc/{at}/task/{at}/children").read_text().split()
        except OSError:
            continue
        found += map(int, children)
    return found


def cpu(processes):
    """CPU seconds of processes and their children, also of those that ended."""
    total = 0
    for pid in (pid for process in processes for pid in descendants(process.pid)):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def relay(port, host, target, command, place):
    """Listens at `port`; what comes back from the target passes through a command."""
    code = """
import os, socket, subprocess, sys, threading
port, host, target, *command = sys.argv[1:]
def pump(one, other):
    while part := one.recv(1 << 16):
        other.sendall(part)
    other.shutdown(socket.SHUT_WR)
def serve(client):
    origin = socket.create_connection((host, int(target)))
    threading.Thread(target=pump, args=(client, origin), daemon=True).start()
    subprocess.run(command, stdin=origin, stdout=client)
    client.shutdown(socket.SHUT_RDWR)
listener = socket.create_server(("0.0.0.0", int(port)))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
    words = [*place, sys.executable, "-c", code, port, host, target, *command]
    process = subprocess.Popen([str(word) for word in words])
    wait_for(port, place)
    return process


class Ways:
    """All ways to the origin at ADDRESS:ORIGIN, new ones for each round: ports, and the processes of both ends."""

    def __init__(self, oncewire, keys):
        self.tunnel = Tunnel(oncewire, keys, "-L", f"{LOCAL}:{ADDRESS}:{ORIGIN}", allow=f"{ADDRESS}:{ORIGIN}")
        (keys / "sshd").write_text(
            f"Port {SSHD}\nListenAddress {ADDRESS}\nHostKey {keys}/ssh\nAuthorizedKeysFile {keys}/ssh.pub\nStrictModes no\n"
            f"PasswordAuthentication no\nUsePAM no\nPermitRootLogin yes\nPidFile {keys}/sshd.pid\nCompression yes\n")
        if not (keys / "ssh").exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / "ssh")
        os.makedirs("/run/sshd", exist_ok=True)
        start = lambda *words: subprocess.Popen([str(word) for word in words], stderr=subprocess.DEVNULL)
        sshd = start(*FAR, "/usr/sbin/sshd", "-D", "-e", "-f", keys / "sshd")
        wait_for(SSHD, FAR)
        ssh = start(*NEAR, "ssh", "-F", "none", "-C", "-N", "-p", SSHD, "-i", keys / "ssh", "-o", "StrictHostKeyChecking=no", "-o",
                    "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", "-o", "ExitOnForwardFailure=yes", "-L",
                    f"127.0.0.1:{LOCAL + 1}:{ADDRESS}:{ORIGIN}", f"root@{ADDRESS}")
        wait_for(LOCAL + 1, NEAR)
        (keys / "gzip").mkdir(exist_ok=True)
        proxy = nginx(keys / "gzip", "conf", f"access_log off; gzip on; gzip_types *; gzip_proxied any; gzip_http_version 1.0; server {{ listen "
                      f"{ADDRESS}:{GZIP}; location / {{ proxy_pass http://{ADDRESS}:{ORIGIN}; proxy_buffering on; }} }}")
        wait_for(GZIP, FAR)
        far = relay(ZSTD, ADDRESS, ORIGIN, ["zstd", "-q", "-3", "-c"], FAR)
        near = relay(LOCAL + 3, ADDRESS, ZSTD, ["zstd", "-q", "-d", "-c"], NEAR)
        self.ways = {
            "direct": (ADDRESS, ORIGIN, []), "Oncewire": ("127.0.0.1", LOCAL, self.tunnel.processes),
            "ssh -C": ("127.0.0.1", LOCAL + 1, [sshd, ssh]), "gzip proxy": (ADDRESS, GZIP, [proxy]),
            "zstd relay": ("127.0.0.1", LOCAL + 3, [far, near]),
        }
        self.processes = [ssh, sshd, proxy, near, far]

    def close(self):
        self.tunnel.close()
        for process in self.processes:
            process.terminate()
            process.wait()


def report(**values):
    print(json.dumps(values), flush=True)


def origin(root):
    process = nginx(root, "conf", f"access_log off; server {{ listen {ADDRESS}:{ORIGIN}; root {root}; }}")
    wait_for(ORIGIN, FAR)
    return process


def transfers(oncewire, data, keys):
    """Within a path: seconds of a transfer of new content, then of its next version."""
    most = int(os.environ["CONTENT"])
    (root := keys / "root").mkdir()
    for name, version in (("first", "5.0.6"), ("next", "5.0.7")):
        (root / name).write_bytes(sources(data, version)[:most])
    server = origin(root)
    for _ in range(ROUNDS):
        ways = Ways(oncewire, keys)
        for what in ("first", "next"):
            for way, (host, port, processes) in ways.ways.items():
                before, got = cpu(processes), keys / "got"
                command = [*NEAR, "curl", "-sS", "-0", "--noproxy", "*", *(["--compressed"] if way == "gzip proxy" else []), "-o", got,
                           f"http://{host}:{port}/{what}"]
                begun = time.perf_counter()
                client = subprocess.Popen([str(word) for word in command])
                _, status, usage = os.wait4(client.pid, 0)
                seconds = time.perf_counter() - begun
                if status != 0 or got.read_bytes() != (root / what).read_bytes():
                    sys.exit(f"{way}: other content")
                report(way=way, what=what, seconds=seconds, cpu=cpu(processes) - before, client=usage.ru_utime + usage.ru_stime,
                       bytes=got.stat().st_size)
        ways.close()
    server.terminate()
    server.wait()


FETCH = """
import json, socket, sys, time, zlib
host, port, *names = sys.argv[1:]
for name in names:
    begun = time.perf_counter()
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(f"GET /{name} HTTP/1.1\\r\\nHost: x\\r\\nAccept-Encoding: gzip\\r\\nConnection: close\\r\\n\\r\\n".encode())
        response = b""
        while part := connection.recv(1 << 18):
            response += part
    seconds = time.perf_counter() - begun
    print(json.dumps([name, seconds, len(response)]))
"""


def transactions(oncewire, data, keys):
    """Within a path: seconds of transactions, each on a new connection, 30 % of which an earlier one carried; then all again."""
    each = int(os.environ.get("TRANSACTIONS", 5))
    (root := keys / "root").mkdir()
    content = sources(data, "5.0.6")
    seen, new = content[: len(content) // 3], content[len(content) // 3:]
    (root / "seen").write_bytes(seen)
    rng, at, names = random.Random(1), 0, []
    for trips, size in TRIPS.items():
        for nth in range(each):
            made = bytearray()
            while len(made) < size:
                # Pieces of some packets, as in EndRE's traces.
                old = rng.randrange(len(seen) - 3000)
                made += seen[old:old + 3000] + new[at:at + 7000]
                at += 7000
            names.append((trips, f"{list(TRIPS).index(trips)}-{nth}"))
            (root / names[-1][1]).write_bytes(made[:size])
    assert at < len(new), "the content is too short"
    rng.shuffle(names)
    server, kinds = origin(root), {name: trips for trips, name in names}
    for _ in range(ROUNDS):
        ways = Ways(oncewire, keys)
        for way, (host, port, _) in ways.ways.items():
            fetch = lambda *names: run(*NEAR, sys.executable, "-c", FETCH, host, port, *names).splitlines()
            fetch("seen")
            for what in ("first", "again"):
                for name, seconds, length in map(json.loads, fetch(*kinds)):
                    assert way == "gzip proxy" or length > (root / name).stat().st_size, (way, name, length)
                    report(way=way, what=what, trips=kinds[name], seconds=seconds)
        ways.close()
    server.terminate()
    server.wait()


def web_page(root, content, version):
    """A page with 30 parts: scripts of 5 to 60 kB from what a release has, which nginx compresses."""
    (root / version).mkdir()
    at, tags = 0, []
    for nth in range(30):
        size = 5000 + nth * 1900
        part = content[at:at + size].replace(b"*/", b"* ").replace(b"\0", b" ")
        (root / version / f"{nth}.js").write_bytes(b"/*" + part + b"*/\n")
        tags.append(f'<script src="{nth}.js"></script>')
        at += size
    done = "addEventListener('load', () => setTimeout(() => fetch('/done?' + performance.timing.loadEventStart + '-' + " \
           "performance.timing.navigationStart), 0))"
    (root / version / "index.html").write_text(f"<!DOCTYPE html><title>page</title><script>{done}</script>{''.join(tags)}")


def pages(oncewire, data, keys):
    """Within a path: load times of Chromium, each with a new profile."""
    (root := keys / "root").mkdir()
    (root / "done").write_text("done")
    for version in ("5.0.6", "5.0.7"):
        web_page(root, sources(data, version)[2_000_000:], version)
    log = keys / "access"
    server = nginx(root, "conf", f"types {{ text/html html; text/javascript js; }} gzip on; gzip_types *; log_format args '$args'; "
                   f"server {{ listen {times.PORT} ssl http2; ssl_certificate {keys}/leaf.crt; ssl_certificate_key {keys}/leaf.key; root "
                   f"{root}; access_log off; location = /done {{ access_log {log} args; }} }}")
    wait_for(times.PORT, FAR)

    def load(url, proxy):
        before = len(log.read_text().splitlines()) if log.exists() else 0
        with tempfile.TemporaryDirectory() as profile:
            command = [*NEAR, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", "--no-first-run",
                       "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}",
                       *([f"--proxy-server={proxy}", "--proxy-bypass-list=<-loopback>"] if proxy else ["--no-proxy-server"]), url]
            moved = times.interface()
            browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                for _ in range(1200):
                    lines = log.read_text().splitlines() if log.exists() else []
                    if len(lines) > before:
                        loaded, begun = map(int, lines[-1].split("-"))
                        return (loaded - begun) / 1000, times.interface() - moved
                    time.sleep(0.05)
                sys.exit(f"{url} does not load")
            finally:
                os.killpg(browser.pid, 9)
                browser.wait()
                time.sleep(0.2)

    proxy, local = "http://127.0.0.1:1080", f"https://localhost:{times.PORT}"
    load(f"https://{ADDRESS}:{times.PORT}/5.0.6/", None)
    for _ in range(ROUNDS):
        tunnel = Tunnel(oncewire, keys, "--proxy", "127.0.0.1:1080")
        for what, version in (("first time", "5.0.6"), ("again", "5.0.6"), ("next version", "5.0.7")):
            for way, (base, by) in {"direct": (f"https://{ADDRESS}:{times.PORT}", None), "Oncewire": (local, proxy)}.items():
                seconds, moved = load(f"{base}/{version}/", by)
                report(way=way, what=what, seconds=seconds, bytes=moved)
        # A browser also opens connections that it does not use; these do not count as opened.
        if not tunnel.shown()["opened"]:
            sys.exit("nothing was opened")
        tunnel.close()
    server.terminate()
    server.wait()


def image(place, content, tag, base):
    """An image of two layers as an OCI layout: a base, and an application."""
    (blobs := place / tag / "blobs/sha256").mkdir(parents=True)

    def blob(kind, made):
        digest = hashlib.sha256(made).hexdigest()
        (blobs / digest).write_bytes(made)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "size": len(made), "digest": f"sha256:{digest}"}

    layers = [base, content]
    sums = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": sums}}
    manifest = {"schemaVersion": 2, "config": blob("config.v1+json", json.dumps(config).encode()),
                "layers": [blob("layer.v1.tar+gzip", gzip.compress(one, 6, mtime=0)) for one in layers]}
    index = {"schemaVersion": 2, "manifests": [blob("manifest.v1+json", json.dumps(manifest).encode())]}
    (place / tag / "index.json").write_text(json.dumps(index))
    (place / tag / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def packages(oncewire, data, keys):
    """Within a path: an image and its next tag by skopeo, and a package and its upgrade by apt."""
    versions = {"5.0.6": sources(data, "5.0.6"), "5.0.7": sources(data, "5.0.7")}
    base = io.BytesIO()
    with tarfile.open(fileobj=base, mode="w") as tar:
        tar.add("/usr/lib/python3", "python3")
    for tag, content in versions.items():
        image(keys, content, tag, base.getvalue())
    (keys / "registry.yml").write_text(
        f"version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {keys}/storage\nhttp:\n  addr: "
        f"0.0.0.0:{times.PORT}\n  tls:\n    certificate: {keys}/leaf.crt\n    key: {keys}/leaf.key\n")
    clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    start = lambda *words: subprocess.Popen([str(word) for word in [*FAR, *words]], env=clean, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for ca in ("origins", "site"):
        (keys / ca).mkdir()
        shutil.copy(keys / f"{ca}.crt", keys / ca / "ca.crt")

    def skopeo(place, side, ca, source, target):
        run(*place, "skopeo", "--insecure-policy", "copy", "-q", f"--{side}-cert-dir", keys / ca, source, target, env=clean)

    def pull(host, ca, tag, place):
        skopeo(NEAR, "src", ca, f"docker://{host}/thing:{tag}", f"dir:{place}/pulled")

    (repository := keys / "repository").mkdir()
    for tag, content in versions.items():
        (tree := keys / f"tree-{tag}" / "DEBIAN").mkdir(parents=True)
        control = f"Package: thing\nVersion: {tag}\nArchitecture: all\nMaintainer: n <e@example>\nDescription: x\n"
        (tree / "control").write_text(control)
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            tar.extractall(tree.parent, filter="data")
        (at := repository / tag).mkdir()
        run("dpkg-deb", "-Zxz" if os.environ.get("XZ") else "-Zgzip", "-b", tree.parent, at / "thing.deb")
        deb = (at / "thing.deb").read_bytes()
        (at / "Packages").write_text(f"{control}Filename: ./thing.deb\nSize: {len(deb)}\nSHA256: {hashlib.sha256(deb).hexdigest()}\n")

    def apt(host, ca, tag, place):
        for name in ("state/lists/partial", "cache/archives/partial", "etc"):
            (place / name).mkdir(parents=True)
        (place / "etc/sources.list").write_text(f"deb [trusted=yes] https://{host}/{tag}/ ./\n")
        (place / "status").write_text("")
        options = [f"Dir::State={place}/state", f"Dir::State::status={place}/status", f"Dir::Cache={place}/cache", f"Dir::Etc={place}/etc",
                   "APT::Sandbox::User=", "Acquire::https::Proxy=DIRECT", f"Acquire::https::CAInfo={keys}/{ca}.crt"]
        options = [word for option in options for word in ("-o", option)]
        for action in (["update"], ["download", "thing"]):
            run(*NEAR, "apt-get", "-qq", *options, *action, cwd=place, env={**clean, "APT_CONFIG": "/dev/null"})

    for name, act in (("image by skopeo", pull), ("package by apt", apt)):
        if act is pull:
            server = start("docker-registry", "serve", keys / "registry.yml")
            wait_for(times.PORT, FAR)
            for tag in versions:
                skopeo(FAR, "dest", "origins", f"oci:{keys}/{tag}:", f"docker://{ADDRESS}:{times.PORT}/thing:{tag}")
        else:
            server = nginx(repository, "conf", f"access_log off; server {{ listen {times.PORT} ssl; ssl_certificate {keys}/leaf.crt; "
                           f"ssl_certificate_key {keys}/leaf.key; root {repository}; }}")
            wait_for(times.PORT, FAR)
        for _ in range(ROUNDS):
            tunnel = Tunnel(oncewire, keys, "-L", f"8445:localhost:{times.PORT}")
            for what, tag in (("first time", "5.0.6"), ("again", "5.0.6"), ("next version", "5.0.7")):
                for way, host, ca in (("direct", f"{ADDRESS}:{times.PORT}", "origins"), ("Oncewire", "localhost:8445", "site")):
                    with tempfile.TemporaryDirectory() as place:
                        before, begun = times.interface(), time.perf_counter()
                        act(host, ca, tag, pathlib.Path(place))
                        seconds = time.perf_counter() - begun
                    time.sleep(0.3)
                    report(name=name, way=way, what=what, seconds=seconds, bytes=times.interface() - before)
            tunnel.check()
            tunnel.close()
        server.terminate()
        server.wait()


def within(emulator, rate, delay, arguments, **environment):
    """Runs an experiment in a path. Returns its lines."""
    command = [emulator, "--delay-ms", delay / 2, "--rate-mbit", rate, "--", sys.executable, __file__, "--within", *arguments]
    environment = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{arguments[0]} at {rate} Mbit/s and {delay} ms failed")
    return [json.loads(line) for line in done.stdout.splitlines()]


def middle(lines, field="seconds", **wanted):
    return median([line[field] for line in lines if all(line[name] == value for name, value in wanted.items())])


def table(name, rows):
    with open(pathlib.Path(os.environ.get("FIGURES", "docs/figures")) / f"benefits-{name}.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    print("\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---", *["---:"] * (len(rows[0]) - 1)], *rows[1:]]) + "\n", flush=True)


def show_transfers(go):
    seconds, benefit = [["link", "content", "", *WAYS]], [["link", *WAYS, "Oncewire, next version"]]
    for rate_name, rate in RATES.items():
        for delay in DELAYS:
            content = {"T1": 2, "3": 4, "10": 8, "100": 30}[rate_name] * 1_000_000
            lines = go(rate, delay, "transfers", CONTENT=content)
            link = f"{rate_name}{'' if rate_name == 'T1' else ' Mbit/s'}, {delay} ms"
            megabytes = f"{lines[0]['bytes'] / 1e6:.0f} MB"
            for what, shown in (("first", "new"), ("next", "next version")):
                seconds.append([link, megabytes, shown, *[f"{middle(lines, way=way, what=what):.2f}" for way in WAYS]])
            beta = lambda way, what: lines[0]["bytes"] * 8 / middle(lines, way=way, what=what) / (rate * 1e6) - 1
            benefit.append([link, *[f"{beta(way, 'first'):.2f}" for way in WAYS], f"{beta('Oncewire', 'next'):.1f}"])
            if rate_name == "100" and delay == 20:
                client = middle(lines, "client", way="direct")
                cost = lambda way, what: (middle(lines, "cpu", way=way, what=what) + max(0, middle(lines, "client", way=way, what=what)
                                          - client)) * 1e9 / lines[0]["bytes"]
                table("cpu", [["", *WAYS[1:]], *[[shown, *[f"{cost(way, what):.0f}" for way in WAYS[1:]]] for what, shown in
                                                 (("first", "new"), ("next", "next version"))]])
    table("transfers", seconds)
    table("martynov", benefit)


def show_transactions(go):
    lines = go(100, 200, "transactions")
    gain = lambda way, what, trips: 1 - middle(lines, way=way, what=what, trips=trips) / middle(lines, way="direct", what=what, trips=trips)
    percent = lambda share: f"{100 * share:.0f} %"
    table("transactions", [
        ["round trips", *TRIPS], ["direct, seconds", *[f"{middle(lines, way='direct', what='first', trips=trips):.2f}" for trips in TRIPS]],
        *[[f"{way}, 30 % repeat", *[percent(gain(way, "first", trips)) for trips in TRIPS]] for way in WAYS[1:]],
        ["Oncewire, all repeats", *[percent(gain("Oncewire", "again", trips)) for trips in TRIPS]],
        ["EndRE, about 30 % repeat", "0 %", "20 %", "23 %", "36 %", "20 %", "22 %"],
    ])


def cells(lines, what, **wanted):
    pair = [(middle(lines, way=way, what=what, **wanted), middle(lines, "bytes", way=way, what=what, **wanted)) for way in WAYS[:2]]
    return [f"{times.https.size(moved)}, {seconds:.2f} s" for seconds, moved in pair]


def show_pages(go):
    rows = [["page", "link", *WAYS[:2]]]
    for rate, delay in ((10, 200), (100, 20)):
        lines = go(rate, delay, "pages")
        rows += [[what, f"{rate} Mbit/s, {delay} ms", *cells(lines, what)] for what in ("first time", "again", "next version")]
    table("pages", rows)


def show_packages(go):
    lines = go(100, 20, "packages")
    table("packages", [["client", "", *WAYS[:2]], *[[name, what, *cells(lines, what, name=name)] for name in
                       ("image by skopeo", "package by apt") for what in ("first time", "again", "next version")]])


SHOWN = {"transactions": show_transactions, "transfers": show_transfers, "pages": show_pages, "packages": show_packages}


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--within":
        with tempfile.TemporaryDirectory() as temporary:
            keys, oncewire = pathlib.Path(temporary), pathlib.Path(sys.argv[3])
            os.chmod(keys, 0o755)
            times.certificates(keys, oncewire)
            return globals()[sys.argv[2]](oncewire, pathlib.Path(sys.argv[4]), keys)
    if len(sys.argv) < 4 or not set(sys.argv[4:]) <= set(SHOWN):
        sys.exit(__doc__)
    oncewire, emulator, data = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
    for name in sys.argv[4:] or SHOWN:
        SHOWN[name](lambda rate, delay, experiment, **more: within(emulator, rate, delay, [experiment, oncewire, data], **more))


if __name__ == "__main__":
    main()
