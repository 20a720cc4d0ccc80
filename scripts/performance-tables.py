#!/usr/bin/env python3
"""Writes docs/figures/performance-NAME.csv, and with them the tables of docs/PERFORMANCE.md.

Usage: scripts/performance-tables.py FIGURES

FIGURES is the folder that scripts/figures.sh has filled.
"""
import csv
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

LONG, LZ4, COPY = "zstd -1 --long=31, file", "lz4 (lz4_flex), each block", "copy + xxh3 (the floor)"
# CSV file, the program that ratios compare with, and its short name.
TABLES = [
    ("django-64K", LONG, "zstd -1 --long=31"),
    ("django-64K-p64", LZ4, "lz4"),
    ("django-16K", LONG, "zstd -1 --long=31"),
    ("django-packets", LONG, "zstd -1 --long=31"),
    ("typescript-64K", LONG, "zstd -1 --long=31"),
    ("typescript-64K-p64", LZ4, "lz4"),
    ("typescript-16K", LONG, "zstd -1 --long=31"),
    ("typescript-packets", LONG, "zstd -1 --long=31"),
    ("four-repeat", LONG, "zstd -1 --long=31"),
    ("random-repeat", COPY, "copy"),
]


def table(file, base, against):
    with open(file, newline="") as source:
        rows = list(csv.DictReader(source))
    bases = {row["pass"]: row for row in rows if row["name"] == base}
    whole = next(float(row["wire_bytes"]) / (1 - float(row["savings"])) for row in rows if row["name"] == COPY)
    lines = [["", "pass", "bytes", "savings", "encode MB/s", "decode MB/s", f"bytes vs {against}", f"speed vs {against}"]]
    for row in rows:
        other = bases[row["pass"]]
        encode, decode = float(row["encode_cpu_median_s"]), float(row["decode_cpu_median_s"])
        lines.append([
            row["name"],
            row["pass"],
            f"{int(row['wire_bytes']):,}",
            f"{100 * float(row['savings']):.2f} %",
            f"{whole / encode / 1e6:,.0f}",
            f"{whole / decode / 1e6:,.0f}",
            f"{int(row['wire_bytes']) / int(other['wire_bytes']):.3f}",
            f"{float(other['encode_cpu_median_s']) / encode:.2f}",
        ])
    return lines


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, base, against in TABLES:
        with open(ROOT / f"docs/figures/performance-{name.lower()}.csv", "w", newline="") as target:
            csv.writer(target, lineterminator="\n").writerows(table(f"{sys.argv[1]}/{name}/figures.csv", base, against))
    subprocess.run([ROOT / "scripts/figure-tables.py"], check=True)


main()
