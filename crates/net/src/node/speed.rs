//! How much this machine can encode and decode, measured with two nodes in memory.

use super::machine::{Machine, Step};
use super::place::NodeSettings;
use super::setup::{Manifests, RunningNetwork};
use oncewire_plan::manifest::{DeviceManifest, IngressManifest};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long is measured.
const TIME: Duration = Duration::from_millis(100);
/// Packets between looks at the clock for the end.
const ROUND: u32 = 256;
/// Packets after which content comes again.
const AGAIN: u32 = 64;
/// Bytes of payload.
const PAYLOAD: usize = 972;

const NETWORK: &str = r#"{"name": "speed", "nodes": [
    {"id": "0", "population": 1, "prefixes": ["10.0.0.0/16"]},
    {"id": "1", "population": 1, "prefixes": ["10.1.0.0/16"]}], "links": [{"a": "0", "b": "1"}]}"#;
const DEVICE: &str = r#"{"format":1,"version":1,"network":"speed","hash":"oncewire-header-1","device":0,
    "name":"1","memory":8000000,"ranges":[[0,0,4294967296,8000000]]}"#;
const INGRESS: &str = r#"{"format":1,"version":1,"network":"speed","hash":"oncewire-header-1","ingress":0,
    "name":"0","memory":8000000,"tree":[[0,0]],
    "paths":[{"path":0,"egress":"1","leaf":1,"ranges":[[1,4294967296,8000000]]}]}"#;

/// What a node can do in a second with one core, apart from sealing and sending datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// Packets of 1,000 bytes that it encodes.
    pub encodings: f64,
    /// Packets that it caches, and matches that it decodes.
    pub operations: f64,
}

/// Measures for a tenth of a second: packets of 1,000 bytes, half of whose bytes were sent before.
/// `None` without memory for it.
pub fn measure_speeds() -> Option<Speeds> {
    let network = Arc::new(RunningNetwork::parse(NETWORK).ok()?);
    let device = DeviceManifest::from_json(DEVICE).ok()?;
    let ingress = IngressManifest::from_json(INGRESS).ok()?;
    let manifests = Manifests::new(vec![device], vec![ingress]).ok()?;
    let node =
        |me| Machine::new(network.clone(), me, &manifests, NodeSettings::default(), None).ok();
    let (mut first, mut second) = (node(0)?, node(1)?);
    let (mut encoding, mut decoding) = (Duration::ZERO, Duration::ZERO);
    let (mut steps, mut last) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    let mut packets = 0_u32;
    let mut state = 1_u64;
    while packets < 2 * ROUND || begun.elapsed() < TIME {
        for _ in 0..ROUND {
            packets += 1;
            // A time far enough apart that all packets count as arrived.
            let now = u64::from(packets) * 300_000_000;
            let packet = packet(packets, &mut state);
            let started = Instant::now();
            first.enter(&packet, now, &mut steps);
            encoding += started.elapsed();
            let started = Instant::now();
            for step in steps.drain(..) {
                if let Step::Send { kind, bits, body, .. } = step {
                    second.arrive(0, (kind, bits, &body), &mut last);
                }
            }
            decoding += started.elapsed();
            last.clear();
        }
    }
    let done = second.counters();
    let operations = (done.cached + done.decoded) as f64 / decoding.as_secs_f64();
    let encodings = f64::from(packets) / encoding.as_secs_f64();
    let is_sound = done.decoded > 0 && operations.is_finite() && encodings.is_finite();
    is_sound.then_some(Speeds { encodings, operations })
}

/// A packet of UDP from the first node to the second. Its first half is that of the packet [`AGAIN`] before.
fn packet(number: u32, state: &mut u64) -> Vec<u8> {
    let mut packet =
        vec![0x45, 0, 0x03, 0xe8, (number >> 8) as u8, number as u8, 0x40, 0, 64, 17, 0, 0];
    packet.extend([10, 0, 0, 9, 10, 1, 0, 1]);
    packet.extend([0x30, 0x39, (number >> 24) as u8, (number >> 16) as u8, 0x03, 0xd4, 0, 0]);
    let mut repeated = u64::from(number % AGAIN) + 1;
    while packet.len() < 28 + PAYLOAD {
        let is_first = packet.len() < 28 + PAYLOAD / 2;
        let random = if is_first { &mut repeated } else { &mut *state };
        // xorshift (Marsaglia 2003).
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        packet.extend(random.to_le_bytes());
    }
    packet.truncate(28 + PAYLOAD);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_speeds_are_measured() {
        RunningNetwork::parse(NETWORK).expect("a network");
        DeviceManifest::from_json(DEVICE).expect("a device");
        IngressManifest::from_json(INGRESS).expect("an ingress");
        let speeds = measure_speeds().expect("a measurement");
        assert!(speeds.encodings > 100.0 && speeds.operations > 100.0, "{speeds:?}");
    }
}
