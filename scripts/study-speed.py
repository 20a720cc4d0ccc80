#!/usr/bin/env python3
"""Compares the CPU time of a study with that of other programs that read the same capture once.

    scripts/study-speed.py ONCEWIRE CAPTURE [ROUNDS]

Each round runs every program once, in turn; reports medians of user plus system time. Needs tcpdump, zstd and gzip.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys


def cpu(command):
    """CPU seconds of a command, including its threads and children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    oncewire, capture = sys.argv[1], sys.argv[2]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    study = [oncewire, "study", capture, "--threads", "1", "--json"]
    contenders = {
        "study, MAXP and match lengths (figure 8)": study + ["--figures", "lengths"],
        "study, MAXP and figures 4, 7 to 11, 13, 14": study + [
            "--figures", "temporal,origins,lengths,locality,hits,replicated,destinations,irreducible"
        ],
        "study, the default": study,
        "study, everything": study + ["--all"],
        "tcpdump --count": ["tcpdump", "-r", capture, "--count"],
        "zstd -1": ["zstd", "-1", "-T1", "-q", "-c", capture],
        "gzip -6": ["gzip", "-6", "-c", capture],
    }
    contenders = {name: command for name, command in contenders.items() if shutil.which(command[0])}
    times = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, command in contenders.items():
            times[name].append(cpu(command))
    size = os.path.getsize(capture)
    print(f"{capture}: {size / 1e6:.0f} MB, medians of {rounds}")
    print("| | CPU time | MB per CPU second |\n|---|---:|---:|")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"| {name} | {median:.2f} s | {size / 1e6 / max(median, 1e-3):.0f} |")


if __name__ == "__main__":
    main()
