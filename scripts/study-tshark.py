#!/usr/bin/env python3
"""Compares what the study counts in captures with what tshark counts.

    scripts/study-tshark.py ONCEWIRE CAPTURE-OR-DIRECTORY...

Of each capture: packets, bytes on the wire, packets of TCP and of UDP, and their payload, whether captured or not. Where the two differ, a
reason is looked for in the study's own report (JSON): there a reader would find it. Prints how many agree to the byte, how many differ by
reason, and each capture without a reason. Exits with 1 if there is one.
"""

import collections
import concurrent.futures
import json
import os
import subprocess
import sys

TSHARK = [
    "tshark", "-n", "-q", "-o", "tcp.desegment_tcp_streams:FALSE", "-o", "tcp.analyze_sequence_numbers:FALSE", "-o", "ip.defragment:TRUE",
    "-o", "ipv6.defragment:TRUE", "-T", "fields", "-E", "occurrence=l", "-E", "separator=|",
    "-e", "frame.len", "-e", "frame.protocols", "-e", "tcp.len", "-e", "udp.length", "-e", "tcp.hdr_len",
]
NAMES = ("packets", "wire bytes", "TCP packets", "UDP packets", "payload")
# Layers of the report that wrap other packets: tshark opens others, or other ports of the same.
WRAPS = ("VXLAN", "Geneve", "GTP", "GRE", "ERSPAN", "Teredo", "L2TP", "MPLS", "PPPoE", "LISP", "VXLAN-GPE", "IP in IP", "CAPWAP", "IPv6 in", "NFLOG")


def theirs(capture):
    """What tshark counts; whether it read the capture to its end."""
    done = subprocess.run(TSHARK + ["-r", capture], capture_output=True, text=True, errors="replace")
    counts = collections.Counter()
    for line in done.stdout.splitlines():
        fields = line.split("|")
        if len(fields) != 5 or not fields[0].isdigit():
            continue
        length, protocols, tcp, udp, header = fields
        counts["packets"] += 1
        counts["wire bytes"] += int(length)
        layers = protocols.split(":")
        # What errors quote of other packets is none of them.
        if "icmp" in layers or "icmpv6" in layers:
            continue
        innermost = max((at, name) for name in ("tcp", "udp", "") for at in [len(layers) - 1 - layers[::-1].index(name) if name in layers else -1])[1]
        if innermost == "tcp" and header:
            counts["TCP packets"] += 1
            counts["payload"] += int(tcp or 0)
        elif innermost == "udp" and udp:
            counts["UDP packets"] += 1
            counts["payload"] += max(0, int(udp) - 8)
    return [counts[name] for name in NAMES], done.returncode == 0


def ours(oncewire, capture):
    """What the study counts, and its report."""
    command = [oncewire, "study", capture, "--json", "--figures", "lengths", "--algorithms", "maxp", "--cache", "1M", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        return None, {"error": done.stderr.strip().splitlines()[-1:]}
    report = json.loads(done.stdout)
    used = {share["name"]: share for share in report["accounting"]["used"]}
    size = {share["name"]: share["bytes"] for share in report["accounting"]["bytes"]}
    counts = [
        report["input"]["packets"],
        report["input"]["wire_bytes"],
        used["TCP with payload"]["packets"] + used["TCP without payload"]["packets"],
        used["UDP"]["packets"],
        size["payload"] + size["payload that was not captured"],
    ]
    return counts, report


def reason(report, read_whole):
    """Why the two may differ, by what the report says."""
    if "error" in report:
        return f"the study refuses it: {' '.join(report['error'])}"
    if report["input"]["damaged"]:
        return "the capture is damaged: " + report["input"]["damaged"][0][1].split(":")[-1].strip()
    if not read_whole:
        return None
    unused = [share["name"] for share in report["accounting"]["unused"]]
    for word in ("link type", "fragment", "truncated", "cut", "length", "malformed", "corrupt", "too short", "version", "header"):
        found = [name for name in unused if word in name]
        if found:
            return "skipped: " + found[0].split(" (")[0]
    layers = [share["name"] for share in report["accounting"]["layers"]]
    wraps = [name for name in layers if any(name.startswith(wrap) for wrap in WRAPS)]
    if wraps:
        return "encapsulated: " + ", ".join(wraps)
    size = {share["name"]: share["bytes"] for share in report["accounting"]["bytes"]}
    if size["payload that was not captured"]:
        return "payload that was not captured"
    # Protocols with a name, such as ARP, hide no TCP; those that have only a number may.
    others = [name for name in unused if "IP protocol" in name or name.startswith("not IP (0x")]
    if others:
        return "skipped: " + others[0]
    return None


def captures(paths):
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for root, _, names in os.walk(path):
            yield from (os.path.join(root, name) for name in sorted(names) if ".pcap" in name or name.endswith(".cap"))


def compare(oncewire, capture):
    (their, read_whole), (our, report) = theirs(capture), ours(oncewire, capture)
    if our == their:
        return capture, None, None
    differ = [f"{name} {a} against {b}" for name, a, b in zip(NAMES, our or [0] * 5, their) if a != b]
    return capture, "; ".join(differ), reason(report, read_whole)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    found = list(captures(sys.argv[2:]))
    reasons, unexplained = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for capture, differ, why in pool.map(lambda capture: compare(sys.argv[1], capture), found):
            if differ is None:
                continue
            if why is None:
                unexplained.append((capture, differ))
            else:
                reasons[why] += 1
            if os.environ.get("VERBOSE"):
                print(f"{os.path.basename(capture)}: {why or 'no reason'}: {differ}", flush=True)
    differ = sum(reasons.values()) + len(unexplained)
    print(f"{len(found)} captures, {len(found) - differ} agree to the byte, {differ} differ")
    print("| captures | reason, as the report states it |\n|---:|---|")
    for why, count in reasons.most_common():
        print(f"| {count} | {why} |")
    for capture, what in unexplained:
        print(f"no reason: {os.path.basename(capture)}: {what}")
    sys.exit(bool(unexplained))


if __name__ == "__main__":
    main()
