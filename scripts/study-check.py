#!/usr/bin/env python3
"""Compares what `oncewire study` predicts of a tunnel with what the tunnel then takes on the wire.

    scripts/study-check.py ONCEWIRE [FILES...]      (root, Linux, with tcpdump and curl)

Two network namespaces are joined by a link of 1,500 bytes. Files are fetched over HTTP: one
connection each, in the order given, all of them twice, then small requests on one connection. First
directly, with a capture, which is studied; then through a tunnel, with a capture, whose bytes are
counted. Without FILES, the program itself and pieces of it are fetched. Prints one line of JSON.
"""
import json, os, shutil, signal, subprocess, sys, tempfile, time

def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout

def wait(what, ready, seconds=20):
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            sys.exit(f"{what} does not answer")
        time.sleep(0.05)

def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    program, files = os.path.abspath(sys.argv[1]), sys.argv[2:]
    here, there = f"ow-check-a-{os.getpid()}", f"ow-check-b-{os.getpid()}"
    folder = tempfile.mkdtemp(prefix="oncewire-check-")
    children = []

    def start(namespace, *command):
        with open(os.path.join(folder, f"log-{len(children)}"), "w") as log:
            child = subprocess.Popen(["ip", "netns", "exec", namespace, *command], cwd=folder, stdout=log, stderr=log)
        children.append(child)
        return child

    def inside(namespace, *command):
        return run("ip", "netns", "exec", namespace, *command, cwd=folder)

    def listens(namespace, port):
        return lambda: f":{port} " in inside(namespace, "ss", "-ltn")

    try:
        content = os.path.join(folder, "content")
        os.mkdir(content)
        if files:
            for nth, file in enumerate(files):
                shutil.copy(file, os.path.join(content, f"{nth}"))
        else:
            bytes_ = open(program, "rb").read()[:4 << 20]
            for nth in range(40):
                with open(os.path.join(content, f"{nth}"), "wb") as out:
                    out.write(bytes_[nth * 50_000:(nth + 1) * 50_000 + 20_000 * (nth % 5)])
        names = sorted(os.listdir(content), key=int)
        with open(os.path.join(content, "small"), "w") as out:
            out.write("a small answer")

        for namespace in (here, there):
            run("ip", "netns", "add", namespace)
            inside(namespace, "ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "ow0", "netns", here, "type", "veth", "peer", "name", "ow0", "netns", there)
        for namespace, address in ((here, "10.99.0.1/24"), (there, "10.99.0.2/24")):
            # So that the capture has packets as they are on the wire.
            if shutil.which("ethtool"):
                inside(namespace, "ethtool", "-K", "ow0", "tso", "off", "gso", "off", "gro", "off")
            inside(namespace, "ip", "link", "set", "ow0", "gso_max_segs", "1")
            inside(namespace, "ip", "address", "add", address, "dev", "ow0")
            inside(namespace, "ip", "link", "set", "ow0", "up")
        start(there, sys.executable, "-m", "http.server", "8000", "--bind", "10.99.0.2", "--directory", content)
        wait("the HTTP server", listens(there, 8000))

        def fetch(origin):
            for name in names + names:
                inside(here, "curl", "-sSf", "-o", "/dev/null", f"http://{origin}/{name}")
            inside(here, "curl", "-sSf", "-o", "/dev/null", *[f"http://{origin}/small?{nth}" for nth in range(50)])

        def captured(name, during):
            capture = start(here, "tcpdump", "-q", "-i", "ow0", "-s", "0", "-U", "-w", name, "tcp")
            wait("tcpdump", lambda: os.path.exists(os.path.join(folder, name)))
            time.sleep(0.3)
            during()
            time.sleep(1)
            capture.send_signal(signal.SIGINT)
            capture.wait()
            return json.loads(run(program, "study", name, "--inside", "10.99.0.2", "--json", "--figures", "algorithms", cwd=folder))

        direct = captured("direct.pcap", lambda: fetch("10.99.0.2:8000"))
        keys = {namespace: run(program, "keygen", f"{namespace}.key", cwd=folder).strip() for namespace in (here, there)}
        start(there, program, "serve", "--key", f"{there}.key", "--peer", keys[here], "--listen", "10.99.0.2:7077", "--allow", "10.99.0.2:8000")
        wait("serve", listens(there, 7077))
        start(here, program, "connect", "10.99.0.2:7077", "--key", f"{here}.key", "--peer", keys[there], "-L", "127.0.0.1:8000:10.99.0.2:8000")
        wait("connect", listens(here, 8000))
        time.sleep(1)
        tunnel = captured("tunnel.pcap", lambda: fetch("127.0.0.1:8000"))
        before, after = direct["input"]["wire_bytes"], tunnel["input"]["wire_bytes"]
        if direct["input"]["packets"] == 0:
            sys.exit("nothing was captured")
        print(json.dumps({
            "direct": before,
            "tunnel": after,
            "measured": round(1 - after / before, 4),
            "predicted": round(direct["verdict"]["tunnel"], 4),
        }))
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            child.wait()
        for namespace in (here, there):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)
        if os.environ.get("KEEP"):
            print(folder, file=sys.stderr)
        else:
            shutil.rmtree(folder)

main()
