#!/usr/bin/env python3
"""Writes the tables of docs/PERFORMANCE.md from the CSV files of scripts/figures.sh.

Usage: scripts/performance-tables.py FIGURES [docs/PERFORMANCE.md]
"""
import csv
import re
import sys

LONG, LZ4, COPY = "zstd -1 --long=31, file", "lz4 (lz4_flex), each block", "copy + xxh3 (the floor)"
# Heading, CSV file, the program that ratios compare with, and its short name.
TABLES = [
    ("Django, 64 KiB blocks", "django-64K", LONG, "zstd -1 --long=31"),
    ("Django, 64 KiB blocks, p = 64, no entropy stage", "django-64K-p64", LZ4, "lz4"),
    ("Django, 16 KiB blocks", "django-16K", LONG, "zstd -1 --long=31"),
    ("Django, packets (1,448 bytes)", "django-packets", LONG, "zstd -1 --long=31"),
    ("TypeScript, 64 KiB blocks", "typescript-64K", LONG, "zstd -1 --long=31"),
    ("TypeScript, 64 KiB blocks, p = 64, no entropy stage", "typescript-64K-p64", LZ4, "lz4"),
    ("TypeScript, 16 KiB blocks", "typescript-16K", LONG, "zstd -1 --long=31"),
    ("TypeScript, packets (1,448 bytes)", "typescript-packets", LONG, "zstd -1 --long=31"),
    ("Four, sent twice", "four-repeat", LONG, "zstd -1 --long=31"),
    ("Random, sent twice", "random-repeat", COPY, "copy"),
]


def table(file, base, against):
    with open(file, newline="") as source:
        rows = list(csv.DictReader(source))
    bases = {row["pass"]: row for row in rows if row["name"] == base}
    whole = next(float(row["wire_bytes"]) / (1 - float(row["savings"])) for row in rows if row["name"] == COPY)
    lines = [
        f"| | pass | bytes | savings | encode MB/s | decode MB/s | bytes vs {against} | speed vs {against} |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        other = bases[row["pass"]]
        encode, decode = float(row["encode_cpu_median_s"]), float(row["decode_cpu_median_s"])
        cells = [
            row["name"],
            row["pass"],
            f"{int(row['wire_bytes']):,}",
            f"{100 * float(row['savings']):.2f} %",
            f"{whole / encode / 1e6:,.0f}",
            f"{whole / decode / 1e6:,.0f}",
            f"{int(row['wire_bytes']) / int(other['wire_bytes']):.3f}",
            f"{float(other['encode_cpu_median_s']) / encode:.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    figures, document = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "docs/PERFORMANCE.md"
    with open(document) as source:
        text = source.read()
    for heading, name, base, against in TABLES:
        pattern = re.compile(rf"(### {re.escape(heading)}\n\n)(?:\|[^\n]*\n)+")
        text, count = pattern.subn(lambda found: found[1] + table(f"{figures}/{name}/figures.csv", base, against) + "\n", text)
        assert count == 1, f"{document} has {count} tables named {heading!r}"
    with open(document, "w") as target:
        target.write(text)


main()
