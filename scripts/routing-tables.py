#!/usr/bin/env python3
"""Fill the tables of docs/ROUTING.md, and of docs/PROFILES.md beside it, from what
scripts/routing.sh left, and write them as CSV.

Usage: routing-tables.py OUT ROUTING.md FIGURES

A table stands between the lines <!-- NAME --> and <!-- end -->.
"""

import csv
import json
import pathlib
import re
import sys

OUT, DOCUMENT, FIGURES = (pathlib.Path(argument) for argument in sys.argv[1:4])


def read(name):
    path = OUT / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def percent(share, digits=1):
    return f"{100 * share:.{digits}f}"


def mean(values):
    return sum(values) / len(values)


def seattle(by, values):
    rows = []
    for value in values:
        document = read(f"seattle-{by}-{value}")
        if document:
            verdict, solution = document["verdict"], document["solution"]
            rows.append([
                f"{value} %", percent(verdict["shortest_reduction"]), percent(verdict["reduction"]),
                percent(solution["gap"], 2),
            ])
    name = "ρ inter" if by == "inter" else "ρ overall"
    return [name, "SP-RE %", "RA %", "gap %"], rows


def ingresses():
    document = read("ingresses-att")
    if not document:
        return None
    columns = {
        "SP-RE": sorted(one["shortest_reduction"] for one in document["ingresses"]),
        "RA": sorted(one["reduction"] for one in document["ingresses"]),
        "RA beyond SP-RE": sorted(
            one["reduction"] - one["shortest_reduction"] for one in document["ingresses"]
        ),
    }
    count = len(document["ingresses"])
    places = [0, 10, 25, 50, 75, 90, 100]
    rows = [
        [name] + [percent(values[min(count - 1, place * count // 100)]) for place in places]
        for name, values in columns.items()
    ]
    return [f"of {count} ingresses, %"] + [f"{place}th" for place in places], rows


def maps():
    rows = []
    for path in sorted(OUT.glob("map-*.json")):
        document = json.loads(path.read_text())
        each = document["ingresses"]
        gaps = sorted(one["gap"] for one in each)
        rows.append([
            document["network"]["name"], len(each),
            percent(mean([one["shortest_reduction"] for one in each])),
            percent(mean([one["reduction"] for one in each])),
            percent(mean([one["bound"] for one in each])),
            percent(gaps[-1], 2), percent(document["solution"]["repair"], 2),
        ])
    header = ["map", "ingresses", "SP-RE %", "RA %", "bound %", "worst gap %", "trees cost %"]
    return header, rows


def load():
    rows = []
    for rho in [20, 50]:
        for inter in [50, 100]:
            document = read(f"load-{rho}-{inter}-64")
            if not document:
                continue
            of = {one["name"]: one["utilization"] for one in document["schemes"]}
            base = of["LP-SP"]
            names = ["SP-Optimal", "LP-SP with RE", "RA-Heuristic", "RA"]
            solution = document["solution"]
            rows.append(
                [f"{rho} %, {inter} %"] + [percent(1 - of[name] / base) for name in names]
                + [percent(1 - solution["bound"] / base), percent(solution["gap"], 2),
                   solution["trees"]]
            )
    header = ["ρ, ρ inter", "SP-Optimal %", "LP-SP with RE %", "RA-Heuristic %", "RA %", "bound %",
              "gap %", "trees"]
    return header, rows


def few():
    rows = []
    for rho in [20, 50]:
        for inter in [50, 100]:
            for slices in [64, 8, 4, 2]:
                document = read(f"load-{rho}-{inter}-{slices}")
                if not document:
                    continue
                of = {one["name"]: one["utilization"] for one in document["schemes"]}
                solution = document["solution"]
                rows.append([
                    f"{rho} %, {inter} %", slices, percent(1 - of["RA"] / of["LP-SP"]),
                    percent(solution["gap"], 2), solution["trees"],
                ])
    header = ["ρ, ρ inter", "`--slices`", "RA %", "gap %", "trees"]
    return header, rows


def sweep():
    rows = []
    for path in sorted(OUT.glob("sweep-*.json")):
        cost, endpoints = path.stem.split("-")[1:]
        verdict = json.loads(path.read_text())["verdict"]
        rows.append([
            cost, "all" if endpoints == "0" else endpoints,
            percent(verdict["shortest_reduction"]), percent(verdict["reduction"]),
        ])
    return ["cost", "endpoints", "SP-RE %", "RA %"], rows


def crowd():
    path = OUT / "crowd.txt"
    if not path.exists():
        return None
    rows, intra = [], None
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if found := re.match(r"f, ρ 0.5, ([0-9.]+) of it inter", cells[0]):
            intra = f"{1 - float(found[1]):g}"
        elif len(cells) == 4 and cells[0] and cells[0][0].isdigit():
            rows.append([intra, *cells])
    return ["intra", "f", "no elimination", "elimination on LP-SP", "RA, stale"], rows


TABLES = {
    "seattle-inter": lambda: seattle("inter", [0, 25, 50, 75, 100]),
    "seattle-rho": lambda: seattle("rho", [10, 20, 30, 40, 50]),
    "ingresses": ingresses,
    "maps": maps,
    "load": load,
    "few": few,
    "sweep": sweep,
    "crowd": crowd,
}

texts = {path: path.read_text() for path in (DOCUMENT, DOCUMENT.with_name("PROFILES.md"))}
for name, make in TABLES.items():
    made = make()
    if not made or not made[1]:
        continue
    header, rows = made
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in [header, *rows]]
    lines.insert(1, "|" + "---|" * len(header))
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
    places = [path for path, text in texts.items() if pattern.search(text)]
    if len(places) != 1:
        sys.exit(f"{DOCUMENT}: {len(places)} places for the table {name}")
    with open(FIGURES / f"{places[0].stem.lower()}-{name}.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    filled = lambda found: found[1] + "\n".join(lines) + "\n" + found[2]
    texts[places[0]] = pattern.sub(filled, texts[places[0]])
for path, text in texts.items():
    path.write_text(text)
