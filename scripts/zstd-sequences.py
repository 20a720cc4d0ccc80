#!/usr/bin/env python3
"""Measures whether zstd's sequences fall into step again behind a change.

    scripts/zstd-sequences.py DIR

What zstd is to code for two versions of a tree, by level: the share of the second version's sequences that lie in 4 or
in 8 in a row which the first version has too, with the same literals and lengths of matches; distances do not count.
Downloads packages with npm into DIR once. Needs zstd, and libzstd with ZSTD_generateSequences. Prints a Markdown table.
"""

import ctypes
import pathlib
import runpy
import subprocess
import sys
import tarfile

LEVEL = 100  # ZSTD_c_compressionLevel


class Sequence(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("offset", "literals", "match", "repeat")]


def sequences(zstd, content, level):
    """Literals and match length of each sequence."""
    context = zstd.ZSTD_createCCtx()
    zstd.ZSTD_CCtx_setParameter(context, LEVEL, level)
    room = len(content) // 3 + 1000
    out = (Sequence * room)()
    count = zstd.ZSTD_generateSequences(context, out, room, content, len(content))
    assert count < room, "libzstd failed"
    found, at = [], 0
    for nth in range(count):
        literals, match = out[nth].literals, out[nth].match
        found.append((content[at : at + literals], match))
        at += literals + match
    zstd.ZSTD_freeCCtx(context)
    return found


def covered(first, second, window):
    """Share of the second's sequences that lie in windows which the first has."""
    known = {hash(tuple(first[at : at + window])) for at in range(len(first) - window + 1)}
    is_covered = bytearray(len(second))
    for at in range(len(second) - window + 1):
        if hash(tuple(second[at : at + window])) in known:
            is_covered[at : at + window] = b"\1" * window
    return sum(is_covered) / len(second)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    where = pathlib.Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    tools = runpy.run_path(str(pathlib.Path(__file__).with_name("inside.py")), run_name="tools")

    def tree(name, version):
        with tarfile.open(tools["npm"](name, version, where)) as archive:
            return b"".join(archive.extractfile(member).read() for member in archive if member.isfile())

    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_createCCtx.restype = ctypes.c_void_p
    zstd.ZSTD_generateSequences.restype = ctypes.c_size_t
    zstd.ZSTD_generateSequences.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t
    ]
    zstd.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    zstd.ZSTD_freeCCtx.argtypes = [ctypes.c_void_p]
    old = tree("typescript", "5.5.2")
    pairs = {
        "typescript 5.5.2, an edit in every 50 KB": (old[:20_000_000], tools["edited"](old[:20_000_000], 400, 1)),
        "typescript 5.5.2, 5.5.3": (old, tree("typescript", "5.5.3")),
        "bootstrap 5.3.0, 5.3.1": (tree("bootstrap", "5.3.0"), tree("bootstrap", "5.3.1")),
    }
    print("| versions | zstd | compressed | sequences | in known 4 | in known 8 |")
    print("|---|---|---:|---:|---:|---:|")
    for name, (first, second) in pairs.items():
        for level in (1, 3, 9, 19):
            size = len(subprocess.run(["zstd", f"-{level}", "-c"], input=second, capture_output=True, check=True).stdout)
            found = [sequences(zstd, content, level) for content in (first, second)]
            shares = " | ".join(f"{100 * covered(*found, window):.1f} %" for window in (4, 8))
            print(f"| {name} | -{level} | {size / 1e6:.2f} MB | {len(found[1])} | {shares} |", flush=True)


main()
