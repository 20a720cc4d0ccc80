#!/usr/bin/env python3
"""Writes the tables of the kinds of content in README.md and docs/PERFORMANCE.md from docs/figures/kinds.csv.

Usage: scripts/kinds-tables.py [--check]

The file has the ratios that scripts/kinds.py measured. With --check, nothing is
written: the exit status is 1 if a document differs from the file, or if a
geometric mean is not that of its column.
"""
import csv
import math
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FIGURES = "docs/figures/kinds.csv"
MEAN = "geometric mean"
# Not in the means.
COMPRESSED = "compressed"
# Columns of PERFORMANCE.md, and the ratios of each.
COLUMNS = {
    "level 3": ("level3", ["bytes", "encode", "decode"]),
    "level 1": ("level1", ["bytes", "encode", "decode"]),
    "zstd -3 --long=31": ("zstd3", ["bytes", "encode", "decode"]),
    "level 3 to zstd -3": ("level3_to_zstd3", ["bytes", "encode"]),
    "level 1 to zstd -3": ("level1_to_zstd3", ["bytes", "encode"]),
    "pack, wall": ("pack", ["bytes", "speed"]),
}


def ratios(row, candidate, names=("bytes", "encode", "decode")):
    return [row[f"{candidate}_{name}"] for name in names]


def line(cells):
    return "| " + " | ".join(cells) + " |"


def performance(rows):
    lines = [line(["kind", "MB", *COLUMNS]), "|---|---:|" + "---|" * len(COLUMNS)]
    for row in rows:
        mark = "**" if row["kind"] == MEAN else ""
        cells = [f"{mark}{' '.join(ratios(row, *column))}{mark}" for column in COLUMNS.values()]
        lines.append(line([f"{mark}{row['kind']}{mark}", row["megabytes"], *cells]).replace("|  |", "| |"))
    return lines


def readme(rows):
    """Two kinds a line, the compressed one last, and the means."""
    mean = next(row for row in rows if row["kind"] == MEAN)
    cells = [[row["title"], *ratios(row, "level3")] for row in rows if row["kind"] != MEAN]
    names = {"zstd3": "`zstd -3 --long=31`", "level3": "level 3", "level1": "level 1"}
    cells += [[f"**{MEAN}**, {name}", *ratios(mean, candidate)] for candidate, name in names.items()]
    lines = [line(["kind", "B", "E", "D"] * 2), "|---|---:|---:|---:|---|---:|---:|---:|"]
    return lines + [line(left + right) for left, right in zip(cells[::2], cells[1::2], strict=True)]


# Each with the first line of its table.
DOCUMENTS = {
    "README.md": ("| kind | B | E | D |", readme),
    "docs/PERFORMANCE.md": ("| kind | MB | level 3 |", performance),
}


def wrong_means(rows):
    """Columns whose last row is not the geometric mean of the others, by more than rounding."""
    mean = next(row for row in rows if row["kind"] == MEAN)
    kinds = [row for row in rows if row["kind"] not in (COMPRESSED, MEAN)]
    for column in list(mean)[3:]:
        found = math.exp(sum(math.log(float(row[column])) for row in kinds) / len(kinds))
        unit = 10.0 ** -len(mean[column].split(".")[1])
        if abs(found - float(mean[column])) > unit:
            yield f"{FIGURES}: the mean of {column} is {found:.4f}, not {mean[column]}"


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    with open(os.path.join(ROOT, FIGURES), newline="") as source:
        rows = list(csv.DictReader(source))
    faults = list(wrong_means(rows))
    for document, (first, table) in DOCUMENTS.items():
        path = os.path.join(ROOT, document)
        with open(path) as source:
            text = source.read()
        pattern = re.compile(rf"^{re.escape(first)}[^\n]*\n(?:\|[^\n]*\n)+", re.MULTILINE)
        new, count = pattern.subn(lambda _: "\n".join(table(rows)) + "\n", text)
        if count != 1:
            faults.append(f"{document} has {count} tables that begin with {first!r}")
        elif new != text and check:
            faults.append(f"{document}: the table differs from {FIGURES}: run scripts/kinds-tables.py")
        elif new != text:
            with open(path, "w") as target:
                target.write(new)
    if faults:
        sys.exit("\n".join(f"kinds-tables: {fault}" for fault in faults))


if __name__ == "__main__":
    main()
