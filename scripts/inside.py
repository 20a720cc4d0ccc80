#!/usr/bin/env python3
"""Measures what looking inside deflate and zstd saves: bytes of `oncewire pack` with and without it, beside zstd
and rsync.

    scripts/inside.py ONCEWIRE DIR [SET...]

SETs are `releases`, `compressors`, `frames`, `parts` and `pages`; without any, all are measured. Downloads packages with
npm and pip into DIR once. Needs zstd and rsync; of gzip, pigz, 7z, zopfli, libdeflate-gzip and go, those that are there are
measured. Prints Markdown tables. Every pack is unpacked and compared.
"""

import json
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
import zlib

NPM = {
    "typescript": ["5.5.2", "5.5.3", "5.5.4"],
    "bootstrap": ["5.3.0", "5.3.1", "5.3.2"],
    "react-dom": ["18.2.0", "18.3.0", "18.3.1"],
    "eslint": ["8.56.0", "8.57.0", "8.57.1"],
    "lodash": ["4.17.19", "4.17.20", "4.17.21"],
    "three": ["0.163.0", "0.164.0", "0.164.1"],
}
PIP = {
    "sympy": ["1.12", "1.12.1", "1.13.1"],
    "numpy": ["2.1.0", "2.1.1", "2.1.2"],
    "Django": ["5.0.7", "5.0.8", "5.0.9"],
}
GO = """package main
import ("compress/gzip"; "io"; "os")
func main() { w := gzip.NewWriter(os.Stdout); io.Copy(w, os.Stdin); w.Close() }
"""


def run(command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, **options).stdout


def packed(oncewire, files, where, *options):
    """Bytes of the pack of all files, one after the other, and the counters of the run."""
    whole, pack, back = where / "whole", where / "pack", where / "back"
    whole.write_bytes(b"".join(path.read_bytes() for path in files))
    report = json.loads(run([oncewire, "pack", *options, whole, "-o", pack, "--json"]))
    run([oncewire, "unpack", pack, "-o", back])
    assert back.read_bytes() == whole.read_bytes()
    back.unlink()
    return report["bytes_out"], report


def next_version(oncewire, first, second, where, *options):
    """Bytes of a pack of the second file for someone who has the first."""
    pack = where / "pack"
    run([oncewire, "pack", *options, "--base", first, second, "-o", pack])
    assert run([oncewire, "unpack", "--base", first, pack]) == second.read_bytes()
    return pack.stat().st_size


def rivals(first, second, where):
    """Bytes for the second file with zstd --patch-from, and that rsync -z sends."""
    out = where / "patch"
    run(["zstd", "-q", "-f", "-3", "--long=31", f"--patch-from={first}", second, "-o", out])
    copy = where / "copy"
    shutil.copy(first, copy)
    # Without the option rsync copies whole files on one machine.
    stats = run(["rsync", "-z", "--no-whole-file", "--inplace", "--stats", second, copy], text=True)
    sent = next(line for line in stats.splitlines() if line.startswith("Total bytes sent"))
    back = next(line for line in stats.splitlines() if line.startswith("Total bytes received"))
    number = lambda line: int(line.split(":")[1].strip().replace(",", ""))
    return out.stat().st_size, number(sent) + number(back)


def share(part, whole):
    return f"{100 * part / whole:.1f} %"


def releases(oncewire, where):
    print("| three releases | as published | packed, inside off | packed | zstd -3 --long=31 | last release alone: packed |"
          " zstd --patch-from | rsync -z |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for names, fetch in [(NPM, npm), (PIP, pip)]:
        for name, versions in names.items():
            files = [fetch(name, version, where) for version in versions]
            size = sum(path.stat().st_size for path in files)
            off, _ = packed(oncewire, files, where, "--inside", "off")
            on, _ = packed(oncewire, files, where)
            run(["zstd", "-q", "-f", "-3", "--long=31", where / "whole", "-o", where / "zst"])
            last = files[-1].stat().st_size
            ours = next_version(oncewire, files[1], files[2], where)
            patch, rsync = rivals(files[1], files[2], where)
            million = lambda size: f"{size / 1e6:.2f}"
            print(f"| {name} {', '.join(versions)} | {million(size)} MB | {million(off)} | **{million(on)}** |"
                  f" {million((where / 'zst').stat().st_size)} | **{share(ours, last)}** | {share(patch, last)} |"
                  f" {share(rsync, last)} |", flush=True)


def npm(name, version, where):
    path = where / f"{name}-{version}.tgz"
    if not path.exists():
        run(["npm", "pack", f"{name}@{version}", "--silent", "--pack-destination", where])
    return path


def pip(name, version, where):
    found = lambda: sorted(where.glob(f"{name.lower()}-{version}-*.whl")) + sorted(where.glob(f"{name}-{version}-*.whl"))
    if not found():
        run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", where, f"{name}=={version}"])
    return found()[0]


def edited(content, edits, seed):
    """Content with small edits at random places: a few bytes are replaced by others of the content."""
    random.seed(seed)
    places = sorted(random.randrange(len(content) - 100) for _ in range(edits))
    out, done = [], 0
    for place in places:
        if place < done:
            continue
        source = random.randrange(len(content) - 100)
        out += [content[done:place], content[source:source + random.randrange(1, 20)]]
        done = place + random.randrange(0, 20)
    return b"".join([*out, content[done:]])


def compressors(oncewire, where):
    """A tree of source files and one with an edit in every 50 KB, by many compressors."""
    with tarfile.open(npm("typescript", "5.5.2", where)) as archive:
        tree = b"".join(archive.extractfile(member).read() for member in archive if member.isfile())[:20_000_000]
    versions = [tree, edited(tree, len(tree) // 50_000, 1)]
    go = where / "gogzip"
    if shutil.which("go") and not go.exists():
        (where / "gogzip.go").write_text(GO)
        run(["go", "build", "-o", go, where / "gogzip.go"])
    commands = {
        "gzip -1": ["gzip", "-1nc"],
        "gzip -6": ["gzip", "-6nc"],
        "gzip -9": ["gzip", "-9nc"],
        "pigz -6": ["pigz", "-6nc"],
        "Go compress/gzip": [go],
        "libdeflate -6": ["libdeflate-gzip", "-6", "-c", "-k", where / "input"],
        "libdeflate -12": ["libdeflate-gzip", "-12", "-c", "-k", where / "input"],
        "7z -tgzip": ["7z", "a", "-tgzip", "-so", "-an", where / "input"],
        "zopfli --i1": ["zopfli", "--i1", "-c", where / "input"],
    }
    print("\n| compressor | compressed | next version packed | inside off | zstd --patch-from | rsync -z |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, command in commands.items():
        if not shutil.which(str(command[0])):
            continue
        files = []
        for nth, version in enumerate(versions):
            # zopfli is slow.
            version = version[:3_000_000] if "zopfli" in name else version
            (where / "input").write_bytes(version)
            path = where / f"version{nth}.gz"
            path.write_bytes(run(command, input=version))
            files.append(path)
        size = files[1].stat().st_size
        on, off = (next_version(oncewire, *files, where, "--inside", how) for how in ["on", "off"])
        patch, rsync = rivals(*files, where)
        print(f"| {name} | {size / 1e6:.2f} MB | **{share(on, size)}** | {share(off, size)} | {share(patch, size)} |"
              f" {share(rsync, size)} |", flush=True)


def tree(name, version, where):
    """The files of a package, one after the other."""
    with tarfile.open(npm(name, version, where)) as archive:
        return b"".join(archive.extractfile(member).read() for member in archive if member.isfile())


def frames(oncewire, where):
    """Two versions of a tree, as zstd frames of several levels."""
    old = tree("typescript", "5.5.2", where)
    pairs = {
        "typescript 5.5.2, an edit in every 50 KB": (old[:20_000_000], edited(old[:20_000_000], 400, 1)),
        "typescript 5.5.2, 5.5.3": (old, tree("typescript", "5.5.3", where)),
        "bootstrap 5.3.0, 5.3.1": (tree("bootstrap", "5.3.0", where), tree("bootstrap", "5.3.1", where)),
        "eslint 8.57.0, 8.57.1": (tree("eslint", "8.57.0", where), tree("eslint", "8.57.1", where)),
        "three 0.163.0, 0.164.0": (tree("three", "0.163.0", where), tree("three", "0.164.0", where)),
    }
    print("\n| versions | zstd | compressed | next version packed | inside off | zstd --patch-from | rsync -z |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, versions in pairs.items():
        for level in (1, 3, 9, 19):
            files = []
            for nth, version in enumerate(versions):
                path = where / f"version{nth}.zst"
                path.write_bytes(run(["zstd", f"-{level}", "-c"], input=version))
                files.append(path)
            size = files[1].stat().st_size
            on, off = (next_version(oncewire, *files, where, "--inside", how) for how in ["on", "off"])
            patch, rsync = rivals(*files, where)
            print(f"| {name} | -{level} | {size / 1e6:.2f} MB | **{share(on, size)}** | {share(off, size)} |"
                  f" {share(patch, size)} | {share(rsync, size)} |", flush=True)


def parts(oncewire, where):
    """The rest of a second version, without its first third, for someone who has the first version or all but its
    first quarter."""
    old = tree("typescript", "5.5.2", where)[:20_000_000]
    new = edited(old, 400, 1)
    commands = [["gzip", f"-{level}"] for level in (1, 6, 9)] + [["zstd", f"-{level}"] for level in (1, 3, 9, 19)]
    print("\n| compressor | compressed | rest packed | inside off | without the first quarter of the old one |")
    print("|---|---:|---:|---:|---:|")
    for command in commands:
        first, second = (run([*command, "-c"], input=version) for version in (old, new))
        base, part, rest = (where / name for name in ("base", "part", "rest"))
        base.write_bytes(first)
        part.write_bytes(first[len(first) // 4:])
        rest.write_bytes(second[len(second) // 3:])
        size = rest.stat().st_size
        on, off = (next_version(oncewire, base, rest, where, "--inside", how) for how in ["on", "off"])
        cut = next_version(oncewire, part, rest, where)
        print(f"| {' '.join(command)} | {len(second) / 1e6:.2f} MB | **{share(on, size)}** | {share(off, size)} |"
              f" {share(cut, size)} |", flush=True)


def pages(oncewire, where):
    """Variants of a page with a few fields changed, each compressed for itself."""
    rows = "".join(
        f'<tr class="item"><td><a href="/items/{n}">{word}</a></td><td>{n * 37 % 991} in stock</td></tr>\n'
        for n, word in enumerate((zlib.__doc__ + json.__doc__ + random.__doc__).split())
    )
    print("\n| 1,000 pages | compressed | packed | inside off |")
    print("|---|---:|---:|---:|")
    for level in [1, 6, 9, "zstd -3", "zstd -9"]:
        random.seed(level)
        files = []
        for nth in range(1000):
            token = f"{random.getrandbits(128):032x}"
            page = (f"<!doctype html><html><head><title>Items</title><meta name=csrf content={token}></head><body>"
                    f"<p>Hello, user{random.randrange(10**6)}! It is {random.randrange(24):02}:{random.randrange(60):02}."
                    f" You have {random.randrange(50)} new messages.</p><table>\n{rows}</table>"
                    f"<footer>Served by node-{random.randrange(9)} in {random.randrange(300)} ms</footer></body></html>")
            if isinstance(level, int):
                deflate = zlib.compressobj(level, zlib.DEFLATED, 31)
                files.append(deflate.compress(page.encode()) + deflate.flush())
            else:
                files.append(run([*level.split(), "-c"], input=page.encode()))
        (where / "pages").write_bytes(b"".join(files))
        size = sum(map(len, files))
        on, _ = packed(oncewire, [where / "pages"], where)
        off, _ = packed(oncewire, [where / "pages"], where, "--inside", "off")
        name = level if isinstance(level, str) else f"level {level}"
        print(f"| {name}, {len(page)} bytes each | {size / 1e6:.2f} MB | **{share(on, size)}** |"
              f" {share(off, size)} |", flush=True)


SETS = {"releases": releases, "compressors": compressors, "frames": frames, "parts": parts, "pages": pages}


def main():
    if len(sys.argv) < 3 or any(name not in SETS for name in sys.argv[3:]):
        sys.exit(__doc__)
    oncewire, where = sys.argv[1], pathlib.Path(sys.argv[2])
    where.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or SETS:
        SETS[name](oncewire, where)


if __name__ == "__main__":
    main()
