#!/usr/bin/env python3
"""Draw the pictures of docs/STUDY.md from the reports of `oncewire study --json`.

    study-figures.py OUT FIGURES

OUT holds http.json, release.json, public.json and day.json, as scripts/study.sh writes them; one SVG for each picture
goes into FIGURES. Only the standard library is needed. Curves are thinned to what can be seen at the size drawn.
"""

import json
import math
import re
import sys
from html import escape
from pathlib import Path

TRACES = {"http": "(a) HTTP mix", "release": "(b) release sync", "public": "(c) public captures", "day": "(d) arranged day"}
# Colors that color-blind people can distinguish (Okabe and Ito, 2008), dark enough on white.
COLORS = ["#0072b2", "#d55e00", "#009e73", "#b0579a", "#8a6d00", "#3a9fd8", "#444444", "#c99700"]
DASHES = ["", "6 3", "2 2", "8 3 2 3", "4 2", "10 4", "1 3", "6 2 2 2"]
WIDTH, HEIGHT = 720, 380
LEFT, TOP, BOTTOM = 66, 46, 52
# Curves are thinned as long as no point moves by more than this, in pixels.
TOLERANCE = 0.6


def number(value):
    """A coordinate, rounded to a tenth of a pixel."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def say(value, unit):
    """The label of an axis value."""
    if unit == "share":
        percent = value * 100
        return f"{percent:.0f} %" if percent >= 1 or percent == 0 else f"{percent:g} %"
    if unit == "seconds":
        for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1), ("ms", 1e-3), ("us", 1e-6)):
            if value >= size * 0.999:
                return f"{value / size:.3g} {name}"
        return "0" if value == 0 else f"{value:.0e} s"
    if unit in ("bytes", "bits-per-second"):
        suffix = "B" if unit == "bytes" else "bit/s"
        for name, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
            if value >= size * 0.999:
                return f"{value / size:.3g} {name}{suffix}"
        return f"{value:.3g} {suffix}"
    if unit == "count" and value >= 1e6:
        return f"{value / 1e6:g} million"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def said(size):
    """Bytes as a study writes them: three digits."""
    digits = max(0, 2 - int(math.log10(size)) % 3)
    for name, unit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= unit:
            return f"{size / unit:.{digits}f} {name}"
    return f"{size} B"


class Scale:
    """Maps values to pixels, and chooses the ticks."""

    def __init__(self, values, unit, log, start, end, zero=True):
        self.unit, self.log, self.start, self.end = unit, log, start, end
        values = [value for value in values if value is not None and (not log or value > 0)] or [0, 1]
        self.low, self.high = min(values), max(values)
        if log:
            self.high = self.high if self.high > self.low else self.low * 10
        else:
            self.low = min(self.low, 0) if zero else self.low
            self.high = self.high if self.high > self.low else self.low + 1
            if unit == "share" and self.high <= 1.0001:
                step = 0.2 if self.high > 0.5 else 0.1 if self.high > 0.2 else 0.02
                self.high = min(1.0, math.ceil(self.high / step - 1e-9) * step)
                self.low = math.floor(self.low / 0.1) * 0.1 if not zero else self.low
            elif not zero:
                step = self.step()
                self.low, self.high = math.floor(self.low / step) * step, math.ceil(self.high / step) * step
            else:
                step = self.step()
                self.high = math.ceil(self.high / step - 1e-9) * step

    def step(self):
        span = self.high - self.low
        if self.unit == "seconds":
            for step in (1, 2, 5, 10, 30, 60, 300, 600, 3600, 7200, 14400, 21600, 86400):
                if span / step <= 7:
                    return step
        rough = span / 6
        size = 10 ** math.floor(math.log10(rough))
        return next(step * size for step in (1, 2, 5, 10) if step * size >= rough)

    def __call__(self, value):
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        return self.start + (self.end - self.start) * (min(value, high) - low) / (high - low)

    def ticks(self):
        if not self.log:
            step = self.step()
            first = math.ceil(self.low / step - 1e-9)
            return [at * step for at in range(first, math.floor(self.high / step + 1e-9) + 1)]
        if self.unit == "seconds":
            known = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000, 86400000, 864000000]
        else:
            known = [10.0**power for power in range(-7, 13)]
        inside = [tick for tick in known if self.low * 0.999 <= tick <= self.high * 1.001]
        if len(inside) < 3:
            known = [base * 10.0**power for power in range(-7, 13) for base in (1, 2, 5)]
            inside = [tick for tick in known if self.low * 0.999 <= tick <= self.high * 1.001]
        return inside


def thin(points):
    """Ramer, Douglas and Peucker's thinning, without recursion."""
    if len(points) < 3:
        return points
    keep, stack = {0, len(points) - 1}, [(0, len(points) - 1)]
    while stack:
        first, last = stack.pop()
        (x0, y0), (x1, y1) = points[first], points[last]
        length = math.hypot(x1 - x0, y1 - y0)
        worst, where = 0.0, None
        for at in range(first + 1, last):
            x, y = points[at]
            if length:
                off = abs((x1 - x0) * (y0 - y) - (x0 - x) * (y1 - y0)) / length
            else:
                off = math.hypot(x - x0, y - y0)
            if off > worst:
                worst, where = off, at
        if worst > TOLERANCE:
            keep.add(where)
            stack += [(first, where), (where, last)]
    return [points[at] for at in sorted(keep)]


def steps(points):
    """A step-shaped path for a distribution. Merges steps too small to be visible."""
    path, level = [f"M{number(points[0][0])} {number(points[0][1])}"], points[0][1]
    for at, (x, y) in enumerate(points[1:], 1):
        if abs(y - level) >= TOLERANCE or at == len(points) - 1:
            path.append(f"H{number(x)}V{number(y)}")
            level = y
    return "".join(path)


def dots(points):
    """Dots, without those that overlap others."""
    seen, path = set(), []
    for x, y in points:
        cell = (round(x / 3), round(y / 3))
        if cell not in seen:
            seen.add(cell)
            path.append(f"M{number(x)} {number(y)}h0")
    return "".join(path)


def axis(label, unit, log=False, categories=(), zero=True):
    return {"label": label, "unit": unit, "log": log, "categories": list(categories), "zero": zero}


def series(name, points, right=False):
    return {"name": name, "points": [tuple(point) for point in points], "right": right}


def draw(title, kind, x, y, lines, right=None, marks=()):
    """One chart as the text of an SVG. `marks` are points (x, y, words) to be named."""
    lines = [line for line in lines if line["points"]]
    categories = x["categories"]
    legend, rows, at = [], 1, LEFT
    for line in lines:
        wide = 34 + 6.3 * len(line["name"])
        if at + wide > WIDTH - 10:
            rows, at = rows + 1, LEFT
        legend.append((at, rows))
        at += wide
    top = TOP + 18 * (rows - 1) + 12
    slanted = categories and max(map(len, categories)) * 6.2 > (WIDTH - LEFT - 20) / len(categories)
    bottom = HEIGHT - BOTTOM - (34 if slanted else 0)
    end = WIDTH - (66 if right else 22)
    height = [point[1] for line in lines for point in line["points"] if not line["right"]]
    if kind == "stacked-bars":
        height = [sum(dict(line["points"]).get(place, 0) for line in lines) for place in range(len(categories))]
    if kind == "bars" and y["log"]:
        # Room for the smallest.
        height.append(10.0 ** math.floor(math.log10(min(value for value in height if value > 0))))
    down = Scale(height, y["unit"], y["log"], bottom, top, y["zero"])
    if right:
        beside = Scale([p[1] for line in lines for p in line["points"] if line["right"]], right["unit"], False, bottom, top)
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        f'<text x="{LEFT}" y="22" font-size="14" font-weight="bold" fill="#222">{escape(title)}</text>',
    ]
    grid, labels = [], []
    for tick in down.ticks():
        at = number(down(tick))
        grid.append(f"M{LEFT} {at}H{end}")
        labels.append(f'<text x="{LEFT - 6}" y="{number(down(tick) + 4)}" text-anchor="end">{say(tick, y["unit"])}</text>')
    if right:
        for tick in beside.ticks():
            labels.append(f'<text x="{end + 6}" y="{number(beside(tick) + 4)}">{say(tick, right["unit"])}</text>')
    if categories:
        slot = (end - LEFT) / len(categories)
        for place, name in enumerate(categories):
            middle = LEFT + slot * (place + 0.5)
            if slanted:
                where = f'transform="translate({number(middle + 3)} {bottom + 14}) rotate(-32)" text-anchor="end"'
            else:
                where = f'x="{number(middle)}" y="{bottom + 17}" text-anchor="middle"'
            labels.append(f"<text {where}>{escape(name)}</text>")
    else:
        across = Scale([p[0] for line in lines for p in line["points"]], x["unit"], x["log"], LEFT, end, x["zero"])
        last = -math.inf
        for tick in across.ticks():
            if across(tick) - last < 34:
                continue
            last = across(tick)
            at = number(last)
            grid.append(f"M{at} {top}V{bottom}")
            labels.append(f'<text x="{at}" y="{bottom + 17}" text-anchor="middle">{say(tick, x["unit"])}</text>')
    svg.append(f'<path d="{"".join(grid)}" stroke="#e2e2e2" fill="none"/>')
    svg.append(f'<path d="M{LEFT} {top}V{bottom}H{end}" stroke="#666" fill="none"/>')
    svg.append(f'<g fill="#333" font-size="11">{"".join(labels)}</g>')
    middle = (top + bottom) / 2
    svg.append(f'<text x="{(LEFT + end) / 2}" y="{HEIGHT - 10}" text-anchor="middle" fill="#333">{escape(x["label"])}</text>')
    turn = f'transform="translate(14 {middle}) rotate(-90)"'
    svg.append(f'<text {turn} text-anchor="middle" fill="#333">{escape(y["label"])}</text>')
    if right:
        turn = f'transform="translate({WIDTH - 8} {middle}) rotate(-90)"'
        svg.append(f'<text {turn} text-anchor="middle" fill="#333">{escape(right["label"])}</text>')
    base = [0.0] * len(categories)
    for index, line in enumerate(lines):
        colour, dash = COLORS[index % len(COLORS)], DASHES[index % len(DASHES)]
        if kind in ("bars", "stacked-bars"):
            bars = []
            for place, value in line["points"]:
                place = int(place)
                if kind == "bars":
                    wide = slot * 0.8 / len(lines)
                    from_x, high = LEFT + slot * (place + 0.1) + wide * index, down(value)
                    low = bottom if y["log"] else down(0)
                else:
                    wide = slot * 0.6
                    from_x, low, high = LEFT + slot * (place + 0.2), down(base[place]), down(base[place] + value)
                    base[place] += value
                if abs(low - high) >= 0.05:
                    x0, x1 = number(from_x), number(from_x + wide)
                    bars.append(f"M{x0} {number(low)}V{number(high)}H{x1}V{number(low)}z")
            svg.append(f'<path d="{"".join(bars)}" fill="{colour}"/>')
        else:
            scale = beside if line["right"] else down
            points = [(across(px), scale(py)) for px, py in line["points"] if py is not None]
            style = f'stroke="{colour}" fill="none" stroke-width="1.8"'
            if kind == "points":
                svg.append(f'<path d="{dots(points)}" stroke="{colour}" stroke-width="4" stroke-linecap="round"/>')
            elif kind == "step":
                if not x["log"] and points[0][0] > LEFT:
                    points.insert(0, (LEFT, down(0)))
                points.append((end, points[-1][1]))
                svg.append(f'<path d="{steps(points)}" {style} stroke-dasharray="{dash}"/>')
            else:
                path = "L".join(f"{number(px)} {number(py)}" for px, py in thin(points))
                svg.append(f'<path d="M{path}" {style} stroke-dasharray="{dash}"/>')
        at, row = legend[index]
        over = TOP - 10 + 18 * (row - 1)
        if kind in ("bars", "stacked-bars"):
            svg.append(f'<rect x="{number(at)}" y="{over - 6}" width="20" height="10" fill="{colour}"/>')
        elif kind == "points":
            svg.append(f'<circle cx="{number(at + 10)}" cy="{over}" r="3" fill="{colour}"/>')
        else:
            dashed = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
            svg.append(f'<path d="M{number(at)} {over}h22" {dashed}/>')
        svg.append(f'<text x="{number(at + 27)}" y="{over + 4}" font-size="11" fill="#222">{escape(line["name"])}</text>')
    for px, py, words in marks:
        mx, my = number(across(px)), number(down(py))
        svg.append(f'<circle cx="{mx}" cy="{my}" r="4.5" fill="#fff" stroke="#222" stroke-width="1.5"/>')
        if words:
            svg.append(f'<text x="{number(across(px) + 7)}" y="{number(down(py) + 15)}" font-size="11" fill="#222">{escape(words)}</text>')
    return "\n".join(svg) + "\n</svg>\n"


class Report:
    """A report of `oncewire study --json`."""

    def __init__(self, path):
        self.document = json.loads(path.read_text())
        self.figures = {figure["id"]: figure for figure in self.document["figures"]}

    def chart(self, figure, name):
        return next(chart for chart in self.figures[figure]["charts"] if chart["id"] == name)

    def line(self, figure, chart, name):
        """The points of a series, or an empty list. Without directions, `total` is named `all`."""
        found = {line["name"]: line["points"] for line in self.chart(figure, chart)["series"]}
        return found.get(name) or found.get(name.replace("total", "all", 1), [])

    def table(self, figure, name):
        """The rows of a table, as dictionaries."""
        table = next(table for table in self.figures[figure]["tables"] if table["id"] == name)
        names = [column["name"] for column in table["columns"]]
        return [dict(zip(names, row)) for row in table["rows"]]


def total(report, figure, chart):
    """The series over all directions, or the only series."""
    lines = report.chart(figure, chart)["series"]
    return next((line["points"] for line in lines if line["name"] in ("total", "all", "savings")), lines[-1]["points"])


def pictures(reports):
    """Every picture: its name and the text of its SVG."""
    day = reports["day"]
    each = [(TRACES[name], report) for name, report in reports.items()]

    chosen = ["gzip", "gzip-10ms", "payload", "modp", "maxp", "fixed", "samplebyte", "chunk", "samplebyte-pairs", "re+gzip-10ms", "optimal"]
    chosen += ["oncewire-link", "oncewire-tunnel"]
    lines = []
    for name, report in each:
        rows = {row["algorithm"]: row["savings"] for row in report.table("algorithms", "savings")}
        lines.append(series(name, [(at, rows[key]) for at, key in enumerate(chosen) if rows.get(key) is not None]))
    yield "algorithms", draw("Savings by algorithm", "bars", axis("algorithm", "text", categories=chosen), axis("savings of all wire bytes", "share"), lines)

    chart = day.chart("periods", "periods")
    lines = [series(line["name"], line["points"]) for line in chart["series"]]
    yield "periods", draw("Savings by sampling period: the arranged day", "line", axis("sampling period", "bytes", log=True), axis("savings of all wire bytes", "share", zero=False), lines)

    lines, marks = [], []
    for name, report in each:
        points = total(report, "caches", "caches")
        lines.append(series(name, points))
        # Of this curve; the verdict's comes from another one, by distance.
        finding = next(figure["finding"] for figure in report.document["figures"] if figure["id"] == "caches")
        knee = re.match(r"The knee lies at ([^:]+):", finding)
        at = next((point for point in points if knee and said(point[0]) == knee[1]), None)
        if at:
            marks.append((at[0], at[1], f"knee {say(at[0], 'bytes')}"))
    yield "caches", draw("Savings by cache size, and the knee of each curve", "line", axis("cache of payload in each direction", "bytes", log=True), axis("savings of all wire bytes", "share"), lines, marks=marks)

    volume = day.chart("temporal", "volume")
    bins = {}
    for which in ("original", "reduced"):
        for at, value in day.line("temporal", "volume", which):
            bins.setdefault(int(at // 900), {}).setdefault(which, []).append(value)
    points = {which: [(at * 900 + 450, sum(b[which]) / len(b[which])) for at, b in sorted(bins.items()) if b.get(which)] for which in ("original", "reduced")}
    after = dict(points["reduced"])
    share = [(at, 1 - after[at] / value) for at, value in points["original"] if value]
    lines = [series("original", points["original"]), series("reduced", points["reduced"]), series("savings (right)", share, right=True)]
    yield "volume", draw("Volume and savings over the arranged day, means of 15 minutes", "line", axis(volume["x"]["label"], "seconds"), axis("volume", "bits-per-second"), lines, right=axis("savings", "share"))

    lines = [series(line["name"], line["points"]) for line in day.chart("temporal", "savings")["series"]]
    yield "buckets", draw("Savings of mean, median, 95th percentile and peak: the arranged day", "line", axis("width of buckets", "seconds", log=True), axis("savings", "share"), lines)

    lines = [series(line["name"], line["points"]) for line in day.chart("temporal", "burstiness")["series"]]
    yield "burstiness", draw("Burstiness before and after: the arranged day", "line", axis("time scale", "seconds", log=True), axis("log2 of wavelet energy", "number", zero=False), lines)

    names = [name for name, _ in each]
    def stacked(figure, chart):
        """The bars of all directions, of every trace."""
        shares = {}
        for place, (_, report) in enumerate(each):
            found = report.chart(figure, chart)
            where = found["x"]["categories"].index("total") if "total" in found["x"]["categories"] else len(found["x"]["categories"]) - 1
            for line in found["series"]:
                value = dict(map(tuple, line["points"])).get(where, 0)
                shares.setdefault(line["name"], []).append((place, value))
        return [series(name, points) for name, points in shares.items()]

    yield "origins", draw("Origins of redundancy", "stacked-bars", axis("trace", "text", categories=names), axis("share of savings", "share"), stacked("origins", "origins"))

    for chart, label in (("matches", "share of matches"), ("savings", "share of savings")):
        lines = [series(name, [p for p in total(report, "lengths", chart) if p[0] <= 1500]) for name, report in each]
        yield f"lengths-{chart}", draw(f"Lengths of matches: {label} no longer than that", "step", axis("length of match", "bytes"), axis(label, "share"), lines)

    lines = [series(name, total(report, "locality", "distance")) for name, report in each]
    yield "distance", draw("How far back the matched packet lies", "step", axis("distance as a share of the cache of 250 MB", "share"), axis("share of savings", "share"), lines)

    lines = [series(name, [p for p in report.line("locality", "chunks", "total") if 0 < p[0] <= 86400]) for name, report in each]
    lines += [series("(d), matched twice or more", [p for p in day.line("locality", "chunks", "total, matched twice or more") if p[0] > 0])]
    yield "chunks", draw("From the first to the last match of a chunk", "step", axis("time", "seconds", log=True), axis("share of chunks", "share"), lines)

    lines = [series(name, total(report, "hits", "ranks")) for name, report in each]
    yield "ranks", draw("Hits of chunks by rank", "points", axis("rank of the chunk by hits", "count", log=True), axis("hits", "count", log=True), lines)

    lines = [series(name, total(report, "replicated", "intervals")) for name, report in each]
    yield "replicated", draw("Replicated packets by window (Santos and Wetherall)", "step", axis("window: bytes of payload looked back", "bytes", log=True), axis("replicated share of volume", "share"), lines)

    lines = [series(f"(d) {line['name']}", line["points"]) for line in day.chart("hosts", "memory")["series"]]
    lines += [series(f"(c) {line['name']}", line["points"]) for line in reports["public"].chart("hosts", "memory")["series"]]
    yield "memory", draw("Memory for caches at the hosts", "step", axis("memory at a node", "bytes", log=True), axis("share of nodes", "share"), lines)

    lines = [series(f"{where}, {which}", report.line("destinations", "destinations", f"total, {which}")) for where, report in (("(c)", reports["public"]), ("(d)", day)) for which in ("all chunks", "repeated chunks")]
    yield "destinations", draw("Destination prefixes of a chunk of 64 bytes", "step", axis("destination prefixes", "count", log=True), axis("share of chunks", "share"), lines)

    yield "irreducible", draw("What the payload consists of", "stacked-bars", axis("trace", "text", categories=names), axis("share of payload", "share"), stacked("irreducible", "classes"))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    reports = {name: Report(source / f"{name}.json") for name in TRACES}
    target.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures(reports):
        file = target / f"study-{name}.svg"
        file.write_text(svg)
        print(f"{file.name}: {len(svg):,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
