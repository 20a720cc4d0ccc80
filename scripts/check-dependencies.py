#!/usr/bin/env python3
"""Checks licenses, sources and banned crates of all dependencies against deny.toml.

Covers what this project uses of `cargo deny check licenses bans sources`, which takes longer to install than CI can
afford. Needs cargo and Python 3.11 or later. Exit status: 1 if a dependency breaks a rule.

Usage: scripts/check-dependencies.py
"""
import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def allowed(expression, licenses):
    """Whether an SPDX license expression can be satisfied; the old `/` means OR, and exceptions only add rights."""
    tokens = re.findall(r"[()]|[^\s()/]+", expression.replace("/", " OR "))
    at = 0

    def peek():
        return tokens[at] if at < len(tokens) else None

    def following():
        nonlocal at
        at += 1
        return tokens[at - 1]

    def term():
        if peek() == "(":
            following()
            value = either()
            if following() != ")":
                raise ValueError("a parenthesis is missing")
            return value
        value = following() in licenses
        if peek() == "WITH":
            following()
            following()
        return value

    def both():
        value = term()
        while peek() == "AND":
            following()
            value = term() and value
        return value

    def either():
        value = both()
        while peek() == "OR":
            following()
            value = both() or value
        return value

    value = either()
    if peek() is not None:
        raise ValueError(f"unexpected {peek()}")
    return value


def problems(rules, packages):
    licenses = set(rules["licenses"]["allow"])
    registries = {f"registry+{url}" for url in rules["sources"]["allow-registry"]}
    banned = {entry["crate"] for entry in rules["bans"]["deny"]}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        try:
            if not allowed(package["license"] or "", licenses):
                yield f"{name}: license {package['license']} is not allowed"
        except (IndexError, ValueError) as error:
            yield f"{name}: cannot read license {package['license']!r}: {error}"
        if package["source"] is not None and package["source"] not in registries:
            yield f"{name}: source {package['source']} is not allowed"
        if package["name"] in banned:
            yield f"{name}: banned by deny.toml"
        if package["source"] is None:
            for dependency in package["dependencies"]:
                if dependency["req"] == "*" and "path" not in dependency:
                    yield f"{name}: any version of {dependency['name']} is accepted"


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    found = list(problems(rules, packages))
    for problem in found:
        print(f"check-dependencies: {problem}", file=sys.stderr)
    versions = {}
    for package in packages:
        versions.setdefault(package["name"], []).append(package["version"])
    several = ", ".join(name for name, seen in sorted(versions.items()) if len(seen) > 1)
    print(f"check-dependencies: {len(packages)} crates, {len(found)} problems; more than one version of: {several or 'none'}")
    sys.exit(1 if found else 0)


main()
