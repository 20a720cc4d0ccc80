#!/usr/bin/env python3
"""Write a profile of synthetic content with many source networks, for `oncewire route --profile`.

Usage: routing-sources.py MAP.json SOURCES SHARED [SEED] > profile.tsv

Each populated node of the map sends in proportion to its population. Its content comes from SOURCES
source networks, whose volumes fall as 1/rank. Half of a network's bytes go to two egresses, drawn
as docs/ROUTING.md, "Synthetic traffic", says; a part SHARED of these is content that another
network of the same ingress has, too.
"""

import json
import random
import sys

path, sources, shared = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
nodes = [node for node in json.load(open(path))["nodes"] if node.get("population")]
print("interval\t60")
for number, ingress in enumerate(nodes):
    others = [node for node in nodes if node is not ingress]
    weights = [node["population"] for node in others]
    volumes = [1 / rank for rank in range(1, sources + 1)]
    rng.shuffle(volumes)
    scale = 1e-3 * ingress["population"] / sum(volumes)
    prefix = lambda source: f"10.{number}.{source}.0/24"
    content = {}
    for source, volume in enumerate(volumes):
        # Of a network's content, some pairs of egresses get much, others none.
        for _ in range(12):
            one, other = rng.choices(others, weights, k=2)
            pair = one is not other and rng.random() < 2 / 3
            also = rng.randrange(sources) if rng.random() < shared else source
            bytes_ = volume * scale / 12 / (2 if pair else 1)
            members = [(one["id"], prefix(source))]
            if pair:
                members.append((other["id"], prefix(also)))
            members = tuple(sorted(members, key=str))
            content[members] = content.get(members, 0) + bytes_
    for members, bytes_ in content.items():
        fields = [field for member in members for field in (*member, "1")]
        print("content", ingress["id"], f"{bytes_:.6f}", *fields, sep="\t")
