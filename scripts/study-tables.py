#!/usr/bin/env python3
"""Writes the tables of docs/STUDY.md as CSV files, from what scripts/study.sh measured.

Usage: scripts/study-tables.py OUT [FIGURES]

OUT is study.sh's directory. Tables go to FIGURES, by default docs/figures, as
study-NAME.csv; scripts/figure-tables.py then writes them into the document.
study-findings.csv is not made anew: its measured column is replaced, and what
people concluded from it stays, to be read again.

Needs only Python 3.11's standard library.
"""
import csv
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The traces of the document: letter, name in its tables, file of study.sh.
TRACES = {"a": ("HTTP mix", "http"), "b": ("release sync", "release"), "c": ("public captures", "public"), "d": ("arranged day", "day")}


def percent(value, digits=1):
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def size(value):
    """Bytes in decimal units, three digits."""
    if value is None:
        return "–"
    for unit in ["B", "kB", "MB", "GB"]:
        if value < 999.5 or unit == "GB":
            digits = 0 if unit == "B" else max(0, 2 - int(math.log10(max(value, 1))))
            return f"{value:.{digits}f} {unit}"
        value /= 1000


class Trace:
    """A study's report."""

    def __init__(self, out, name):
        self.report = json.loads((out / f"{name}.json").read_text())
        self.cost = re.findall(r"[\d.]+", (out / f"{name}.cost").read_text())
        self.figures = {figure["id"]: figure for figure in self.report["figures"]}

    def value(self, figure, table, column, **where):
        """The cell of a column, in the row in which other columns have these values; None if there is no such row."""
        table = next(one for one in self.figures[figure]["tables"] if one["id"] == table)
        names = [one if isinstance(one, str) else one["name"] for one in table["columns"]]
        wanted = {names.index(name.replace("_", " ")): value for name, value in where.items()}
        found = [row for row in table["rows"] if all(row[at] == value for at, value in wanted.items())]
        if not found and where.get("direction") == "total":
            # Where one direction has such content, there is no sum.
            del wanted[names.index("direction")]
            found = [row for row in table["rows"] if all(row[at] == value for at, value in wanted.items())]
            found = found if len(found) == 1 else []
        return found[0][names.index(column)] if found else None

    def saves(self, algorithm, column="savings"):
        return self.value("algorithms", "savings", column, algorithm=algorithm)

    def knee(self):
        found = re.match(r"The knee lies at ([\d.]+ \w+):", self.figures["caches"]["finding"])
        return found[1] if found else "–"

    def period(self, sampler, period, column="savings"):
        return self.value("periods", "periods", column, sampler=sampler, period=period)

    def origin(self, *origins):
        return sum(self.value("origins", "origins", "share of savings", origin=one, direction="total") for one in origins)

    def lengths(self, column):
        """Of matches shorter than 150 bytes."""
        short = ["1 to 50", "51 to 99", "100 to 149"]
        return sum(self.value("lengths", "lengths", column, direction="total", length_in_bytes=one) for one in short)

    def covers(self, column, *kinds):
        return sum(self.value("lengths", "packets", column, direction="total", match_covers=one) for one in kinds)

    def kind(self, name):
        return self.value("irreducible", "classes", "share of payload", direction="total", **{"class": name})

    def pair(self, algorithm):
        return self.value("hosts", "pair-algorithms", "savings", algorithm=algorithm)

    def block(self, column, block="a packet"):
        return self.value("hosts", "blocks", column, block=block)

    def share_of_large(self):
        """Of the replicated volume: in payloads of more than 500 bytes."""
        return float(re.search(r"([\d.]+) % of the replicated volume is in payloads", self.figures["replicated"]["finding"])[1]) / 100


def rows(traces, letters, *lines):
    """A table: a header, and a row for each label with a function of a trace."""
    header = ["", *(f"({letter}) {TRACES[letter][0]}" if len(lines) < 6 else f"({letter})" for letter in letters)]
    return [header, *([label, *(of(traces[letter]) for letter in letters)] for label, of in lines)]


WHOLE = "the whole payload"
FROM_WHOLE = "the whole payload, from one whole payload"


def tables(traces):
    def all_of(*lines, letters="abcd"):
        return rows(traces, letters, *lines)

    def share(of, *args, **kwargs):
        return lambda trace: percent(of(trace, *args, **kwargs))

    def saves(name):
        return share(Trace.saves, name)

    def period(sampler, value):
        return share(Trace.period, sampler, value, "share of optimal")

    def cell(figure, table, column, show=percent, **where):
        return lambda trace: show(trace.value(figure, table, column, **where))

    yield "cost", [["trace", "wall time", "CPU time", "peak memory"]] + [
        [f"({letter}) {name}", *(f"{value} {unit}" for value, unit in zip(traces[letter].cost, ["s", "s", "MB"]))]
        for letter, (name, _) in TRACES.items()
    ]
    yield "traces", all_of(
        ("packets", lambda trace: f"{trace.report['input']['packets']:,}"),
        ("bytes on the wire", lambda trace: f"{trace.report['input']['wire_bytes'] / 1e6:.1f} MB"),
        ("captured payload", lambda trace: f"{sum(row[3] for row in trace.figures['algorithms']['tables'][1]['rows']) / 1e6:.1f} MB"),
        ("captures", lambda trace: f"{len(trace.report['input']['captures'])}"),
    )
    yield "headlines", all_of(
        ("DEFLATE of each packet", saves("gzip")),
        ("DEFLATE over 10 ms", saves("gzip-10ms")),
        ("whole payloads (Santos)", saves("payload")),
        ("MODP", saves("modp")),
        ("MAXP, the reference", saves("maxp")),
        ("MAXP without forced markers", saves("maxp-published")),
        ("SAMPLEBYTE", saves("samplebyte")),
        ("FIXED", saves("fixed")),
        ("chunk-match (EndRE)", saves("chunk")),
        ("SAMPLEBYTE, one cache per pair of hosts", saves("samplebyte-pairs")),
        ("MAXP, then DEFLATE over 10 ms", saves("re+gzip-10ms")),
        ("upper bound without compression", saves("optimal")),
        ("`oncewire link`, with encryption", saves("oncewire-link")),
        ("`oncewire serve` and `connect`, all that they send", saves("oncewire-tunnel")),
        ("knee of the cache curve", Trace.knee),
    )
    yield "periods", [["share of the optimum", "(a)", "(b)", "(c)", "(d)"]] + all_of(
        *((f"{name}, p = {value}", period(name.lower(), value)) for name, value in [
            ("MAXP", 4), ("MAXP", 32), ("MODP", 32), ("SAMPLEBYTE", 32), ("FIXED", 32),
            ("MAXP", 512), ("MODP", 512), ("SAMPLEBYTE", 512)]),
    )[1:]
    names = {1: "1 s", 10: "10 s", 60: "1 min", 300: "5 min", 600: "10 min", 3600: "1 h", 7200: "2 h"}
    columns = ["mean", "median", "95th percentile", "peak"]
    yield "buckets", [["(d), buckets of", *columns]] + [
        [name, *(percent(traces["d"].value("temporal", "percentiles", column, direction="total", bucket=float(bucket))) for column in columns)]
        for bucket, name in names.items()
    ]
    def services(label, service):
        return label, cell("protocols", "services", "redundancy", service=service)
    yield "protocols", [["redundancy of payload", "(a)", "(b)", "(c)", "(d)"]] + all_of(
        services("TCP 80, HTTP", "tcp/80 http"), services("TCP 443, HTTPS", "tcp/443 https"),
        services("TCP 445, SMB", "tcp/445 smb"), services("TCP 25, SMTP", "tcp/25 smtp"), services("UDP 53, DNS", "udp/53 dns"),
    )[1:]
    def http(label, column):
        return label, cell("http", "savings", column, direction="total")
    yield "http", [["of HTTP response payload", "(a)", "(b)", "(c)", "(d)"]] + all_of(
        http("gzip of each object", "object gzip"), http("redundancy elimination", "RE"),
        http("the same, with gzip after it", "RE + gzip"), http("a shared cache", "caching"),
        http("a shared cache that validates", "caching with validation"),
    )[1:]
    yield "origins", [["share of savings", "(a)", "(b)", "(c)", "(d)"]] + all_of(
        *((name + (" (ours)" if name == "reverse" else ""), share(Trace.origin, name))
          for name in ["intra-flow", "inter-flow", "reverse", "inter-destination", "inter-source", "inter-node"]),
    )[1:]
    yield "lengths", all_of(
        ("matches shorter than 150 bytes", share(Trace.lengths, "share of matches")),
        ("their savings", share(Trace.lengths, "share of savings")),
        ("matches of whole payloads", share(Trace.covers, "share of matches", WHOLE, FROM_WHOLE)),
        ("their savings", share(Trace.covers, "share of savings", WHOLE, FROM_WHOLE)),
        ("of these, also a whole payload before", share(Trace.covers, "share of savings", FROM_WHOLE)),
    )
    yield "locality", all_of(
        ("savings from the most recent 10 %", cell("locality", "distance", "within 10.0 %", direction="total")),
        ("chunks: last match within 100 s of the first", cell("locality", "chunks", "within 100 s", direction="total")),
        ("within 1000 s", cell("locality", "chunks", "within 16.7 min", direction="total")),
        ("chunks matched once only", cell("locality", "chunks", "matched once", direction="total")),
    )
    def exponent(label, column):
        return label, cell("hits", "zipf", column, lambda value: "–" if value is None else f"{value:.2f}", direction="total")
    yield "hits", all_of(
        exponent("exponent, as the thesis fits it", "exponent, bulk"),
        exponent("exponent over all ranks", "exponent, all ranks"),
        ("savings of the top 20 % of chunks", cell("hits", "contribution", "top 20.0 %", direction="total")),
    )
    def volume(traffic):
        return cell("replicated", "volume", "share", direction="total", traffic=traffic)
    yield "replicated", all_of(
        ("replicated share of payload volume", volume("all")),
        ("of HTTP by port", volume("HTTP, by port")),
        ("found within 10 MB", cell("replicated", "windows", "10.0 MB", direction="total")),
        ("in payloads of more than 500 bytes, of that volume", share(Trace.share_of_large)),
        ("the reference saves, of payload volume",
         lambda trace: re.search(r"saves ([\d.]+ %) of the same volume", trace.figures["replicated"]["finding"])[1]),
    )
    def hosts(label, column):
        return label, cell("hosts", "savings", column, direction="total")
    yield "hosts", all_of(
        hosts("hosts", "hosts"), hosts("hosts, and objects seen elsewhere (DOT)", "hosts + objects"),
        hosts("middlebox", "middlebox"), hosts("hosts / middlebox", "hosts / middlebox"),
        ("client's memory, median", cell("hosts", "memory", "median", size, nodes="clients")),
        ("client's memory, 99 %", cell("hosts", "memory", "99 %", size, nodes="clients")),
        ("server's memory, largest", cell("hosts", "memory", "largest", size, nodes="servers")),
    )
    def blocks(trace):
        return ", ".join(percent(trace.block("zlib", block))[:-2] for block in ["4 KiB", "32 KiB", "64 KiB"]) + " %"
    yield "endre", all_of(
        ("gzip over 10 ms of a flow", share(Trace.pair, "gzip over 10 ms of a flow")),
        *((f"{name}, 10 MB a pair", share(Trace.pair, f"max-match, {name.lower()}")) for name in ["MODP", "MAXP", "FIXED", "SAMPLEBYTE"]),
        ("with gzip over 10 ms of a flow after it", share(Trace.pair, "max-match, samplebyte, then gzip")),
        ("chunk-match, 10 MB a pair", share(Trace.pair, "chunk-match, samplebyte")),
        ("of the payload: ZLIB of a packet", share(Trace.block, "zlib")),
        ("ZLIB of 4, 32, 64 KiB", blocks),
        ("SAMPLEBYTE, 10 MB a pair", share(Trace.block, "max-match")),
    )
    kinds = ["encrypted", "encrypted, repeated", "high entropy, unique", "high entropy, repeated", "low entropy, unique", "low entropy, repeated"]
    yield "irreducible", [["share of payload", "(a)", "(b)", "(c)", "(d)"]] + all_of(*((one, share(Trace.kind, one)) for one in kinds))[1:]
    def deflate(label, column):
        return label, cell("deflate", "services", column, service="all")
    yield "deflate", all_of(
        deflate("content that is deflate or zstd", "share compressed"),
        deflate("tunnel saves, streams closed", "savings, closed"),
        deflate("tunnel saves, streams opened", "savings, opened"),
    )


def findings(traces):
    """What was measured of each finding of the papers, by its name in study-findings.csv."""
    a, b, c, d = (traces[letter] for letter in "abcd")
    four = [a, b, c, d]

    def listed(values, unit=" %", digits=1, scale=100):
        return ", ".join("–" if value is None else f"{scale * value:.{digits}f}" for value in values) + unit

    def over(one, other):
        return [trace.saves(one) / trace.saves(other) - 1 for trace in four]

    def points(one, other):
        return listed([trace.saves(one) - trace.saves(other) for trace in four], " points")

    def at_512(trace):
        return trace.period("samplebyte", 512) - trace.period("maxp", 512)

    def bucket(column, width):
        return 100 * d.value("temporal", "percentiles", column, direction="total", bucket=float(width))

    def energy(column):
        return d.value("temporal", "burstiness", column, direction="total", time_scale=40.96)

    def http(trace):
        return trace.value("http", "savings", "RE", direction="total") - trace.value("http", "savings", "object gzip", direction="total")

    def total(figure, table, column, **where):
        return [trace.value(figure, table, column, direction="total", **where) for trace in four]

    whole = [trace.covers("share of savings", WHOLE, FROM_WHOLE) for trace in four]
    return {
        "DEFLATE of packets gains half or less of MAXP": listed(1 + x for x in over("gzip", "maxp")) + " of it",
        'DEFLATE over 10 ms is "not substantial"': listed(trace.saves("gzip-10ms") for trace in four),
        "MAXP beats MODP by 5-10 %, up to 35 %": listed(over("maxp", "modp")),
        "MAXP then DEFLATE gains 3-7 points": points("re+gzip-10ms", "maxp"),
        "four times the cache gains 0-8 points": points("maxp-4x", "maxp"),
        "a middlebox saves 9-54 % (MAXP)": listed(trace.saves("maxp") for trace in four),
        "outgoing saves more than incoming": f"(a) {listed([a.saves('maxp', 'outbound'), a.saves('maxp', 'inbound')])}, "
        f"(d) {listed([d.saves('maxp', 'outbound'), d.saves('maxp', 'inbound')])}",
        "p = 32 within 10 % of p = 4": listed(1 - trace.period("maxp", 32) / trace.period("maxp", 4) for trace in four) + " less",
        "p = 32 is 10-20 % below the optimum": listed(1 - trace.period("maxp", 32, "share of optimal") for trace in four),
        "SAMPLEBYTE saves what MAXP does": points("samplebyte", "maxp"),
        "SAMPLEBYTE falls behind at p = 512": listed([at_512(trace) for trace in four], " points"),
        'FIXED is worse, but "surprisingly high"': listed((1 + x for x in over("fixed", "maxp")), " % of MAXP"),
        "chunk-match saves 4 points less": points("chunk", "maxp"),
        "knee at 100-250 MB": ", ".join(trace.knee() for trace in four),
        "peak saves less than the mean": f"(d) {bucket('peak', 60):.1f} % against {bucket('mean', 60):.1f} (1 min)",
        "95th percentile is near the mean": f"(d) {bucket('95th percentile', 300):.1f} % against {bucket('mean', 300):.1f} (5 min)",
        "bursts shrink less than uniformly": f"(d) energy at 41 s {energy('original'):.1f} to {energy('reduced'):.1f}, uniform {energy('uniform'):.1f}",
        "encrypted payload does not repeat": "port 443: " + listed(trace.value("protocols", "services", "redundancy", service="tcp/443 https") for trace in four),
        "RE beats gzip of HTTP objects": listed([http(trace) for trace in four], " points"),
        "a web cache saves about 5 %": listed(total("http", "savings", "caching")),
        "75-90 % within a pair of hosts (enterprises)": listed((trace.origin("intra-flow", "inter-flow") for trace in four), digits=0),
        "10-40 % within a pair (university)": listed((trace.origin("intra-flow", "inter-flow") for trace in four), digits=0),
        "that share is what end hosts get": listed(total("hosts", "savings", "hosts / middlebox"), digits=0) + " of a shared cache",
        "70 % of matches under 150 bytes": listed((trace.lengths("share of matches") for trace in four), digits=0),
        "they bring about 20 % of savings": listed((trace.lengths("share of savings") for trace in four), digits=0),
        "full packets bring 20-50 %": listed(whole, digits=0),
        "60-80 % from the newest 10 % of the cache": f"(d) {listed(total('locality', 'distance', 'within 10.0 %')[3:], digits=0)}; the others fit",
        "60 % of chunks end within 100 s": listed(total("locality", "chunks", "within 100 s"), digits=0),
        "hits by rank: Zipf, -0.97": listed(total("hits", "zipf", "exponent, bulk"), "", 2, 1),
        "20 % of chunks bring 80 %": listed(total("hits", "contribution", "top 20.0 %"), digits=0),
        "replicated packets: 26 % of HTTP outbound": listed(total("replicated", "volume", "share", traffic="HTTP, by port"), digits=0),
        "97 % of it in payloads over 500 bytes": listed(trace.share_of_large() for trace in four),
        "end hosts get two thirds of a middlebox": listed(total("hosts", "savings", "hosts / middlebox"), digits=0),
        "97 % of chunks go to one destination": listed(
            sum_of_one(trace) for trace in four),
    }


def sum_of_one(trace):
    """Share of the chunks that go to a single prefix."""
    return float(re.match(r"([\d.]+) % of the chunks go to a single prefix", trace.figures["destinations"]["finding"])[1]) / 100


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    figures = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT / "docs/figures"
    traces = {letter: Trace(out, name) for letter, (_, name) in TRACES.items()}
    for name, table in tables(traces):
        with open(figures / f"study-{name}.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)
    measured = findings(traces)
    path = figures / "study-findings.csv"
    with open(path, newline="") as file:
        header, *old = csv.reader(file)
    unknown = measured.keys() ^ {row[0] for row in old}
    if unknown:
        sys.exit(f"{path.name} and this script do not have the same findings: {', '.join(sorted(unknown))}")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([finding, then, measured[finding], holds] for finding, then, _, holds in old)


if __name__ == "__main__":
    main()
