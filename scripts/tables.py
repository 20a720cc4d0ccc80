#!/usr/bin/env python3
"""Makes two versions of dumps, tables and logs, and compares the second given the first.

    scripts/tables.py ONCEWIRE > docs/figures/performance-tables.csv

Of the rows of each kind, one in 300 is changed, put in or taken out, and a line is put in at the front. Prints, as
CSV, the bytes of `zstd -3 --patch-from` and of `pack --base`, unpacks the pack and compares it.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

R = random.randrange


def postgres(i):
    return (
        f"{i}\t{R(5000)}\tuser{R(100000)}@example.com\t{R(1000)}.{R(100):02}\tt\t"
        f"2024-0{R(1, 10)}-{R(1, 29):02} {R(24):02}:{R(60):02}:{R(60):02}.{R(10**6):06}+00\t\\N\n"
    )


def mysql(i):
    state = random.choice(["open", "paid", "sent"])
    date = f"2024-0{R(1, 10)}-{R(1, 29):02}"
    return f"INSERT INTO `orders` VALUES ({i},{R(9999)},'{state}',{R(900)}.{R(100):02},'{date}');\n"


def csv(i):
    return f"{i},{R(100)},{R(1000)},{random.random():.4f},{random.random() * 50:.4f},2024-01-{R(1, 29):02}\n"


def fixed_columns(i):
    return f"{i:08};0000000000;0.00;ACTIVE;{R(50):010};2024-01-01\n"


def access_log(i):
    return (
        f'10.0.{R(4)}.{R(250)} - - [{1700000000 + i}] "GET /api/v1/items/{R(5000)} HTTP/1.1" 200 {R(9000)} '
        '"-" "curl/7.88" 2024\n'
    )


def json_lines(i):
    time = f"2024-03-{R(1, 29):02}T{R(24):02}:{R(60):02}:{R(60):02}Z"
    event = random.choice(["view", "click", "buy"])
    row = {"id": i, "user": f"u{R(5000)}", "event": event, "ts": time, "value": round(random.random() * 100, 2)}
    return json.dumps(row | {"tags": ["a", "b"][: R(3)]}) + "\n"


COUNTERS = [0] * 4000


def metrics(i):
    COUNTERS[i % 4000] = (COUNTERS[i % 4000] or R(10**6)) + (R(3) if R(5) == 0 else 0)
    labels = f'method="get",code="200",handler="/api/{i % 200}",instance="10.0.0.{i // 200 % 20}:9090"'
    return f"http_requests_total{{{labels}}} {COUNTERS[i % 4000]}\n"


KINDS = [
    ("PostgreSQL dump", postgres, 200_000),
    ("MySQL dump", mysql, 200_000),
    ("CSV", csv, 250_000),
    ("fixed columns", fixed_columns, 250_000),
    ("access log", access_log, 150_000),
    ("JSON lines", json_lines, 120_000),
    ("metrics", metrics, 120_000),
]


def change(row):
    at = row.rfind("2024")
    return row[:at] + "2025" + row[at + 4 :] if at >= 0 else row[:10] + "EDITED" + row[16:]


def versions(make, count):
    random.seed(7)
    rows = [make(i) for i in range(count)]
    first = "".join(rows)
    for _ in range(count // 300):
        at = R(len(rows))
        kind = random.random()
        if kind < 0.2:
            rows.insert(at, make(count + at))
        elif kind < 0.3:
            del rows[at]
        else:
            rows[at] = change(rows[at])
    return first, "a header that is new\n" + "".join(rows)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    oncewire = sys.argv[1]
    print('kind,MB,"zstd, kB","pack, kB","pack, of zstd"')
    with tempfile.TemporaryDirectory() as path:
        old, new, patch, back = (pathlib.Path(path) / name for name in ["old", "new", "patch", "back"])
        for name, make, count in KINDS:
            for path, content in zip([old, new], versions(make, count)):
                path.write_text(content)
            zstd = ["zstd", "-3", "-q", "-f", "--long=31", f"--patch-from={old}", new, "-o", patch]
            subprocess.run(zstd, check=True)
            rival = patch.stat().st_size
            pack = subprocess.run([oncewire, "pack", "--base", old, new], check=True, stdout=subprocess.PIPE).stdout
            unpack = [oncewire, "unpack", "--base", old]
            content = subprocess.run(unpack, check=True, input=pack, stdout=subprocess.PIPE).stdout
            assert content == new.read_bytes()
            size = new.stat().st_size
            print(f"{name},{size / 1e6:.1f},{rival / 1e3:.1f},{len(pack) / 1e3:.1f},{len(pack) / rival:.2f}", flush=True)


main()
