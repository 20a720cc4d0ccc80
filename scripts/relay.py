#!/usr/bin/env python3
"""Measures a tunnel beside a TLS relay (stunnel) and a direct connection, in turns: seconds and CPU time of a download
of new content, of the same again, and of random bytes; and 15 KB on a new connection.

    scripts/relay.py ONCEWIRE FILE...          ROUNDS=5 MB=300 REQUESTS=300 CSV=

Each FILE is content of its own: in each round, new tunnels download it twice. `random` is MB megabytes that no tunnel has
seen. CPU time is user and system time of both ends, nanoseconds per byte of content. Needs root, nginx, curl and
stunnel: both ends and the link between them are in network namespaces of their own (veth). Compares the length of what
arrives. Prints Markdown, medians; into the file CSV, if it is named, the cells of the table in docs/PERFORMANCE.md.
"""

import csv
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import namespaces

ORIGIN, TUNNEL, RELAY, LOCAL, NEAR_RELAY = 8080, 7077, 7078, 9090, 9091
NEAR, FAR = "10.218.0.1", "10.218.0.2"
SMALL = 15_000
TICK = os.sysconf("SC_CLK_TCK")


def median(values):
    return sorted(values)[len(values) // 2]


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def requests(host, port, count):
    """Runs in the near namespace: prints the seconds of each request for the small file, on new connections."""
    for _ in range(count):
        begun, length = time.perf_counter(), 0
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(b"GET /small HTTP/1.0\r\n\r\n")
            while part := connection.recv(1 << 16):
                length += len(part)
        assert length > SMALL, length
        print(time.perf_counter() - begun)


class Path:
    """Two namespaces, a link between them, and what runs in them."""

    def __init__(self):
        self.near, self.far = namespaces.pair((NEAR, FAR))
        self.processes = []

    def start(self, name, *command, **more):
        # `ip netns exec` becomes the program, so the process is the program's.
        self.processes.append(subprocess.Popen(["ip", "netns", "exec", name, *map(str, command)], **more))
        return self.processes[-1]

    def output(self, *command):
        return subprocess.run(["ip", "netns", "exec", self.near, *map(str, command)], check=True, stdout=subprocess.PIPE,
                              text=True).stdout

    def wait(self, port):
        for _ in range(200):
            time.sleep(0.05)
            if f":{port} " in self.output("ss", "-ltn"):
                return
        sys.exit(f"nothing listens on port {port}")

    def stop(self, processes):
        for process in reversed(processes):
            process.terminate()
            process.wait()
            self.processes.remove(process)

    def close(self):
        self.stop(list(self.processes))
        for name in (self.near, self.far):
            run("ip", "netns", "delete", name)


def cpu(processes):
    """Seconds of user and system time."""
    total = 0
    for process in processes:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def start_relay(path, work):
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
        "/CN=relay", "-keyout", work / "relay.pem", "-out", work / "relay.crt")
    with open(work / "relay.pem", "a") as pem:
        pem.write((work / "relay.crt").read_text())
    common = "foreground = yes\npid =\ndebug = 3\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n"
    (work / "far.conf").write_text(f"{common}[relay]\naccept = {FAR}:{RELAY}\nconnect = {FAR}:{ORIGIN}\n"
                                   f"cert = {work}/relay.pem\n")
    (work / "near.conf").write_text(f"{common}[relay]\nclient = yes\naccept = 127.0.0.1:{NEAR_RELAY}\n"
                                    f"connect = {FAR}:{RELAY}\n")
    return [path.start(name, "stunnel", work / f"{end}.conf", stderr=subprocess.DEVNULL)
            for name, end in ((path.far, "far"), (path.near, "near"))]


def start_tunnel(path, oncewire, work):
    public = [(work / f"{end}.pub").read_text().strip() for end in "ab"]
    common = ["--log", "error", *os.environ.get("OPTIONS", "").split()]
    ends = [path.start(path.far, oncewire, "serve", "--key", work / "b.key", "--peer", public[0], "--listen",
                       f"*:{TUNNEL}", "--allow", f"{FAR}/32:{ORIGIN}", "--status", work / "far.sock", *common),
            path.start(path.near, oncewire, "connect", f"{FAR}:{TUNNEL}", "--key", work / "a.key", "--peer", public[1],
                       "--status", work / "near.sock", "-L", f"{LOCAL}:{FAR}:{ORIGIN}", *common)]
    for _ in range(200):
        time.sleep(0.05)
        status = subprocess.run([oncewire, "status", "--json", "--socket", work / "near.sock"], capture_output=True)
        if b'"established"' in status.stdout:
            return ends
    sys.exit("the tunnel does not come up")


def received(oncewire, work):
    """Bytes of messages that the near end has received."""
    out = subprocess.run([oncewire, "status", "--json", "--socket", work / "near.sock"], capture_output=True).stdout
    return json.loads(out)[0]["sessions"][0]["here"]["wire_received_bytes"]


def main():
    oncewire, files = os.path.abspath(sys.argv[1]), [pathlib.Path(file).resolve() for file in sys.argv[2:]]
    number = lambda name, default: int(os.environ.get(name, default))
    rounds, megabytes, count = number("ROUNDS", 5), number("MB", 300), number("REQUESTS", 300)
    path = Path()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        try:
            measure(path, oncewire, files, work, rounds, megabytes, count)
        finally:
            path.close()


def measure(path, oncewire, files, work, rounds, megabytes, count):
    for end in "ab":
        key = subprocess.run([oncewire, "keygen", work / f"{end}.key"], check=True, capture_output=True, text=True)
        (work / f"{end}.pub").write_text(key.stdout)
    (root := work / "root").mkdir()
    for nth, file in enumerate(files):
        (root / str(nth)).symlink_to(file)
    (root / "small").write_bytes(os.urandom(SMALL))
    with open(root / "random", "wb") as random:
        for _ in range(megabytes):
            random.write(os.urandom(1_000_000))
    os.chmod(work, 0o755)
    (work / "nginx.conf").write_text(
        f"daemon off; master_process off; worker_processes 1; pid {work}/nginx.pid; error_log stderr crit;\n"
        f"events {{ worker_connections 2000; }}\n"
        f"http {{ access_log off; sendfile on; tcp_nodelay on; server {{ listen {FAR}:{ORIGIN}; root {root}; }} }}\n")
    path.start(path.far, "nginx", "-c", work / "nginx.conf", "-p", work, stderr=subprocess.DEVNULL)
    relay = start_relay(path, work)
    path.wait(NEAR_RELAY)
    relay_address, tunnel_address = f"127.0.0.1:{NEAR_RELAY}", f"127.0.0.1:{LOCAL}"

    def fetch(address, name, ends):
        before = cpu(ends)
        took, length = path.output("curl", "-s", "-o", "/dev/null", "-w", "%{time_total} %{size_download}",
                                   f"http://{address}/{name}").split()
        assert int(length) == (root / name).stat().st_size, (address, name, length)
        return float(took), (cpu(ends) - before) / int(length) * 1e9

    def cell(results):
        wire = f", {median([one[2] for one in results]):.1f}" if len(results[0]) > 2 else ""
        return f"{median([one[0] for one in results]):.2f} s, {median([one[1] for one in results]):.2f}{wire}"

    def fetch_counted(name, ends):
        before = received(oncewire, work)
        result = fetch(tunnel_address, name, ends)
        return *result, (received(oncewire, work) - before) / 1e6

    print("Seconds, CPU time, MB on the wire\n")
    print("| content | direct | stunnel | new | again | new / stunnel | again / stunnel |\n|---|---|---|---|---|---:|---:|")
    table = [["content", "stunnel", "new", "again", "new / stunnel", "again / stunnel"]]
    for name, title in [*((str(nth), file.name) for nth, file in enumerate(files)), ("random", "random")]:
        direct, through_relay, new, again = [], [], [], []
        fetch(f"{FAR}:{ORIGIN}", name, [])
        fetch(relay_address, name, relay)
        for _ in range(rounds):
            tunnel = start_tunnel(path, oncewire, work)
            direct.append(fetch(f"{FAR}:{ORIGIN}", name, []))
            through_relay.append(fetch(relay_address, name, relay))
            new.append(fetch_counted(name, tunnel))
            through_relay.append(fetch(relay_address, name, relay))
            again.append(fetch_counted(name, tunnel))
            path.stop(tunnel)
        seconds = lambda results: median([one[0] for one in results])
        base = seconds(through_relay)
        table.append([f"{title}, {(root / name).stat().st_size / 1e6:.0f} MB", cell(through_relay),
                      *(cell([one[:2] for one in results]) for results in (new, again)),
                      f"{seconds(new) / base:.2f}", f"{seconds(again) / base:.2f}"])
        print(f"| {title}, {(root / name).stat().st_size / 1e6:.0f} MB | {seconds(direct):.2f} s | {cell(through_relay)} | "
              f"{cell(new)} | {cell(again)} | {seconds(new) / base:.2f} | {seconds(again) / base:.2f} |", flush=True)

    if csv_file := os.environ.get("CSV"):
        with open(csv_file, "w", newline="") as target:
            csv.writer(target, lineterminator="\n").writerows(table)

    ways = {"direct": (FAR, ORIGIN), "stunnel": ("127.0.0.1", NEAR_RELAY), "oncewire": ("127.0.0.1", LOCAL)}
    times = {name: [] for name in ways}
    tunnel = start_tunnel(path, oncewire, work)
    ends, spent = {"direct": [], "stunnel": relay, "oncewire": tunnel}, {name: 0 for name in ways}
    for turn in range(rounds + 1):
        for name, (host, port) in ways.items():
            before = cpu(ends[name])
            out = path.output(sys.executable, __file__, "--requests", host, port, count)
            # The first turn warms up.
            if turn > 0:
                times[name].append(sorted(map(float, out.split())))
                spent[name] += cpu(ends[name]) - before
    path.stop(tunnel)
    print(f"\n{SMALL} bytes on a new connection, us; medians of {rounds} turns of {count}\n")
    print("| | median | 99th percentile | median / direct | CPU of both ends |\n|---|---:|---:|---:|---:|")
    at = lambda name, percent: median([one[len(one) * percent // 100] for one in times[name]]) * 1e6
    for name in ways:
        print(f"| {name} | {at(name, 50):.0f} | {at(name, 99):.0f} | {at(name, 50) / at('direct', 50):.2f} | "
              f"{spent[name] / rounds / count * 1e6:.0f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--requests"]:
        requests(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    elif len(sys.argv) < 3:
        sys.exit(__doc__)
    else:
        main()
