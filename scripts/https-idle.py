#!/usr/bin/env python3
"""Opened connections that rest for a while, through a tunnel with default options.

    scripts/https-idle.py ONCEWIRE [MINUTES]

Three connections to an echo over TLS carry a message, one carries nothing; all rest for MINUTES (default: 30), then each
carries a message. The exit status is 1 if one does not. Needs openssl.
"""
import importlib.util
import pathlib
import socket
import ssl
import sys
import tempfile
import threading
import time

spec = importlib.util.spec_from_file_location("times", pathlib.Path(__file__).resolve().parent / "https-times.py")
times = importlib.util.module_from_spec(spec)
spec.loader.exec_module(times)
LISTENER = 8445


def serve_echo(keys):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "leaf.crt", keys / "leaf.key")
    listener = socket.create_server(("127.0.0.1", times.PORT))

    def echo(raw):
        with context.wrap_socket(raw, server_side=True) as tls:
            while message := tls.recv(4096):
                tls.sendall(message)

    def accept():
        while True:
            threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def works(connection):
    try:
        connection.sendall(b"message")
        return connection.recv(99) == b"message"
    except OSError as error:
        print(error, file=sys.stderr)
        return False


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    minutes = float(sys.argv[2]) if len(sys.argv) == 3 else 30
    oncewire = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        keys = pathlib.Path(temporary)
        times.certificates(keys, oncewire)
        serve_echo(keys)
        tunnel = times.Tunnel(oncewire, keys, "-L", f"{LISTENER}:localhost:{times.PORT}")
        context = ssl.create_default_context(cafile=keys / "site.crt")

        def connect():
            raw = socket.create_connection(("127.0.0.1", LISTENER), timeout=20)
            return context.wrap_socket(raw, server_hostname="localhost")

        used = [connect() for _ in range(3)]
        if not all(map(works, used)):
            sys.exit("no connection works")
        connections = [*used, connect()]
        time.sleep(60 * minutes)
        count = sum(map(works, connections))
        opened = tunnel.shown()["opened"]
        for connection in connections:
            connection.close()
        tunnel.close()
    print(f"after {minutes:g} minutes {count} of 4 connections work; {opened} were opened")
    if (count, opened) != (4, 4):
        sys.exit(1)


if __name__ == "__main__":
    main()
