//! Packets of a capture, as they enter a network.

use super::LabError;
use oncewire_packet::checksum::Sum;
use oncewire_packet::{CaptureReader, Dissected, Dissector, Limits, Nanos, Transport};
use std::collections::HashMap;
use std::io::{BufWriter, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

/// Longest packet: the access device's MTU with the largest path MTU of the program.
pub(super) const LONGEST: usize = 8919;
/// Most bytes of packets that are kept in memory.
const MOST_BYTES: u64 = 1 << 30;
/// Addresses behind a node.
const BEHIND: u32 = 1 << 16;

/// Packets of a capture that do not enter, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Neither TCP nor UDP, or not readable.
    pub other: u64,
    /// Not captured as a whole.
    pub truncated: u64,
    /// Too long for the access devices: segments that a card had not cut yet.
    pub too_long: u64,
    /// Both addresses are behind one node.
    pub own: u64,
}

/// A packet.
pub(super) struct Entering {
    pub(super) time: Nanos,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: Arc<[u8]>,
}

/// The packets, in the order of the capture.
pub(super) struct Traffic {
    pub(super) packets: Vec<Entering>,
    pub(super) bytes: u64,
    pub(super) left_out: LeftOut,
}

/// The network behind a node.
pub(super) fn prefix(node: usize) -> String {
    format!("10.{}.0.0/16", node + 1)
}

/// Whether a packet is one of ours for this node.
pub(super) fn is_for(node: usize, packet: &[u8]) -> bool {
    packet.len() >= 28
        && packet[0] == 0x45
        && packet[12] == 10
        && packet[16..18] == [10, node as u8 + 1]
}

/// The nodes that a packet of ours is between.
pub(super) fn ends(packet: &[u8]) -> Option<(usize, usize)> {
    let is_ours = packet.len() >= 28 && packet[0] == 0x45 && packet[12] == 10 && packet[16] == 10;
    let number = |byte: u8| usize::from(byte).checked_sub(1);
    is_ours.then(|| number(packet[13]).zip(number(packet[17]))).flatten()
}

/// The addresses of a capture, each behind a node. In the order of their first packets they go to
/// random nodes, always the same ones.
struct Places {
    known: HashMap<IpAddr, (usize, Ipv4Addr)>,
    used: Vec<u32>,
    random: fastrand::Rng,
}

impl Places {
    fn of(&mut self, address: IpAddr) -> (usize, Ipv4Addr) {
        let Places { known, used, random } = self;
        *known.entry(address).or_insert_with(|| {
            let node = random.usize(..used.len());
            // Beyond 65,534 addresses behind a node they are shared.
            used[node] = used[node] % (BEHIND - 2) + 1;
            let [.., high, low] = used[node].to_be_bytes();
            (node, Ipv4Addr::new(10, node as u8 + 1, high, low))
        })
    }
}

impl Traffic {
    /// At most `most` packets of a capture for a network of `nodes` nodes.
    pub(super) fn read(capture: impl Read, nodes: usize, most: usize) -> Result<Traffic, LabError> {
        let wrong =
            |error: &dyn std::fmt::Display| LabError::Capture(format!("the capture: {error}"));
        let mut reader = CaptureReader::new(capture).map_err(|error| wrong(&error))?;
        let mut dissector = Dissector::new(Limits::default());
        let random = fastrand::Rng::with_seed(1);
        let mut places = Places { known: HashMap::new(), used: vec![0; nodes], random };
        let mut traffic = Traffic { packets: Vec::new(), bytes: 0, left_out: LeftOut::default() };
        while traffic.packets.len() < most
            && let Some(record) = reader.next()
        {
            let record = record.map_err(|error| wrong(&error))?;
            let Ok(packet) = dissector.dissect(&record) else {
                traffic.left_out.other += 1;
                continue;
            };
            let (from, source) = places.of(packet.source);
            let (to, destination) = places.of(packet.destination);
            let identification = traffic.packets.len() as u16;
            if packet.missing > 0 {
                traffic.left_out.truncated += 1;
            } else if packet.payload.len() > LONGEST - 40 {
                traffic.left_out.too_long += 1;
            } else if from == to {
                traffic.left_out.own += 1;
            } else {
                let bytes: Arc<[u8]> = built(&packet, source, destination, identification).into();
                traffic.bytes += bytes.len() as u64;
                traffic.packets.push(Entering { time: record.time, from, to, bytes });
            }
            if traffic.bytes > MOST_BYTES {
                return Err(LabError::Capture(
                    "the capture has more than 1 GiB for this network: limit it with --packets"
                        .into(),
                ));
            }
        }
        match traffic.packets.is_empty() {
            true => Err(LabError::Capture(format!(
                "no packet of the capture is between two nodes: {:?}",
                traffic.left_out
            ))),
            false => Ok(traffic),
        }
    }

    /// Writes the packets as a capture.
    pub(super) fn write(&self, path: &Path) -> Result<(), LabError> {
        let failed = || LabError::system(format!("writing {}", path.display()));
        let mut file = BufWriter::new(std::fs::File::create_new(path).map_err(failed())?);
        let mut head = Vec::new();
        // Nanoseconds; version 2.4; raw IP (101).
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 1 << 18, 101] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        file.write_all(&head).map_err(failed())?;
        for packet in &self.packets {
            let (seconds, rest) =
                (packet.time.div_euclid(1_000_000_000), packet.time.rem_euclid(1_000_000_000));
            let len = packet.bytes.len() as u32;
            for word in [seconds as u32, rest as u32, len, len] {
                file.write_all(&word.to_le_bytes()).map_err(failed())?;
            }
            file.write_all(&packet.bytes).map_err(failed())?;
        }
        file.flush().map_err(failed())
    }
}

/// The packet between two addresses of the network, with IPv4 and TCP or UDP headers without options.
fn built(
    packet: &Dissected<'_>,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    identification: u16,
) -> Vec<u8> {
    let mut transport = Vec::with_capacity(20 + packet.payload.len());
    let (from, to) = packet.transport.ports();
    transport.extend_from_slice(&from.to_be_bytes());
    transport.extend_from_slice(&to.to_be_bytes());
    let checksum_at = match packet.transport {
        Transport::Tcp { seq, ack, flags, window, .. } => {
            transport.extend_from_slice(&seq.to_be_bytes());
            transport.extend_from_slice(&ack.to_be_bytes());
            transport.extend_from_slice(&[0x50, flags]);
            transport.extend_from_slice(&window.to_be_bytes());
            transport.extend_from_slice(&[0; 4]);
            16
        }
        Transport::Udp { .. } => {
            let length = 8 + packet.payload.len() as u16;
            transport.extend_from_slice(&length.to_be_bytes());
            transport.extend_from_slice(&[0; 2]);
            6
        }
    };
    transport.extend_from_slice(packet.payload);
    let ends = (IpAddr::V4(source), IpAddr::V4(destination));
    let sum = Sum::of_pseudo_header(ends.0, ends.1, packet.protocol, transport.len());
    let sum = sum.plus(&transport).checksum();
    transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());

    let length = (20 + transport.len()) as u16;
    let mut bytes = vec![0x45, packet.dscp << 2];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&identification.to_be_bytes());
    bytes.extend_from_slice(&[0x40, 0, packet.ttl.max(1), packet.protocol, 0, 0]);
    bytes.extend_from_slice(&source.octets());
    bytes.extend_from_slice(&destination.octets());
    let sum = Sum::default().plus(&bytes).checksum();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(&transport);
    bytes
}
