#!/usr/bin/env python3
"""Make the tzdata-*.tar files in this directory.

Usage: make.py [--wheels DIR] [--out DIR]

Takes the wheels of the PyPI package `tzdata` (from DIR if --wheels is given,
else fetched with `pip download`), and writes one tar for each release to the
output directory, by default the one that holds this script. The same wheels
give the same bytes on every machine. Prints the sha256 of each tar.
"""

import argparse
import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

VERSIONS = ["2026.3", "2026.4", "2026.5"]
PREFIX = "tzdata/"  # stripped; names in the tar begin with zoneinfo/
KEEP = "tzdata/zoneinfo/"
MAX_SIZE = 1_000_000


def download(version, directory):
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "download",
         "--quiet", "--no-deps", "--only-binary", ":all:", "--dest",
         str(directory), f"tzdata=={version}"],
        check=True,
    )


def make_tar(wheel):
    """The tar of the wheel's time zone data, as bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(wheel) as source, \
            tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        names = [name for name in source.namelist()
                 if name.startswith(KEEP)
                 and not name.endswith("/")
                 and not name.endswith(".py")]
        for name in sorted(names):
            data = source.read(name)
            info = tarfile.TarInfo(name[len(PREFIX):])
            info.size = len(data)
            info.mode = 0o644
            info.mtime = 0
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def main():
    parser = argparse.ArgumentParser(description="Make the tzdata-*.tar files.")
    parser.add_argument("--wheels", type=pathlib.Path,
                        help="directory with the wheels; default: fetch them with pip")
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent,
                        help="where to write; default: beside this script")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        wheels = args.wheels or pathlib.Path(temporary)
        for version in VERSIONS:
            if args.wheels is None:
                download(version, wheels)
            found = list(wheels.glob(f"tzdata-{version}-*.whl"))
            if len(found) != 1:
                sys.exit(f"make.py: expected one wheel of tzdata {version}, found {len(found)}")
            data = make_tar(found[0])
            if len(data) >= MAX_SIZE:
                sys.exit(f"make.py: tzdata {version}: {len(data)} bytes, the limit is {MAX_SIZE}")
            name = f"tzdata-{version}.tar"
            (args.out / name).write_bytes(data)
            print(f"{hashlib.sha256(data).hexdigest()}  {name}")


if __name__ == "__main__":
    main()
