#!/usr/bin/env python3
"""Checks that two builds of oncewire give the same results on about fifteen inputs.

Runs `study`, `plan`, `emulate`, `bench`, `pack` and `unpack` with both, and compares all keys, numbers, booleans and
nulls of their JSON documents exactly, their matches and manifests and packs byte for byte. Text for people may differ;
so may what two runs of OLD do not agree on, which is measured time and what follows from it. Exit status: 1 if a result
differs.

Usage: scripts/same-results.py OLD NEW [--data DIR]

With --data, also inputs from a data set: four captures of DIR/pcap and four topologies of DIR/topologies.
"""
import argparse
import filecmp
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs/examples"
SITE, ABILENE = EXAMPLES / "site.pcap.zst", EXAMPLES / "abilene.json"
TARS = sorted((ROOT / "testdata/tz").glob("*.tar"))
# Measured values, which may agree in two runs by chance.
MEASURED = re.compile(r"(cpu|wall|solve|elapsed|build|presolve|repair)\w*seconds|_per_cpu|mb_per_second|_ms$|_us$")


def runs(data):
    """(name, arguments, outputs): each run of the program, and the files that it writes besides standard output."""
    yield "study site", ["study", SITE, "--inside", "10.20.0.0/16", "--json", "--matches", "matches.csv"], ["matches.csv"]
    yield "study site, price", ["study", SITE, "--price", "0.09/GB", "--link", "100Mbit", "--json"], []
    yield "study site, small cache", ["study", SITE, "--cache", "500k", "--sampler", "samplebyte", "--json"], []
    plan = ["plan", ABILENE, "--access", "4", "--equal", "--json"]
    yield "plan abilene", [*plan, "--load", "30%", "--manifests", "plan.json"], ["plan.json"]
    yield "plan abilene, link load", [*plan, "--objective", "link-load", "--capacity", "10Gbit"], []
    yield "plan abilene, placement", [*plan, "--deploy", "10", "--strategy", "redundancy"], []
    emulate = ["emulate", ABILENE, "--endpoints", "5", "--access", "2", "--scale", "0.1%", "--json"]
    yield "emulate", [*emulate, "--loss", "0.1%", "--replan", "2", "--epochs", "4"], []
    yield "emulate capture", ["emulate", ABILENE, "--capture", SITE, "--json"], []
    yield "bench", ["bench", "--passes", "2", "--runs", "1", "--json", *TARS], []
    family = ["--samplers", "samplehash,maxp,samplebyte,modp", "--matchers", "max,published,chunk", "--optimal"]
    yield "bench family", ["bench", *family, "--entropy", "none", "--runs", "1", "--json", "--no-rivals", TARS[0]], []
    for entropy in ["none", "lz4", "coded-3"]:
        name = f"{entropy}.ow"
        yield f"pack {entropy}", ["pack", "--entropy", entropy, TARS[0], "-o", name], [name]
    yield "pack base", ["pack", "--base", TARS[0], TARS[1], "-o", "base.ow"], ["base.ow"]
    if data:
        for capture in picked(data / "pcap", lambda path: 300_000 < path.stat().st_size < 4_000_000):
            yield f"study {capture.name}", ["study", capture, "--json"], []
        for topology in picked(data / "topologies", lambda path: "-pop" in path.name or "topo" in path.name):
            yield f"plan {topology.name}", ["plan", topology, "--equal", "--json"], []


def picked(directory, wanted):
    """Four files of a directory, spread over their names."""
    files = sorted(path for path in directory.iterdir() if path.is_file() and wanted(path))
    return [files[len(files) * i // 4] for i in range(min(4, len(files)))]


def leaves(value, place=()):
    """All values of a document by their places, without text and without the columns of measured memory."""
    if isinstance(value, dict):
        if "columns" in value and "rows" in value:
            value = without_memory(value)
        yield (*place, "{}"), sorted(value)
        for key, inner in value.items():
            yield from leaves(inner, (*place, key))
    elif isinstance(value, list):
        yield (*place, "[]"), len(value)
        for at, inner in enumerate(value):
            yield from leaves(inner, (*place, at))
    else:
        yield place, "text" if isinstance(value, str) else value


def without_memory(table):
    """A table without columns named memory: hash tables with random keys do not allocate the same in each run."""
    names = [column.get("name") if isinstance(column, dict) else column for column in table["columns"]]
    keep = [at for at, name in enumerate(names) if name != "memory"]
    rows = [[row[at] for at in keep] if isinstance(row, list) and len(row) == len(names) else row for row in table["rows"]]
    return {**table, "rows": rows}


class Ran:
    def __init__(self, program, arguments, outputs):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        command = [str(part) for part in [program, *arguments]]
        ran = subprocess.run(command, cwd=self.directory, capture_output=True)
        self.code = ran.returncode
        self.error = ran.stderr.decode(errors="replace")
        self.document = dict(leaves(json.loads(ran.stdout))) if self.code == 0 and "--json" in command else {}
        self.outputs = [self.directory / name for name in outputs]

    def remove(self):
        shutil.rmtree(self.directory)


def compare(old, twice, new):
    """Differences as text, how many values were compared, and how many vary between runs of OLD."""
    found = []
    if old.code != new.code:
        return [f"exit status {old.code} and {new.code}: {new.error}"], 0, 0
    varying = {place for place, value in old.document.items() if twice.document.get(place, old) != value}
    varying |= {place for place in old.document if MEASURED.search(".".join(map(str, place)))}
    for place in [*old.document, *(place for place in new.document if place not in old.document)]:
        a, b = old.document.get(place, "absent"), new.document.get(place, "absent")
        if a != b and place not in varying:
            found.append(f"{'.'.join(map(str, place))}: {a} and {b}")
    for a, b in zip(old.outputs, new.outputs):
        if a.exists() != b.exists() or a.exists() and not filecmp.cmp(a, b, shallow=False):
            found.append(f"{a.name} differs")
    return found, len(old.document) - len(varying) + len(old.outputs), len(varying)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path, metavar="OLD")
    parser.add_argument("new", type=pathlib.Path, metavar="NEW")
    parser.add_argument("--data", type=pathlib.Path, metavar="DIR")
    options = parser.parse_args()
    failed = 0
    for name, arguments, outputs in runs(options.data):
        programs = [options.old.resolve(), options.old.resolve(), options.new.resolve()]
        results = [Ran(program, arguments, outputs) for program in programs]
        found, compared, varying = compare(*results)
        failed += bool(found)
        print(f"{'DIFFERENT' if found else 'same':9}  {name}: {compared} values, {varying} vary from run to run")
        for difference in found[:10]:
            print(f"             {difference}")
        if len(found) > 10:
            print(f"             and {len(found) - 10} more")
        for result in results:
            result.remove()
    print("all results are the same" if not failed else f"{failed} runs differ")
    sys.exit(1 if failed else 0)


main()
