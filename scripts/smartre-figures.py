#!/usr/bin/env python3
"""Draw the pictures of docs/SMARTRE.md and fill its tables from what `scripts/smartre.sh` measured.

    smartre-figures.py OUT DOCUMENT FIGURES

OUT holds the tables that `research/smartre` writes. In DOCUMENT, the text between `<!-- begin NAME -->` and
`<!-- end NAME -->` is replaced by the table of that name, and the text between `<!--v NAME-->` and `<!--/-->` by that
value. Values that are not in OUT stay. Needs only the standard library.
"""

import csv
import importlib.util
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

spec = importlib.util.spec_from_file_location("study_figures", Path(__file__).with_name("study-figures.py"))
pictures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pictures)
axis, draw, series = pictures.axis, pictures.draw, pictures.series

HEUR1, HEUR2, EDGE, HOP = "Heur1 (equal)", "Heur2 (distance)", "edge-only", "hop-by-hop"
SMARTRE, NOMEM, NOPROC, NOLIMITS, IDEAL = "SmartRE", "SmartRE-nomem", "SmartRE-noproc", "SmartRE, no limits", "Ideal"
ABLATION = [HEUR1, HEUR2, SMARTRE, NOMEM, NOPROC, IDEAL]
FOUR = [SMARTRE, EDGE, HOP, IDEAL]
# The thesis, tables 3.4, 3.5 and 3.1 (PoPs, seconds; routers, seconds).
TABLE_3_4 = {
    "Sprint": (0.145, 0.168, 0.264, 0.267, 0.274, 0.31),
    "AT&T": (0.138, 0.162, 0.244, 0.248, 0.262, 0.297),
    "NTT": (0.142, 0.167, 0.259, 0.264, 0.278, 0.31),
}
TABLE_3_5 = {
    (0.5, 0.5): (0.26, 0.12, 0.08, 0.31),
    (0.5, 0.75): (0.28, 0.18, 0.08, 0.31),
    (0.75, 0.75): (0.38, 0.27, 0.11, 0.42),
    (0.25, 0.5): (0.18, 0.05, 0.06, 0.20),
}
TABLE_3_1 = {
    "NTT": (70, 0.92, 350, 55.41),
    "Sprint": (52, 0.47, 260, 21.41),
    "Telstra": (44, 0.29, 220, 16.85),
    "Tiscali": (41, 0.21, 205, 11.05),
    "GÉANT": (22, 0.07, 110, 2.48),
    "Abilene": (11, 0.03, 55, 0.48),
}
FITTED = (0.3, 300.0)
CASES = [FITTED, (0.3, 1000.0), (1.0, 1000.0)]


def read(out, name):
    """The rows of a table, with numbers parsed."""

    def value(text):
        try:
            return float(text)
        except ValueError:
            return text

    with open(out / f"{name}.tsv", newline="", encoding="utf-8") as file:
        return [{key: value(text) for key, text in row.items()} for row in csv.DictReader(file, delimiter="\t")]


def table(head, rows, right=1):
    """A Markdown table; columns from index `right` on are numeric and right-aligned."""
    rule = ["---" if at < right else "---:" for at in range(len(head))]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, rule, *rows])


def three(value):
    return f"{value:.3f}"


def percent(value):
    return f"{100 * value:.0f} %"


def seconds(value):
    return f"{value:.2f} s" if value >= 0.995 else f"{1000 * value:.0f} ms" if value >= 0.0095 else f"{1000 * value:.1f} ms"


def case(load, packet):
    return f"{packet:.0f} bytes, load {load:g}"


def quantile(values, share):
    """A quantile, with linear interpolation between neighboring values."""
    values = sorted(values)
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def spread(values):
    return [three(quantile(values, share)) for share in (0, 0.1, 0.5, 0.9, 1)]


def distribution(values):
    values = sorted(values)
    return [(value, (at + 1) / len(values)) for at, value in enumerate(values)]


def span(values):
    return f"{min(values):.3f} - {max(values):.3f}"


class Results:
    """The output made from the measurements: tables, values and pictures by name."""

    def __init__(self, out):
        self.out, self.tables, self.values, self.pictures = out, {}, {}, {}

        self.skipped = []
        for part in (self.time, self.sweep, self.network, self.profiles, self.ingresses, self.memory, self.placement, self.crowds,
                     self.drift, self.trace, self.stale, self.rules, self.matches, self.networks,
                     self.encoders):
            try:
                part()
            except FileNotFoundError as error:
                self.skipped.append(Path(error.filename).name)

    def time(self):
        rows = read(self.out, "time")
        lines, plans = [], []
        for row in rows:
            thesis = TABLE_3_1.get(row["network"])
            level = "router" if row["access"] else "PoP"
            said = ""
            if thesis and not (row["network"] == "NTT" and row["pops"] != 70):
                said = f"{thesis[0 if level == 'PoP' else 2]}: {thesis[1 if level == 'PoP' else 3]:.2f} s"
            name = row["network"] + (f", reduced to {row['reduced']:.0f}" if row["reduced"] else "")
            peak = f"{row['rss_mb']:.0f} MB" if row["rss_mb"] != "" else ""
            lines.append(
                [name, level, f"{row['nodes']:.0f}", f"{row['paths']:,.0f}", f"{row['columns']:,.0f}", f"{row['priced']:.0f}",
                 seconds(row["instance_s"]), seconds(row["solve_s"]), f"{row['cpu_s']:.2f} s", f"{row['gap']:.0e}", peak, said]
            )
            if level == "router":
                plans.append(
                    [name, seconds(row["cold_s"]), seconds(row["few_s"]), row["few_method"], f"{row['few_gap']:.0e}",
                     seconds(row["all_s"]), row["all_method"], f"{row['all_gap']:.0e}"]
                )
            key = f"{name} {level}".replace(" ", "-").replace(",", "").lower()
            self.values[f"time-{key}"] = seconds(row["solve_s"])
        self.tables["time"] = table(
            ["network", "level", "nodes", "paths", "variables", "limits that bind", "instance", "plan", "CPU", "gap", "peak memory",
             "thesis: nodes, time"], lines, 2)
        self.tables["re-plan"] = table(
            ["network, router level", "from nothing", "1 % of paths by up to 5 %", "method", "gap", "all paths by up to 1 %", "method",
             "gap"], plans)

    def sweep(self):
        rows = read(self.out, "sweep")
        found = {(r["network"], r["intrapop"], r["intrapath"], r["packet"], r["load"], r["scheme"]): r["reduction"] for r in rows}
        fits = []
        for packet, load in sorted({(r["packet"], r["load"]) for r in rows}):
            at = lambda name, scheme, profile=(0.5, 0.5), packet=packet, load=load: found[name, *profile, packet, load, scheme]
            ablation = [at(name, scheme) - said for name, row in TABLE_3_4.items() for scheme, said in zip(ABLATION, row)]
            profiles = [at("Sprint", scheme, profile) - said for profile, row in TABLE_3_5.items() for scheme, said in zip(FOUR, row)]
            rms = lambda differences: (sum(d * d for d in differences) / len(differences)) ** 0.5
            fits.append((rms(ablation + profiles), rms(ablation), rms(profiles), packet, load, max(map(abs, ablation + profiles)), at))
        fits.sort(key=lambda fit: fit[0])
        nearest = fits[0]
        self.values["fit-packet"], self.values["fit-load"] = f"{nearest[3]:.0f}", f"{nearest[4]:g}"
        self.values["fit-rms"], self.values["fit-worst"] = three(nearest[0]), three(nearest[5])
        chosen = next(fit for fit in fits if (fit[4], fit[3]) == FITTED)
        self.values["chosen-rms"], self.values["chosen-worst"] = three(chosen[0]), three(chosen[5])
        columns = ABLATION + [EDGE, HOP]
        shown = fits[:6] + [fit for fit in fits[6:] if (fit[4], fit[3]) in CASES]
        lines = [[f"{packet:.0f}", f"{load:g}", three(both), three(one), three(two), three(worst)] + [three(at("Sprint", scheme)) for scheme in columns]
                 for both, one, two, packet, load, worst, at in shown]
        said = ["thesis", "", "", "", "", ""] + [three(value) for value in TABLE_3_4["Sprint"]] + ["0.12", "0.08"]
        self.tables["fit"] = table(["packet", "load", "both", "table 3.4", "table 3.5", "worst"] + columns, [said] + lines, 0)

        # Which limit costs more.
        lines = []
        loads = [0.1, 0.2, 0.3, 0.4, 0.6, 1.0]
        for load in loads:
            at = lambda packet, scheme, load=load: found["Sprint", 0.5, 0.5, packet, load, scheme]
            few = [200.0, 300.0, 500.0, 1000.0]
            lines.append([f"{load:g}"] + [f"{three(at(packet, SMARTRE))} ({three(at(packet, NOMEM))}, {three(at(packet, NOPROC))})" for packet in few]
                         + [three(at(packet, HOP)) for packet in few])
        self.tables["sensitivity"] = table(
            ["load"] + [f"SmartRE, {packet} bytes (nomem, noproc)" for packet in (200, 300, 500, 1000)]
            + [f"{HOP}, {packet}" for packet in (200, 300, 500, 1000)], lines)
        lines = []
        for packet in (200.0, 300.0, 500.0, 1000.0):
            every = sorted({r["load"] for r in rows})
            lines.append(series(f"SmartRE, {packet:.0f} bytes", [(load, found["Sprint", 0.5, 0.5, packet, load, SMARTRE]) for load in every]))
        for packet in (300.0, 1000.0):
            lines.append(series(f"{HOP}, {packet:.0f} bytes", [(load, found["Sprint", 0.5, 0.5, packet, load, HOP]) for load in every]))
        lines.append(series("Ideal", [(load, found["Sprint", 0.5, 0.5, 1000.0, load, IDEAL]) for load in every]))
        self.pictures["load"] = draw("Footprint reduction by load and size of packets: Sprint, 20 PoPs x 4", "line",
                                     axis("load: share of each ingress's rate", "number"), axis("reduction", "share"), lines)

    def network(self):
        rows = read(self.out, "network")
        found = {(r["network"], r["load"], r["packet"], r["access_links"], r["scheme"]): r for r in rows}
        names = list(dict.fromkeys(r["network"] for r in rows))
        get = lambda name, scheme, where=FITTED, access="false": found[name, *where, access, scheme]["reduction"]
        schemes = [HOP, EDGE, HEUR1, HEUR2, SMARTRE, IDEAL]
        lines = []
        for name in names:
            about = found[name, *FITTED, "false", SMARTRE]
            lines.append([name, f"{about['pops']:.0f}, 20 send", f"{about['links']:.2f}"] + [three(get(name, scheme)) for scheme in schemes]
                         + [percent(get(name, SMARTRE, where) / get(name, IDEAL, where)) for where in CASES])
        self.tables["isps"] = table(
            ["map", "PoPs", "links of a byte"] + schemes + [f"SmartRE / Ideal: {case(*where)}" for where in CASES], lines)
        self.pictures["isps"] = draw(
            f"Network-wide footprint reduction: 20 PoPs x 4, {case(*FITTED)}", "bars", axis("map", "text", categories=names), axis("reduction", "share"),
            [series(scheme, [(at, get(name, scheme)) for at, name in enumerate(names)]) for scheme in [HOP, EDGE, SMARTRE, IDEAL]])
        met = [name for name in names if 0.8 <= get(name, SMARTRE) / get(name, IDEAL)]
        self.values["pass-count"], self.values["isp-count"] = str(len(met)), str(len(names))
        self.values["pass-names"] = ", ".join(met)
        for name in names:
            self.values[f"factor-{name}"] = f"{get(name, SMARTRE) / get(name, HOP):.1f}"
            self.values[f"all-links-{name}"] = three(get(name, NOLIMITS, access="true"))
        self.values["factor-default"] = f"{get('Sprint', SMARTRE, CASES[1]) / get('Sprint', HOP, CASES[1]):.1f}"
        lines = []
        for name in names:
            said = TABLE_3_4.get(name)
            lines.append([f"{name}, 20 of {found[name, *FITTED, 'false', SMARTRE]['pops']:.0f} PoPs"]
                         + [three(get(name, scheme)) + (f" ({three(value)})" if value else "") for scheme, value in zip(ABLATION, said or [None] * 6)]
                         + [three(get(name, NOLIMITS))])
        self.tables["ablation"] = table(["map (the thesis's numbers)"] + ABLATION + [NOLIMITS], lines)
        lines = []
        for where in CASES:
            lines.append([case(*where)] + [three(get("Sprint", scheme, where)) for scheme in [HOP, EDGE, *ABLATION[:5], NOLIMITS, IDEAL]])
        self.tables["ablation-cases"] = table(["Sprint, 20 of 44 PoPs"] + [HOP, EDGE, *ABLATION[:5], NOLIMITS, IDEAL], lines)

    def profiles(self):
        rows = read(self.out, "profiles")
        found = {(r["intrapop"], r["intrapath"], r["load"], r["packet"], r["access_links"], r["scheme"]): r["reduction"] for r in rows}
        lines, access = [], []
        for profile, said in TABLE_3_5.items():
            get = lambda scheme, where, with_access="false": found[*profile, *where, with_access, scheme]
            lines.append([f"({profile[0]:g}, {profile[1]:g})"] + [f"{three(get(scheme, FITTED))} ({value:.2f})" for scheme, value in zip(FOUR, said)]
                         + [f"{three(get(SMARTRE, CASES[1]))}, {three(get(HOP, CASES[1]))}"])
            for label, scheme, value in (("SmartRE", SMARTRE, said[0]), ("SmartRE, no limits", NOLIMITS, None), ("Ideal", IDEAL, said[3])):
                access.append([f"({profile[0]:g}, {profile[1]:g})", label, f"{value:.2f}" if value else "", three(get(scheme, FITTED)), three(get(scheme, FITTED, "true"))])
        self.tables["profiles"] = table(
            ["(intrapop, intrapath), Sprint, 20 of 44 PoPs"] + [f"{scheme} (thesis)" for scheme in FOUR] + [f"SmartRE, {HOP} at {case(*CASES[1])}"], lines)
        self.tables["access"] = table(["profile", "scheme", "thesis", "links between PoPs count", "all links count"], access, 2)

    def ingresses(self):
        rows = read(self.out, "ingresses")
        groups = defaultdict(list)
        for row in rows:
            groups[row["gamma"], row["load"], row["packet"], row["scheme"]].append(row["reduction"])
        said = {(0.5, SMARTRE): "0.24 - 0.30", (0.25, SMARTRE): "0.12 - 0.15", (0.5, IDEAL): "median 0.04 above SmartRE", (0.5, HOP): "median a fifth of SmartRE"}
        lines = []
        for gamma in (0.25, 0.5):
            for where in CASES[:1] + CASES[2:]:
                for scheme in FOUR:
                    lines.append([f"{gamma:g}", case(*where), scheme] + spread(groups[gamma, *where, scheme]) + [said.get((gamma, scheme), "")])
        self.values["ingresses-50"] = span(groups[0.5, *FITTED, SMARTRE])
        self.values["ingresses-25"] = span(groups[0.25, *FITTED, SMARTRE])
        self.values["ingresses-gap"] = three(quantile(groups[0.5, *FITTED, IDEAL], 0.5) - quantile(groups[0.5, *FITTED, SMARTRE], 0.5))
        self.tables["ingresses"] = table(["gamma", "packets, load of the largest", "scheme", "least", "10 %", "median", "90 %", "most", "thesis"], lines, 3)
        for gamma in (0.25, 0.5):
            self.pictures[f"ingresses-{gamma * 100:.0f}"] = draw(
                f"Footprint reduction across Sprint's ingresses, gamma {gamma:g}, {case(*CASES[2])}", "step", axis("reduction", "share"), axis("share of ingresses", "share"),
                [series(scheme, distribution(groups[gamma, *CASES[2], scheme])) for scheme in [HOP, EDGE, SMARTRE, IDEAL]])

    def memory(self):
        rows = read(self.out, "memory")
        found = {(r["gigabytes"], r["load"], r["packet"], r["operations"]): r["reduction"] for r in rows}
        sizes = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
        lines = [[case(*where)] + [three(found[size, *where, "limited"]) for size in sizes] for where in CASES]
        self.tables["memory"] = table(["Sprint, 20 of 44 PoPs"] + [f"{size:g} GB" for size in sizes], lines)
        every = sorted({row["gigabytes"] for row in rows})
        self.pictures["memory"] = draw(
            "Footprint reduction by memory of interior devices: Sprint, 20 PoPs x 4", "line", axis("memory in GB", "number"), axis("reduction", "share"),
            [series(case(*where), [(size, found[size, *where, "limited"]) for size in every]) for where in CASES])
        gain = lambda where, low, high: found[high, *where, "limited"] - found[low, *where, "limited"]
        self.values["memory-beyond-4"] = three(gain(FITTED, 4.0, 10.0))
        self.values["memory-to-4"] = three(gain(FITTED, 0.0, 4.0))

    def placement(self):
        rows = read(self.out, "placement")
        curves = defaultdict(dict)
        for row in rows:
            curves[row["level"], row["strategy"]][int(row["devices"])] = row
        full = {level: max(curves[level, "paths"]) for level in ("router", "pop")}
        names = ["paths", "volume x distance", "redundancy x distance"]
        lines = []
        for count in [1, 2, 3, 5, 8, 10, 16, 20, 32, 48, full["router"]]:
            get = lambda level, name: three(curves[level, name][count]["reduction"]) if count in curves[level, name] else ""
            lines.append([count] + [get("router", name) for name in names] + [get("pop", name) for name in names + ["greedy", "optimal"]])
        self.tables["placement"] = table(["devices"] + [f"{name}, routers" for name in names] + [f"{name}, PoPs" for name in names + ["greedy", "optimal"]], lines, 0)
        self.values["placement-full"] = str(full["router"])
        self.values["placement-optimal-complete"] = "all" if all(r["complete"] == "true" for r in curves["pop", "optimal"].values()) else "not all"
        for level, extra in (("router", []), ("pop", ["greedy", "optimal"])):
            where = "four access routers per PoP" if level == "router" else "PoP level"
            self.pictures[f"placement-{level}"] = draw(
                f"Partial deployment: Sprint, 5 largest PoPs encode, {where}", "line", axis("links with devices", "number"), axis("reduction", "share"),
                [series(name, [(count, row["reduction"]) for count, row in sorted(curves[level, name].items())]) for name in names + extra])

    def crowds(self):
        rows = read(self.out, "crowds")
        groups = defaultdict(list)
        for row in rows:
            groups[row["crowd"], row["load"], row["packet"]].append(row)
        said = {"volume": ("0.26", "0.23 - 0.25"), "redundancy": ("0.14 - 0.15", "0.10 - 0.11")}
        lines = []
        for (crowd, load, packet), group in groups.items():
            of = lambda column: span([row[column] for row in group])
            lines.append([crowd, case(load, packet), of("fresh"), said[crowd][0], of("old"), of("old_buckets"), said[crowd][1], of("own_fresh"), of("own_old"), of("own_old_buckets")])
        self.tables["crowds"] = table(
            ["what rises", "packets, load before", "new plan", "thesis", "old plan, room used", "old plan, old buckets", "thesis", "crowd's own: new plan", "room used", "old buckets"], lines, 2)

    def drift(self):
        rows = read(self.out, "drift")
        groups = defaultdict(list)
        for row in rows:
            groups[row["load"], row["packet"], row["lag"]].append(row)
        mean = lambda values: sum(values) / len(values)
        lines = []
        for (load, packet, lag), group in sorted(groups.items(), key=lambda item: (CASES.index(item[0][:2]), item[0][2])):
            loss = lambda column: [row["fresh"] - row[column] for row in group]
            lines.append([case(load, packet), f"{lag:.0f} min", three(mean([row["fresh"] for row in group]))]
                         + [value for column in ("old", "old_buckets") for value in (three(mean(loss(column))), three(max(loss(column))))])
        self.tables["drift"] = table(["Sprint, 20 of 44 PoPs", "age of the plan", "new plan", "room used: mean loss", "worst", "old buckets: mean loss", "worst"], lines, 2)

    def trace(self):
        facts = {row["trace"]: row for row in read(self.out, "trace-facts")}
        groups, predictions, last, broken = defaultdict(list), defaultdict(list), defaultdict(list), 0
        for row in read(self.out, "trace"):
            groups[row["trace"], row["scheme"]].append(row["emulated"])
            predictions[row["trace"], row["scheme"]].append(row["predicted"])
            last[row["trace"], row["scheme"]].append(row["predicted_last"])
            broken += row["undecodable"]
        lines = []
        for name, fact in facts.items():
            for scheme in [SMARTRE, "SmartRE, last copies", EDGE, HOP, IDEAL, "Ideal, larger caches"]:
                predicted = [quantile(values[name, scheme], 0.5) for values in (predictions, last)]
                predicted = [three(value) if value == value else "" for value in predicted]
                lines.append([name, scheme] + spread(groups[name, scheme]) + predicted)
            self.pictures[f"trace-{name.replace(' ', '-')}"] = draw(
                f"Emulated footprint reduction across Sprint's ingresses: what leaves the {name}", "step", axis("reduction", "share"), axis("share of ingresses", "share"),
                [series(scheme, distribution(groups[name, scheme])) for scheme in [HOP, EDGE, SMARTRE, IDEAL]])
            factors = [a / b for a, b in zip(groups[name, SMARTRE], groups[name, HOP])]
            self.values[f"trace-twice-{name.replace(' ', '-')}"] = str(sum(factor >= 2 for factor in factors))
            self.values[f"trace-less-{name.replace(' ', '-')}"] = str(sum(factor < 1 for factor in factors))
            self.values["trace-ingresses"] = str(len(factors))
            self.values["trace-most"] = f"{max(factors):.1f}" if name == "site" else self.values["trace-most"]
            ratio = sum(a / b for a, b in zip(groups[name, SMARTRE], groups[name, IDEAL])) / len(groups[name, IDEAL])
            self.values[f"trace-share-{name.replace(' ', '-')}"] = percent(ratio)
        self.tables["trace"] = table(["leaves the", "scheme", "least", "10 %", "median", "90 %", "most", "median by the planner", "by matches with the last copy"], lines, 2)
        self.tables["trace-facts"] = table(["leaves the", "packets", "bytes", "hours of the day", "redundancy", "epochs"],
                                           [[name, f"{f['packets']:,.0f}", f"{f['bytes'] / 1e6:.1f} MB", f"{f['seconds'] / 3600:.1f}", percent(f["redundancy"]), f"{f['epochs']:.0f}"] for name, f in facts.items()])
        self.values["trace-broken"] = f"{broken:.0f}"

    def rules(self):
        saved, order = defaultdict(list), []
        for row in read(self.out, "rules"):
            place = row["content"], row["trace"]
            if place not in order:
                order.append(place)
            saved[place, row["rules"]].append(row["emulated"])
        schemes = list(dict.fromkeys(scheme for _, scheme in saved))
        heading = [f"{content}, {trace}" for content, trace in order]
        of_ideal = lambda place, scheme: mean([a / b for a, b in zip(saved[place, scheme], saved[place, IDEAL])])
        below = lambda place, scheme: sum(a < b for a, b in zip(saved[place, scheme], saved[place, HOP]))
        lines = [[scheme] + [percent(of_ideal(place, scheme)) for place in order]
                 + [" ".join(str(below(place, scheme)) for place in order) if not scheme.startswith((HOP, IDEAL)) else ""] for scheme in schemes]
        self.tables["rules"] = table(["rules"] + heading + ["ingresses below hop-by-hop"], lines, 1)
        self.values["rules-ingresses"] = str(len(saved[order[0], IDEAL]))

    def stale(self):
        """Means over ingresses; the published rules and one hour are the thesis's."""
        groups, order = defaultdict(lambda: defaultdict(list)), []
        for row in read(self.out, "stale"):
            place = row["trace"], row["rules"]
            if place not in order:
                order.append(place)
            groups[place][row["lag"]].append(row["reduction"])
        lags = [0.0, 1.0, 2.0, 3.0, 4.0]
        lines = []
        for trace, rules in order:
            group = groups[trace, rules]
            fresh = groups[trace, ", ".join(rules.split(", ")[:2])][0.0]
            kept = percent(mean(group[1.0]) / mean(fresh)) if group[1.0] else ""
            lines.append([trace, rules] + [three(mean(group[lag])) if group[lag] else "" for lag in [*lags, "day"]] + [kept])
            if group["Ideal"]:
                self.values[f"stale-ideal-{trace.replace(' ', '-')}"] = three(mean(group["Ideal"]))
        self.tables["stale"] = table(["leaves the", "rules, queues, hours in a plan", "profile of the same epoch"]
                                     + [f"{lag:.0f} old" for lag in lags[1:]] + ["mean of the day", "1 old keeps"], lines, 2)
        published = [groups[place] for place in order if place[1] == "published"]
        for name, lag in (("fresh", 0.0), ("hour", 1.0), ("day", "day")):
            self.values[f"stale-{name}"] = span([value for group in published for value in group[lag]])

    def matches(self):
        groups, order = defaultdict(dict), []
        for row in read(self.out, "matches"):
            place = row["content"], row["trace"]
            if place not in order:
                order.append(place)
            limit = ("fingerprints", row["fingerprints"]) if row["fingerprints"] != "all" else ("matches", row["matches"])
            groups[limit][place] = row["redundancy"]
        thesis = {("fingerprints", 32.0): "17.3 %", ("fingerprints", 16.0): "15.8 %", ("fingerprints", 10.0): "14.67 %",
                  ("matches", 1.0): "24.1 %", ("matches", 2.0): "31.6 %", ("matches", 3.0): "34.6 %", ("matches", 4.0): "34.7 %", ("matches", 5.0): "34.8 %"}
        lines = [[f"{most:.0f} {what}", thesis.get((what, most), "")] + [f"{100 * group[place]:.1f} %" for place in order]
                 for (what, most), group in groups.items()]
        self.tables["matches"] = table(["at most in a packet", "thesis"] + [f"{content}, {trace}" for content, trace in order], lines, 1)

    def networks(self):
        groups = defaultdict(dict)
        for row in read(self.out, "networks"):
            groups[row["trace"], row["network"]][row["rules"]] = row
        lines = [[trace, name, f"{group['precise']['ingresses']:.0f}", *(f"{100 * group[rules]['emulated']:.1f} %" for rules in ("published", "precise"))]
                 for (trace, name), group in groups.items()]
        thesis = {"site": "13 %", "web servers": "20 %"}
        for trace in dict.fromkeys(trace for trace, _ in groups):
            of = lambda rules, trace=trace: mean([group[rules]["emulated"] for (at, _), group in groups.items() if at == trace])
            lines.append([trace, f"mean (thesis: {thesis[trace]})", "", *(f"{100 * of(rules):.1f} %" for rules in ("published", "precise"))])
        self.tables["networks"] = table(["leaves the", "network", "ingresses", "published rules", "precise rules"], lines, 2)

    def encoders(self):
        lines = [[f"{row['encoders']:.0f}", *(three(row[name]) for name in ("reduction", "own", "traffic"))] for row in read(self.out, "encoders")]
        self.tables["encoders"] = table(["PoPs that encode", "of the whole footprint", "of their own", "their share of the footprint"], lines)


def fill(document, results):
    text = document.read_text(encoding="utf-8")
    known = set(re.findall(r"<!-- begin ([\w-]+) -->", text))
    if missing := set(results.tables) - known:
        sys.exit(f"{document} has no marks for {', '.join(sorted(missing))}")

    def put(match):
        name = match.group(1)
        if name not in results.tables and results.skipped:
            return match.group(0)
        if name not in results.tables:
            sys.exit(f"{document} refers to {name}, which does not exist")
        return f"<!-- begin {name} -->\n{results.tables[name]}\n<!-- end {name} -->"

    def value(match):
        name = match.group(1)
        if name not in results.values and results.skipped:
            return match.group(0)
        if name not in results.values:
            sys.exit(f"{document} refers to the value {name}, which does not exist; values: {', '.join(sorted(results.values))}")
        return f"<!--v {name}-->{results.values[name]}<!--/-->"

    text = re.sub(r"<!-- begin ([\w-]+) -->.*?<!-- end \1 -->", put, text, flags=re.DOTALL)
    text = re.sub(r"<!--v ([^ ]+?)-->.*?<!--/-->", value, text)
    document.write_text(text, encoding="utf-8")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    out, document, figures = map(Path, sys.argv[1:])
    results = Results(out)
    if results.skipped:
        print(f"not measured and left unchanged: {', '.join(results.skipped)}", file=sys.stderr)
    fill(document, results)
    figures.mkdir(parents=True, exist_ok=True)
    for name, svg in results.pictures.items():
        (figures / f"smartre-{name}.svg").write_text(svg, encoding="utf-8")
        print(f"smartre-{name}.svg: {len(svg):,} bytes", file=sys.stderr)


main()
