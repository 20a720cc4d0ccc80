#!/usr/bin/env python3
"""Draw the pictures of docs/BENEFITS.md from its tables, docs/figures/benefits-*.csv.

    benefits-figures.py [--check]

With --check, nothing is written: the exit status is 1 if a picture differs from its table. Needs only the standard library.
"""
import csv
import importlib.util
import sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("study_figures", Path(__file__).with_name("study-figures.py"))
drawing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(drawing)
axis, draw, series = drawing.axis, drawing.draw, drawing.series
FIGURES = Path(__file__).resolve().parent.parent / "docs/figures"
UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def read(name):
    """The head of a table, and its rows."""
    with open(FIGURES / f"benefits-{name}.csv", newline="") as file:
        head, *rows = csv.reader(file)
    return head, rows


def share(text):
    return float(text.removesuffix(" %")) / 100


def cost(cell):
    """Bytes and seconds of a cell such as `8.92 kB, 1.67 s`."""
    amount, unit, seconds, _ = cell.replace(",", "").split()
    return float(amount) * UNITS[unit], float(seconds)


def bars(values):
    return list(enumerate(values))


def transactions():
    head, rows = read("transactions")
    gains = {row[0]: [share(cell) for cell in row[1:]] for row in rows[1:]}
    names = [("EndRE, about 30 % repeat", "EndRE, Table 5"), ("Oncewire, 30 % repeat", "Oncewire"), ("ssh -C, 30 % repeat", "ssh -C"),
             ("gzip proxy, 30 % repeat", "gzip proxy"), ("zstd relay, 30 % repeat", "zstd relay")]
    lines = [series(name, bars(gains[row])) for row, name in names]
    return draw("Latency gain of transactions, 30 % of which repeats", "bars",
                axis("round trips without the tunnel", "text", categories=head[1:]), axis("part of the time that goes away", "share"), lines)


def martynov():
    head, rows = read("martynov")
    lines = [series(name, bars(1 + float(row[at]) for row in rows)) for at, name in enumerate(head) if at > 0]
    return draw("Effective throughput of a long transfer beside the link's rate", "bars",
                axis("link: Mbit/s and round trip; 1 is a full link without compression (Martynov's benefit, plus 1)", "text",
                     categories=[row[0].replace(" Mbit/s", "") for row in rows]),
                axis("times the link's rate", "number", log=True), lines)


def clients():
    """Package managers, git, images and pages: bytes and seconds beside direct."""
    found = {}
    for row in read("clients")[1]:
        direct, first, second = (cost(cell) for cell in row[1:4])
        name = row[0].split(",")[0]
        if "next version" in row[0]:
            found[name.split()[0]]["next version"] = (direct, first)
        else:
            found[name.split()[0]] = {"first time": (direct, first), "again": (direct, second)}
    for row in read("packages")[1]:
        found.setdefault(row[0].split()[-1], {})[row[1]] = tuple(map(cost, row[2:4]))
    for row in read("pages")[1]:
        if row[1].startswith("100"):
            found.setdefault("page", {})[row[0]] = tuple(map(cost, row[2:4]))
    return found


def beside_direct(title, label, at, log):
    found = clients()
    lines = [series(what, [(place, of[what][1][at] / of[what][0][at]) for place, of in enumerate(found.values()) if what in of])
             for what in ("first time", "again", "next version")]
    return draw(title, "bars", axis("client, at 100 Mbit/s and 20 ms", "text", categories=list(found)), axis(label, "share", log=log), lines)


def cpu():
    head, rows = read("cpu")
    lines = [series(row[0], bars(float(cell) for cell in row[1:])) for row in rows]
    return draw("CPU time of both ends and the client, at 100 Mbit/s and 20 ms", "bars", axis("way", "text", categories=head[1:]),
                axis("ms for a delivered MB", "number"), lines)


PICTURES = {
    "transactions": transactions,
    "throughput": martynov,
    "bytes": lambda: beside_direct("Bytes through the tunnel beside direct", "share of the bytes", 0, True),
    "seconds": lambda: beside_direct("Seconds through the tunnel beside direct", "share of the time", 1, False),
    "cpu": cpu,
}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    for name, make in PICTURES.items():
        path, text = FIGURES / f"benefits-{name}.svg", make()
        if not sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.name} is not what its table says: run {Path(__file__).name}")


if __name__ == "__main__":
    main()
