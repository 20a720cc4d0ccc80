#!/usr/bin/env python3
"""Measures all kinds of content of scripts/fetch-kinds.py, and prints docs/figures/kinds.csv.

Usage: scripts/kinds.py ONCEWIRE DIR [--runs N] [--pack | --only-pack] [--level N] [--entropy STAGES] [KIND...]

With --pack and without other options, the output is docs/figures/kinds.csv, from
which scripts/kinds-tables.py writes the tables of the documents.

Each kind is one run of `oncewire bench`, in which all programs take turns.
--pack also measures whole processes, `pack` beside `zstd -T0`, in turns;
--only-pack nothing else. --level is that of `pack`, which has its own otherwise.
Ratios are to `zstd -1 --long=31`: bytes, encoding speed, decoding speed. The
last line is the geometric mean without what was compressed before.
"""
import argparse
import csv
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

# With their titles in README.md.
KINDS = {
    "python": "Python tree, 3 releases",
    "framework": "JS framework, 3 releases",
    "kernel": "kernel images, 2 builds",
    "native": "native binaries, 3 releases",
    "wheels": "wheels with ELF, 3 releases",
    "libraries": "JS libraries, 2 releases each",
    "database": "database, before and after",
    "logs": "JSON logs",
    "manuals": "HTML manuals, 2 versions",
    "csource": "C source, 2 versions",
    "compressed": "packages in gzip and zip, sent twice",
}
NAMES = ["bytes", "encode", "decode"]


def bench(oncewire, files, entropy, runs):
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([oncewire, "bench", "--entropy", entropy, "--runs", str(runs), "--csv", out, *files], check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "figures.csv"), newline="") as source:
            rows = list(csv.DictReader(source))
    return {row["name"]: tuple(float(row[c]) for c in ("wire_bytes", "encode_cpu_median_s", "decode_cpu_median_s"))
            for row in rows}


def ratios(one, other):
    return one[0] / other[0], other[1] / one[1], other[2] / one[2]


def whole_processes(oncewire, files, runs, level):
    """Wall time and bytes of `pack` against `zstd -1 -T0 --long=31`, medians of turns; one file, as both take."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(files[0])) as work:
        whole, ours, theirs = (os.path.join(work, name) for name in ("whole", "whole.ow", "whole.zst"))
        with open(whole, "wb") as out:
            for file in files:
                with open(file, "rb") as source:
                    out.write(source.read())
        times = ([], [])
        for _ in range(runs + 1):
            for index, command in enumerate(([oncewire, "pack", *level, whole, "-o", ours],
                                             ["zstd", "-q", "-1", "-T0", "--long=31", whole, "-o", theirs])):
                for file in (ours, theirs)[index:index + 1]:
                    if os.path.exists(file):
                        os.remove(file)
                start = time.monotonic()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                times[index].append(time.monotonic() - start)
        medians = [statistics.median(t[1:]) for t in times]
        return os.path.getsize(ours) / os.path.getsize(theirs), medians[1] / medians[0]


def show(cells):
    return [f"{cell:.3f}" if i == 0 else f"{cell:.2f}" for i, cell in enumerate(cells)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oncewire")
    parser.add_argument("dir")
    parser.add_argument("kinds", nargs="*", default=[], choices=[*KINDS, []])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--only-pack", action="store_true")
    parser.add_argument("--level")
    parser.add_argument("--entropy", default="coded-3,coded-1")
    options = parser.parse_args()
    level = ["--level", options.level] if options.level else []
    options.pack |= options.only_pack
    stages = options.entropy.split(",") if not options.only_pack else []
    levels = [f"level{stage.removeprefix('coded-')}" for stage in stages]
    rivals = [] if options.only_pack else ["zstd3"]
    heads = [f"{candidate}_{name}" for candidate in [*levels, *rivals] for name in NAMES]
    heads += [f"{level}_to_zstd3_{name}" for level in levels for name in NAMES[:2]]
    heads += ["pack_bytes", "pack_speed"] if options.pack else []
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["kind", "title", "megabytes", *heads])
    columns = []
    for kind in options.kinds or KINDS:
        try:
            with open(os.path.join(options.dir, f"{kind}.list")) as source:
                files = source.read().splitlines()
        except OSError as error:
            sys.exit(f"kinds: {error}: scripts/fetch-kinds.py {options.dir} makes it")
        cells = []
        if not options.only_pack:
            rows = bench(options.oncewire, files, options.entropy, options.runs)
            fast, dense = (rows[f"zstd -{rival} --long=31, file"] for rival in (1, 3))
            ours = [next(row for name, row in rows.items() if name.startswith("oncewire") and name.endswith(stage))
                    for stage in stages]
            cells = [ratios(row, fast) for row in ours] + [ratios(dense, fast)]
            cells += [ratios(row, dense)[:2] for row in ours]
        if options.pack:
            cells.append(whole_processes(options.oncewire, files, options.runs, level))
        if kind != "compressed":
            columns.append(cells)
        size = sum(map(os.path.getsize, files)) / 1e6
        out.writerow([kind, KINDS[kind], f"{size:.0f}", *(text for cell in cells for text in show(cell))])
        sys.stdout.flush()
    mean = lambda values: math.exp(sum(map(math.log, values)) / len(values))
    means = [[mean(values) for values in zip(*column)] for column in zip(*columns)]
    out.writerow(["geometric mean", "", "", *(text for cells in means for text in show(cells))])


if __name__ == "__main__":
    main()
