#!/usr/bin/env python3
"""Writes a capture of UDP packets with random bytes, of which some repeat.

    scripts/random-packets.py OUT [SHARE]

20,000 packets of 1,200 bytes between 44 addresses, a millisecond apart. SHARE of them (0.1) are one of the
last 400 others again, between the same addresses; with 0, nothing repeats. The same bytes each time.
"""

import random
import struct
import sys

PACKETS, PAYLOAD, RECENT, SEED = 20_000, 1200, 400, 4


def checksum(header):
    total = sum(struct.unpack(">10H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def packet(number, source, destination, payload):
    udp = struct.pack(">HHHH", 5000 + number % 1000, 6000, 8 + len(payload), 0) + payload
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), number & 0xffff, 0, 64, 17, 0, source, destination)
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + udp


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    share = float(sys.argv[2]) if len(sys.argv) == 3 else 0.1
    dice = random.Random(SEED)
    addresses = [bytes((198, 51, 100, host)) for host in range(1, 45)]
    new = []
    with open(sys.argv[1], "xb") as out:
        # Raw IP (link type 101).
        out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
        for number in range(PACKETS):
            if new and dice.random() < share:
                one = dice.choice(new[-RECENT:])
            else:
                one = (*dice.sample(addresses, 2), dice.randbytes(PAYLOAD))
                new.append(one)
            data = packet(number, *one)
            out.write(struct.pack("<IIII", 1_700_000_000 + number // 1000, number % 1000 * 1000, len(data), len(data)))
            out.write(data)


main()
