#!/usr/bin/env python3
"""What testssl and sslscan say about a listener of a tunnel that opens HTTPS. Prints their reports.

    scripts/https-judge.py ONCEWIRE

Needs testssl (Debian: testssl.sh), sslscan and openssl. Both programs open connections without a request, which a client that
refuses the certificate does, too: others from the same address send requests meanwhile, so that it is opened all the time.
"""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import threading

spec = importlib.util.spec_from_file_location("times", pathlib.Path(__file__).resolve().parent / "https-times.py")
times = importlib.util.module_from_spec(spec)
spec.loader.exec_module(times)
LISTENER = 8445


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    oncewire, ends = pathlib.Path(sys.argv[1]).resolve(), threading.Event()
    with tempfile.TemporaryDirectory() as temporary:
        keys = pathlib.Path(temporary)
        times.certificates(keys, oncewire)
        (keys / "www").mkdir()
        (keys / "www/index.html").write_text("content")
        times.https.serve_origin(keys / "www", keys / "leaf.crt", keys / "leaf.key", "127.0.0.1", times.PORT)
        tunnel = times.Tunnel(oncewire, keys, "-L", f"{LISTENER}:localhost:{times.PORT}")

        def ask():
            while not ends.wait(0.002):
                times.ask(LISTENER, keys / "site.crt", "index.html")

        askers = [threading.Thread(target=ask) for _ in range(4)]
        for asker in askers:
            asker.start()
        for command in (["sslscan", "--no-colour", "--no-heartbleed"],
                        ["testssl", "--color", "0", "--warnings", "off", "--quiet", "--add-ca", keys / "site.crt"]):
            words = [str(word) for word in [*command, f"localhost:{LISTENER}"]]
            print(subprocess.run(words, capture_output=True, text=True, timeout=600).stdout, flush=True)
        ends.set()
        for asker in askers:
            asker.join()
        passed = tunnel.shown()["clients_passed"]
        tunnel.close()
    if passed:
        sys.exit("the programs saw the origin's TLS: their client was passed")


if __name__ == "__main__":
    main()
