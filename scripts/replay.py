#!/usr/bin/env python3
"""Sends the IP packets of one side of a capture into a tun device, at their times, in runs as the kernel would join them.

    scripts/replay.py DEVICE CAPTURE NETWORKS near|far

CAPTURE is a pcap file of Ethernet. The near side is what comes from NETWORKS, separated by commas. Prints the number of packets,
their bytes with Ethernet headers, and how many were skipped, as JSON. `scripts/link.py --replay` uses it. Needs root.
"""

import ipaddress
import json
import socket
import struct
import sys
import time

SOL_PACKET, PACKET_VNET_HDR = 263, 15


def packets(capture):
    """The IP packets of a capture: their time in seconds, whether they are IPv6, their source and their bytes."""
    with open(capture, "rb") as file:
        head = file.read(24)
        order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}
        order = order.get(head[:4])
        if order is None or struct.unpack(order + "I", head[20:])[0] & 0xffff != 1:
            sys.exit(f"replay.py: {capture} is not a pcap file of Ethernet")
        while len(record := file.read(16)) == 16:
            seconds, fraction, length, _ = struct.unpack(order + "4I", record)
            time_of = seconds + fraction / (1e9 if head[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d") else 1e6)
            frame = file.read(length)
            kind, packet = frame[12:14], frame[14:]
            # Without the padding of short frames.
            if kind == b"\x08\x00" and len(packet) >= 20:
                yield time_of, False, ipaddress.ip_address(packet[12:16]), packet[:int.from_bytes(packet[2:4], "big")]
            elif kind == b"\x86\xdd" and len(packet) >= 40:
                yield time_of, True, ipaddress.ip_address(packet[8:24]), packet[:40 + int.from_bytes(packet[4:6], "big")]


class Run:
    """A packet of a capture, or segments of TCP that the kernel would join (GRO)."""

    # As the study joins them: seconds, segments, bytes.
    LONGEST, MOST, ROOM = 0.0001, 128, 65_435

    def __init__(self, time_of, is_ipv6, packet):
        self.time_of, self.is_ipv6, self.packets = time_of, is_ipv6, [packet]
        self.at = 40 if is_ipv6 else 4 * (packet[0] & 15)
        protocol = packet[6] if is_ipv6 else packet[9]
        is_fragment = not is_ipv6 and int.from_bytes(packet[6:8], "big") & 0x3fff
        self.flow = None
        if protocol != 6 or is_fragment or len(packet) < self.at + 20:
            return
        self.head = self.at + 4 * (packet[self.at + 12] >> 4)
        self.size = self.length = len(packet) - self.head
        # Addresses and ports; then what must be the same in all segments: the acknowledgment, the window and the options.
        self.flow = packet[8 if is_ipv6 else 12:self.at][:32] + packet[self.at:self.at + 4]
        self.same = self.same_of(packet)
        self.next = int.from_bytes(packet[self.at + 4:self.at + 8], "big") + self.length
        # Nothing follows FIN, SYN, RST and PSH.
        self.is_full = self.length <= 0 or packet[self.at + 13] & 0x0f != 0

    def same_of(self, packet):
        return packet[self.at + 8:self.at + 13] + packet[self.at + 14:self.at + 16] + packet[self.at + 20:self.head]

    def join(self, other):
        """Appends the segment of another one, if it follows."""
        packet, length = other.packets[0], other.length
        follows = (not self.is_full and other.same == self.same and packet[other.at + 13] & 0x07 == 0
                   and (other.next - length - self.next) % 2**32 == 0 and 0 < length <= self.size
                   and self.length + length <= self.ROOM)
        if follows:
            self.packets.append(packet)
            self.next, self.length = other.next, self.length + length
            self.is_full = length < self.size or packet[other.at + 13] & 0x08 != 0 or len(self.packets) == self.MOST
        return follows

    def bytes(self):
        """With a virtio header, as for a device that cuts segments itself."""
        if len(self.packets) == 1:
            return bytes(10) + self.packets[0]
        packet = bytearray(b"".join([self.packets[0], *(packet[self.head:] for packet in self.packets[1:])]))
        transport = len(packet) - self.at
        packet[self.at + 13] |= self.packets[-1][self.at + 13]
        if self.is_ipv6:
            packet[4:6] = transport.to_bytes(2, "big")
            addresses = packet[8:40]
        else:
            packet[2:4], packet[10:12] = len(packet).to_bytes(2, "big"), bytes(2)
            packet[10:12] = (0xffff - total(packet[:self.at])).to_bytes(2, "big")
            addresses = packet[12:20]
        # The checksum is open: the sum of the pseudo-header.
        packet[self.at + 16:self.at + 18] = total(addresses + transport.to_bytes(4, "big") + b"\0\0\0\6").to_bytes(2, "big")
        return struct.pack("=BBHHHH", 1, 4 if self.is_ipv6 else 1, self.head, self.size, self.at, 16) + packet


def total(content):
    """The Internet checksum, not complemented (RFC 1071)."""
    number = sum(struct.unpack(f">{len(content) // 2}H", content))
    while number >> 16:
        number = (number & 0xffff) + (number >> 16)
    return number


def runs(capture, networks, is_near):
    """The packets of one side of a capture, joined as the kernel joins them, in the order of their last segments."""
    begun, open_runs = None, {}
    for time_of, is_ipv6, source, packet in packets(capture):
        begun = time_of if begun is None else begun
        if any(source in network for network in networks) != is_near:
            continue
        run = Run(time_of - begun, is_ipv6, packet)
        for flow in [flow for flow, old in open_runs.items() if run.time_of - old.time_of >= Run.LONGEST]:
            yield open_runs.pop(flow)
        old = open_runs.pop(run.flow, None)
        if old and old.join(run):
            run = old
        elif old:
            yield old
        if run.flow is None or run.is_full:
            yield run
        else:
            open_runs[run.flow] = run
    yield from open_runs.values()


def inject(device, capture, inside, is_near):
    """Sends the packets of a side into the device, at their times or later. Prints one line of JSON."""
    networks = [ipaddress.ip_network(network) for network in inside.split(",")]
    count = length = skipped = sent = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        begun = time.perf_counter()
        for run in runs(capture, networks, is_near):
            early = run.time_of - (time.perf_counter() - begun)
            if early > 0.0002:
                time.sleep(early)
            try:
                out.sendto(run.bytes(), (device, 0x86dd if run.is_ipv6 else 0x0800))
            except OSError:
                # Longer than the device's MTU.
                skipped += len(run.packets)
                continue
            count, length = count + len(run.packets), length + sum(14 + len(packet) for packet in run.packets)
            if count // 32 != sent // 32:
                # The tunnel's process may get no time slice for so long.
                time.sleep(0.005)
            sent = count
    print(json.dumps({"packets": count, "bytes": length, "skipped": skipped}))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    inject(*sys.argv[1:4], sys.argv[4] == "near")
