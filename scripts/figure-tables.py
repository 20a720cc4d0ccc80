#!/usr/bin/env python3
"""Writes tables of figures into documents, from the CSV files of docs/figures.

Usage: scripts/figure-tables.py [--check]

A table of docs/NAME.md whose line before it is <!-- TABLE --> has the cells of
docs/figures/name-TABLE.csv. The tables <!-- link-CONTENT --> are the medians
that scripts/link.py --figures makes of docs/figures/link.csv. Scripts that
measure write these files. With --check, nothing is written: the exit status is
1 if a table differs from its file, or if a file has no table.
"""
import csv
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs/figures"
# Documents whose tables come from such files; those of kinds.csv have a script of their own.
DOCUMENTS = ["BENEFITS", "FLASH", "PERFORMANCE", "PROFILES", "ROUTING", "STUDY"]
TABLE = re.compile(r"^<!-- ([a-z0-9-]+) -->\n((?:\|.*\n)+)", re.MULTILINE | re.IGNORECASE)


def of_file(path):
    """The lines of a table without the second, which says how columns are aligned."""
    with open(path, newline="") as source:
        return ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in csv.reader(source)]


def of_link():
    """Names and lines of the tables of scripts/link.py."""
    command = [sys.executable, ROOT / "scripts/link.py", "--figures", FIGURES / "link.csv"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^(\w+), .*\n\n((?:\|.*\n)+)", text, re.MULTILINE)
    return {f"link-{name}": table.splitlines() for name, table in found}


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    link = {name: [lines[0], *lines[2:]] for name, lines in of_link().items()}
    faults = []
    for name in DOCUMENTS:
        path = ROOT / f"docs/{name}.md"
        files = {one.stem.removeprefix(f"{name.lower()}-"): one for one in FIGURES.glob(f"{name.lower()}-*.csv")}

        def table(found):
            file = files.pop(found[1], None)
            lines = of_file(file) if file else link.get(found[1])
            if lines is None:
                faults.append(f"{path.name}: there are no figures for the table {found[1]}")
                return found[0]
            return "\n".join([f"<!-- {found[1]} -->", lines[0], found[2].splitlines()[1], *lines[1:]]) + "\n"

        text = path.read_text()
        new = TABLE.sub(table, text)
        faults += [f"{one.name} has no table in {path.name}" for one in files.values()]
        if new != text and check:
            old = text.splitlines()
            at = next(at for at, (a, b) in enumerate(zip(old, new.splitlines())) if a != b)
            faults.append(f"{path.name}, line {at + 1}, differs from docs/figures: run scripts/figure-tables.py")
        elif new != text:
            path.write_text(new)
    if faults:
        sys.exit("\n".join(f"figure-tables: {fault}" for fault in faults))


if __name__ == "__main__":
    main()
