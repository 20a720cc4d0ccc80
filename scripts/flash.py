#!/usr/bin/env python3
"""The index on flash beside other indexes (rivals/README.md), in turns and in one memory cgroup.

    scripts/flash.py DIR [--memory 64M] [--keys 14000000] [--rounds 3] [--seconds 5] [--only NAMES]
                         [--json FILE] [--csv FILE]

DIR is on the disk to measure. Each index is loaded once, without a limit on memory, and then, in each
round, every one inserts new keys for some seconds, and looks keys up for as long, one by one and 64 at
once, of which 40 % are there. Prints medians over the rounds. Needs root for the cgroup (version 1 or 2). The defaults take
about 15 minutes: most of it to load. CPU time is that of the processes; bytes are what the kernel
counted for them (/proc/PID/io), so other load on the disk does not count.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RIVALS = ROOT / "rivals/target"
ENGINES = {
    "oncewire": (RIVALS / "release/oncewire", {}),
    "rocksdb-level": (RIVALS / "native/rocksdb", {}),
    "rocksdb-universal": (RIVALS / "native/rocksdb", {"ROCKSDB_COMPACTION": "universal"}),
    "berkeley-hash": (RIVALS / "native/berkeley", {}),
    "berkeley-btree": (RIVALS / "native/berkeley", {"BERKELEY_TYPE": "btree"}),
    "lmdb": (RIVALS / "release/lmdb", {}),
    "redb": (RIVALS / "release/redb", {}),
    "fjall": (RIVALS / "release/fjall", {}),
    "sled": (RIVALS / "release/sled", {}),
}
# Share of look-ups, share of these that find their key, operations at once, and what is counted.
PHASES = {
    "insert": (0.0, 0.0, 256, "inserts"),
    "look-up": (1.0, 0.4, 1, "look_ups"),
    "look-up of 64": (1.0, 0.4, 64, "look_ups"),
}
SEED = "1"


def size(text):
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1:] in units else int(text)


class Cgroup:
    """A memory cgroup, made and removed here."""

    def __init__(self, limit):
        name = f"oncewire-flash-{os.getpid()}"
        first = pathlib.Path("/sys/fs/cgroup/memory")
        self.new = not first.is_dir()
        self.path = (pathlib.Path("/sys/fs/cgroup") if self.new else first) / name
        self.path.mkdir()
        self.write("memory.max" if self.new else "memory.limit_in_bytes", limit)
        if self.new:
            with contextlib.suppress(OSError):
                self.write("memory.swap.max", 0)

    def write(self, file, value):
        (self.path / file).write_text(str(value))

    def enter(self):
        """Called in the child before it runs the program."""
        self.write("cgroup.procs", os.getpid())

    def peak(self):
        """Most bytes since the last call, the page cache included; none if the kernel has no counter."""
        with contextlib.suppress(OSError, ValueError):
            file = "memory.peak" if self.new else "memory.max_usage_in_bytes"
            peak = int((self.path / file).read_text())
            self.write(file, 0)
            return peak
        return None

    def remove(self):
        for _ in range(50):
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.1)


def run(name, directory, memory, command, cgroup=None, limit=None):
    program, variables = ENGINES[name]
    line = [program, directory, str(memory), SEED, *map(str, command)]
    done = subprocess.run(
        list(map(str, line)),
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=limit,
        preexec_fn=cgroup.enter if cgroup else None,
        check=False,
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"status {done.returncode}: {words[-1] if words else 'no message'}")
    return done.stdout.decode()


def drop_caches():
    subprocess.run(["sync"], check=True)
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1")


def bytes_of(directory):
    return sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file())


def check_vectors(names):
    vectors = {name: run(name, "/nowhere", 0, ["vector"]) for name in names}
    if len(set(vectors.values())) != 1:
        sys.exit(f"the programs have different keys: {vectors}")


def measure(args, names, place):
    memory, keys, failed, results = args.memory, {}, {}, []
    for name in names:
        directory = place / name
        directory.mkdir()
        try:
            begun = time.monotonic()
            # Loads may use more memory than is allowed later, so that they end soon.
            result = json.loads(run(name, directory, max(memory, args.load_memory), ["load", args.keys], limit=args.patience))
            keys[name] = args.keys
            results.append({"phase": "load", "round": 0, "flash_bytes": bytes_of(directory), **result, "engine": name})
            print(f"{name}: loaded in {time.monotonic() - begun:.0f} s, {bytes_of(directory) >> 20} MiB", file=sys.stderr)
        except (RuntimeError, subprocess.TimeoutExpired, ValueError) as error:
            failed[name] = f"load: {error}"
            print(f"{name}: {failed[name]}", file=sys.stderr)
    for number in range(args.rounds):
        # Each round starts with another one.
        turns = names[number % len(names):] + names[: number % len(names)]
        for phase, (share, found, batch, _) in PHASES.items():
            for name in turns:
                if name in failed:
                    continue
                drop_caches()
                cgroup = Cgroup(memory)
                try:
                    command = ["mix", keys[name], args.seconds, share, found, batch]
                    result = json.loads(run(name, place / name, memory, command, cgroup, args.patience))
                    keys[name] = result["keys"]
                    results.append({"phase": phase, "round": number + 1, "peak_bytes": cgroup.peak(), **result, "engine": name})
                except (RuntimeError, subprocess.TimeoutExpired, ValueError) as error:
                    failed[name] = f"{phase}: {error}"
                    print(f"{name}: {failed[name]}", file=sys.stderr)
                finally:
                    cgroup.remove()
    return results, failed


def summarize(results, names):
    rows = []
    for name in names:
        row = {"engine": name}
        for phase, (_, _, _, operations) in PHASES.items():
            runs = [run for run in results if run["engine"] == name and run["phase"] == phase]
            runs = [run for run in runs if run[operations]["operations"]]
            if not runs:
                continue

            def median(of, runs=runs):
                return statistics.median(of(run) for run in runs)

            row[phase] = {
                "per_second": median(lambda run: run[operations]["operations"] / run["seconds"]),
                "cpu_us": median(lambda run: 1e6 * run["cpu_seconds"] / run[operations]["operations"]),
                "p99_us": median(lambda run: run[operations]["p99_us"]),
                "read_bytes": median(lambda run: run["read_bytes"] / run[operations]["operations"]),
                "written_bytes": median(lambda run: run["written_bytes"] / run[operations]["operations"]),
            }
        rows.append(row)
    return rows


def show(rows, failed):
    ours = next((row for row in rows if row["engine"] == "oncewire"), {})
    for phase in PHASES:
        bytes_name = "written" if phase == "insert" else "read"
        print(f"\n| {phase} | a second | ours is | CPU time | p99 | bytes {bytes_name} |")
        print("|---|---|---|---|---|---|")
        for row in rows:
            if phase not in row:
                continue
            it = row[phase]
            times = ours[phase]["per_second"] / it["per_second"] if phase in ours else float("nan")
            amount = it["written_bytes"] / 16 if phase == "insert" else it["read_bytes"]
            unit = " a byte" if phase == "insert" else ""
            print(
                f"| {row['engine']} | {it['per_second']:,.0f} | {times:.2f}x | {it['cpu_us']:.2f} us"
                f" | {it['p99_us']:.0f} us | {amount:,.2f}{unit} |"
            )
    for name, reason in failed.items():
        print(f"\n{name} failed: {reason}")


def table(rows):
    """The table of docs/FLASH.md: writes, look-ups one at a time, and look-ups of 64."""
    ours = next(row for row in rows if row["engine"] == "oncewire")
    times = lambda phase, row: f"{ours[phase]['per_second'] / row[phase]['per_second']:.3g}x" if row is not ours else ""
    yield ["", "inserts a second", "ours is", "CPU time", "bytes written a byte", "look-ups a second, 40 % found", "ours is",
           "the same, 64 at once", "ours is"]
    for row in (row for row in rows if all(phase in row for phase in PHASES)):
        insert, one, many = (row[phase] for phase in PHASES)
        yield [
            row["engine"], f"{insert['per_second']:,.0f}", times("insert", row), f"{insert['cpu_us']:.2f} us",
            f"{insert['written_bytes'] / 16:.3g}", f"{one['per_second']:,.0f}", times("look-up", row),
            f"{many['per_second']:,.0f}", times("look-up of 64", row),
        ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--memory", type=size, default=size("64M"), help="of the cgroup")
    parser.add_argument("--load-memory", type=size, default=size("512M"), help="to load with")
    parser.add_argument("--keys", type=int, default=14_000_000, help="of 16 bytes with their values")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--patience", type=float, default=600, help="seconds after which a run fails")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--json", type=pathlib.Path, help="also write all results here")
    parser.add_argument("--csv", type=pathlib.Path, help="also write the table of docs/FLASH.md here")
    args = parser.parse_args()
    if os.geteuid():
        sys.exit("a memory cgroup needs root")
    names = args.only.split(",") if args.only else list(ENGINES)
    missing = [name for name in names if name not in ENGINES or not ENGINES[name][0].exists()]
    if missing:
        sys.exit(f"not built, see rivals/README.md: {', '.join(missing)}")
    check_vectors(names)
    place = args.dir / f"oncewire-flash-{os.getpid()}"
    place.mkdir()
    try:
        results, failed = measure(args, names, place.resolve())
    finally:
        shutil.rmtree(place)
    rows = summarize(results, names)
    show(rows, failed)
    if args.csv:
        with open(args.csv, "w", newline="") as target:
            csv.writer(target, lineterminator="\n").writerows(table(rows))
    if args.json:
        document = {"memory": args.memory, "keys": args.keys, "seconds": args.seconds, "summary": rows, "runs": results, "failed": failed}
        args.json.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
