#!/usr/bin/env python3
"""Downloads or makes the eleven kinds of content of docs/PERFORMANCE.md.

Usage: scripts/fetch-kinds.py DIR [KIND...]

Writes DIR/KIND/*.tar (or *.db, *.json, *.bin) and DIR/KIND.list, the absolute
paths in the order in which they are sent. About 1.6 GB. Versions are pinned
here; kinds.sha256 beside this script has the checksum of every file. A file
that exists is checked and kept. Needs pip, npm, cargo and, for the Debian
packages, apt-get and dpkg-deb; each uses the registry that it is set up for.

  python      transformers, three releases          JS framework and libraries,
  framework   react-native, three releases          native binaries: npm
  kernel      Debian's cloud kernels, two builds    manuals: Debian's Boost docs
  native      esbuild and swc, three releases       csource: OpenSSL and SQLite
  wheels      scikit-learn and lxml, three releases as their crates have them
  libraries   five JS libraries, two releases each  database, logs: made here
  database    an SQLite file before and after changes
  logs        access logs as lines of JSON
  manuals     HTML, two versions
  csource     C, two versions
  compressed  the .tgz and .whl files of framework and wheels, sent twice
"""
import hashlib
import io
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PYPI = {
    "python": [("transformers", v) for v in ("4.44.0", "4.45.0", "4.46.0")],
    "wheels": [
        (name, version)
        for pair in zip(("1.5.0", "1.5.1", "1.5.2"), ("5.2.2", "5.3.0", "5.3.1"))
        for name, version in zip(("scikit-learn", "lxml"), pair)
    ],
}
NPM = {
    "framework": [("react-native", v) for v in ("0.74.0", "0.75.0", "0.76.0")],
    "native": [
        (name, version)
        for pair in zip(("0.23.0", "0.23.1", "0.24.0"), ("1.9.1", "1.9.2", "1.9.3"))
        for name, version in zip(("@esbuild/linux-x64", "@swc/core-linux-x64-gnu"), pair)
    ],
    "libraries": [
        ("three", "0.169.0"), ("three", "0.170.0"),
        ("echarts", "5.5.0"), ("echarts", "5.5.1"),
        ("chart.js", "4.4.4"), ("chart.js", "4.4.5"),
        ("plotly.js-dist", "2.34.0"), ("plotly.js-dist", "2.35.0"),
        ("@mui/material", "6.1.0"), ("@mui/material", "6.1.1"),
    ],
}
DEBIAN = {
    "kernel": ["linux-image-6.1.0-47-cloud-amd64", "linux-image-6.1.0-50-cloud-amd64"],
    "manuals": ["libboost1.74-doc", "libboost1.81-doc"],
}
CRATES = {"csource": [("openssl-src", "300.4.0+3.4.0"), ("libsqlite3-sys", "0.29.0"),
                      ("openssl-src", "300.5.0+3.5.0"), ("libsqlite3-sys", "0.30.1")]}
KINDS = ["python", "framework", "kernel", "native", "wheels", "libraries", "database", "logs", "manuals", "csource",
         "compressed"]


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"fetch-kinds: {' '.join(command)} failed:\n{done.stdout[-2000:]}")


def only(directory, ending):
    names = [name for name in os.listdir(directory) if name.endswith(ending)]
    if len(names) != 1:
        sys.exit(f"fetch-kinds: expected one {ending} file, got {names}")
    return os.path.join(directory, names[0])


def write_tar(out, files):
    """A tar that has nothing but names and content, so it is the same everywhere."""
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in sorted(files):
            info = tarfile.TarInfo(name[-100:])
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def tree(root):
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                with open(path, "rb") as source:
                    yield os.path.relpath(path, root), source.read()


def pypi(name, version, work):
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--python-version",
        "3.12", "--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_28_x86_64", "--platform", "any",
        "--dest", work, f"{name}=={version}")
    return only(work, ".whl")


def npm(name, version, work):
    run("npm", "pack", "--silent", f"{name}@{version}", cwd=work)
    return only(work, ".tgz")


def from_wheel(path, out):
    with zipfile.ZipFile(path) as archive:
        write_tar(out, [(name, archive.read(name)) for name in archive.namelist() if not name.endswith("/")])


def from_tgz(path, out):
    with tarfile.open(path) as archive:
        write_tar(out, [(entry.name, archive.extractfile(entry).read()) for entry in archive if entry.isfile()])


def from_debian(name, out, work):
    run("apt-get", "download", name, cwd=work)
    run("dpkg-deb", "-x", only(work, ".deb"), os.path.join(work, "tree"))
    write_tar(out, tree(os.path.join(work, "tree")))


def from_crate(name, version, out, work):
    with open(os.path.join(work, "Cargo.toml"), "w") as manifest:
        plain = version.split("+")[0]
        manifest.write(f'[package]\nname = "get"\nversion = "0.0.0"\n[lib]\npath = "l.rs"\n[dependencies]\n{name} = "={plain}"\n')
    open(os.path.join(work, "l.rs"), "w").close()
    run("cargo", "vendor", "--quiet", cwd=work)
    write_tar(out, tree(os.path.join(work, "vendor", name)))


def make_logs(out):
    """Access logs of three hosts: few paths are most requests, identifiers and times are new in each line."""
    rng = random.Random("oncewire kinds: logs, 1")
    paths = [f"/api/v{rng.randint(1, 3)}/{a}/{b}" for a in ("users", "orders", "items", "search", "carts", "media")
             for b in ("list", "detail", "update", "count", "feed", "export", "recent", "by-owner")]
    agents = [f"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.{rng.randint(1, 99)} (KHTML, like Gecko) Chrome/"
              f"{rng.randint(80, 130)}.0.{rng.randint(1000, 7000)}.{rng.randint(1, 200)} Safari/537.36" for _ in range(60)]
    time = 1_700_000_000.0
    with open(out, "w") as log:
        for number in range(420_000):
            time += rng.expovariate(900)
            path = paths[min(int(rng.paretovariate(0.9)) - 1, len(paths) - 1)]
            status = rng.choices((200, 201, 204, 304, 400, 404, 500), (80, 5, 4, 6, 2, 2, 1))[0]
            entry = {
                "ts": f"{time:.6f}", "level": "error" if status == 500 else "info", "host": f"web-{rng.randint(1, 3):02}",
                "request_id": f"{rng.getrandbits(128):032x}", "method": rng.choice(("GET", "GET", "GET", "POST", "PUT")),
                "path": path, "query": {"page": rng.randint(1, 40), "owner": rng.randint(1, 90_000)}, "status": status,
                "bytes": int(rng.lognormvariate(8, 1.5)), "duration_ms": round(rng.lognormvariate(2.5, 0.9), 3),
                "client": f"10.{rng.randint(0, 3)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}",
                "user_agent": agents[min(int(rng.paretovariate(0.7)) - 1, len(agents) - 1)], "msg": "request completed",
            }
            log.write(json.dumps(entry) + "\n")


def make_database(before, after):
    """Tables of people, events and documents; then a day of changes. The layout depends on the SQLite release."""
    rng = random.Random("oncewire kinds: database, 1")
    words = ["".join(rng.choices("abcdefghilmnoprstuvw", k=rng.randint(2, 9))) for _ in range(4000)]
    text = lambda n: " ".join(words[min(int(rng.paretovariate(0.6)) - 1, 3999)] for _ in range(n))
    db = sqlite3.connect(before)
    db.executescript("PRAGMA page_size=4096; PRAGMA journal_mode=OFF;"
                     "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, mail TEXT, city TEXT, balance REAL, note TEXT);"
                     "CREATE TABLE event(id INTEGER PRIMARY KEY, person INT, at INT, kind TEXT, value REAL, detail TEXT);"
                     "CREATE TABLE document(id INTEGER PRIMARY KEY, person INT, title TEXT, body TEXT, hash BLOB);"
                     "CREATE INDEX by_mail ON person(mail); CREATE INDEX by_person ON event(person, at);")
    kinds = ("login", "logout", "purchase", "refund", "view", "click")
    person = lambda: (text(2), f"{rng.getrandbits(40):x}@example.org", rng.choice(words), round(rng.gauss(500, 200), 2), text(8))
    event = lambda at: (rng.randint(1, 40_000), at, rng.choice(kinds), round(rng.expovariate(0.02), 2), text(4))
    document = lambda: (rng.randint(1, 40_000), text(6), text(rng.randint(30, 300)), rng.randbytes(20))
    add_person, add_event = "INSERT INTO person VALUES(NULL,?,?,?,?,?)", "INSERT INTO event VALUES(NULL,?,?,?,?,?)"
    add_document = "INSERT INTO document VALUES(NULL,?,?,?,?)"
    db.executemany(add_person, (person() for _ in range(40_000)))
    db.executemany(add_event, (event(1_700_000_000 + 3 * n) for n in range(160_000)))
    db.executemany(add_document, (document() for _ in range(11_000)))
    db.commit()
    db.close()
    shutil.copy(before, after)
    db = sqlite3.connect(after)
    db.execute("PRAGMA journal_mode=OFF")
    db.executemany("UPDATE person SET balance=?, note=? WHERE id=?",
                   ((round(rng.gauss(500, 200), 2), text(8), rng.randint(1, 40_000)) for _ in range(3_000)))
    db.executemany("DELETE FROM event WHERE id=?", ((rng.randint(1, 160_000),) for _ in range(4_000)))
    db.executemany("UPDATE document SET body=body||? WHERE id=?",
                   ((text(20), rng.randint(1, 11_000)) for _ in range(600)))
    db.executemany(add_event, (event(1_700_500_000 + 3 * n) for n in range(12_000)))
    db.executemany(add_document, (document() for _ in range(700)))
    db.commit()
    db.close()


class Kinds:
    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        self.sums = {}
        sums = os.path.join(HERE, "kinds.sha256")
        if os.path.exists(sums):
            with open(sums) as lines:
                self.sums = {name: digest for digest, name in map(str.split, lines)}

    def check(self, name):
        digest = hashlib.sha256()
        with open(os.path.join(self.directory, name), "rb") as source:
            while piece := source.read(1 << 20):
                digest.update(piece)
        want = self.sums.get(name)
        if want and want != digest.hexdigest():
            sys.exit(f"fetch-kinds: {name} has sha256 {digest.hexdigest()}, expected {want}: remove it and try again")
        return digest.hexdigest()

    def place(self, name, make):
        """Makes the file DIR/name, unless it is there, by make(path, work directory)."""
        path = os.path.join(self.directory, name)
        if not os.path.exists(path):
            print(f"fetch-kinds: {name}", file=sys.stderr)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.directory) as work:
                new = os.path.join(work, "new")
                os.mkdir(os.path.join(work, "get"))
                make(new, os.path.join(work, "get"))
                os.rename(new, path)
        self.check(name)
        return path

    def kind(self, kind):
        slug = lambda name, version, end: f"{kind}/{name.strip('@').replace('/', '-')}-{version}{end}"
        if kind in PYPI:
            return [self.place(slug(n, v, ".tar"), lambda out, work, n=n, v=v: from_wheel(pypi(n, v, work), out))
                    for n, v in PYPI[kind]]
        if kind in NPM:
            return [self.place(slug(n, v, ".tar"), lambda out, work, n=n, v=v: from_tgz(npm(n, v, work), out))
                    for n, v in NPM[kind]]
        if kind in DEBIAN:
            return [self.place(f"{kind}/{n}.tar", lambda out, work, n=n: from_debian(n, out, work)) for n in DEBIAN[kind]]
        if kind in CRATES:
            return [self.place(slug(n, v, ".tar"), lambda out, work, n=n, v=v: from_crate(n, v, out, work))
                    for n, v in CRATES[kind]]
        if kind == "logs":
            return [self.place("logs/access.json", lambda out, _: make_logs(out))]
        if kind == "database":
            before, after = (os.path.join(self.directory, f"database/{name}.db") for name in ("before", "after"))
            if not (os.path.exists(before) and os.path.exists(after)):
                os.makedirs(os.path.dirname(before), exist_ok=True)
                for path in (before, after):
                    if os.path.exists(path):
                        os.remove(path)
                make_database(before, after)
            return [before, after]
        files = [self.place(slug(n, v, ".tgz"), lambda out, work, n=n, v=v: shutil.move(npm(n, v, work), out))
                 for n, v in NPM["framework"]]
        files += [self.place(slug(n, v, ".whl"), lambda out, work, n=n, v=v: shutil.move(pypi(n, v, work), out))
                  for n, v in PYPI["wheels"]]
        return files + files


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0].startswith("-") or set(arguments[1:]) - set(KINDS):
        sys.exit(__doc__ + f"\nKINDs: {', '.join(KINDS)} [default: all]")
    kinds = Kinds(arguments[0])
    os.makedirs(kinds.directory, exist_ok=True)
    for kind in arguments[1:] or KINDS:
        paths = kinds.kind(kind)
        with open(os.path.join(kinds.directory, f"{kind}.list"), "w") as out:
            out.writelines(path + "\n" for path in paths)
        size = sum(map(os.path.getsize, paths))
        print(f"fetch-kinds: {kind}: {len(paths)} files, {size / 1e6:,.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
