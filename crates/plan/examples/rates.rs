//! How fast an ingress encodes and a device decodes, on one core, with packets in memory: the
//! thesis's tables 3.2 and 3.3 (section 3.5; SmartRE, tables 1 and 2).
//!
//! `cargo run --release -p oncewire-plan --example rates -- CAPTURE [STORE-MB]`
//!
//! One path with one device, which caches everything in a queue of STORE-MB (default 400, as in the
//! thesis). Rates are of the payload and headers that enter, by the least CPU time of three runs;
//! each packet is compared after decoding. Without hashing: the time of the sampler and of
//! fingerprints, measured apart, is taken off, since the thesis had them computed before.

use std::{
    error::Error,
    fs,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use cpu_time::ThreadTime;
use oncewire_codec::{Kernels, sampler::Sampling};
use oncewire_family::SamplerKind;
use oncewire_packet::{CaptureReader, Dissector, Limits};
use oncewire_plan::{
    DeviceId,
    engine::{
        Allocation, Budget, CacheTask, Common, Extension, Fields, Finding, Format, Gaps, Header,
        HeaderHasher, InFlight, Ingress, Node, Packet, Queues, Ranges, Route, Routes, Rules,
    },
    manifest::{DeviceManifest, IngressManifest},
};

type Failure = Box<dyn Error>;

/// Packets encoded before they are decoded, so that the clock is read seldom.
const BATCH: usize = 64;
/// Nanoseconds between packets: each has arrived before the next one enters.
const APART: u64 = 300_000_000;
const HEADERS: u32 = 54;

/// What three runs had in common, and the least times.
struct Rate {
    fingerprints: f64,
    /// Share of the bytes that was taken out, shims counted.
    saved: f64,
    matches: f64,
    hashing: Duration,
    encoding: Duration,
    decoding: Duration,
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let capture = args.next().ok_or("usage: rates CAPTURE [STORE-MB]")?;
    let store: u64 = args.next().map_or(Ok(400), |mb| mb.parse())?;
    let packets = packets(&fs::read(capture)?)?;
    let bytes: usize = packets.iter().map(|one| one.payload.len()).sum();
    let mean = bytes as f64 / packets.len() as f64;
    let bits = 8.0 * (bytes + packets.len() * HEADERS as usize) as f64;
    let gbps = |time: Duration| bits / time.as_secs_f64() / 1e9;
    let latency = latency();
    println!(
        "{} packets of {mean:.0} bytes of payload, {:.1} MB; a random access takes {:.0} ns",
        packets.len(),
        bytes as f64 / 1e6,
        latency.as_nanos()
    );
    let published = Rules {
        gaps: Gaps::Matched,
        copies: 1,
        queues: Queues::Paths,
        confirm: false,
        ..Rules::default()
    };
    for (name, rules) in [("published", published), ("default", Rules::default())] {
        println!("\n{name} rules\n\nfingerprints, encoding, without hashing, R/F, saved");
        for wanted in [32.0, 16.0, 10.0] {
            let rate = run(&packets, store, period(&packets, wanted), 3, rules)?;
            // Accesses per second over those of a packet, in packets of this size.
            let bound = bits / packets.len() as f64 / (latency.as_secs_f64() * rate.fingerprints);
            println!(
                "{:.1} {:.2} {:.2} {:.2} Gbit/s {:.2} %",
                rate.fingerprints,
                gbps(rate.encoding),
                gbps(rate.encoding.saturating_sub(rate.hashing)),
                bound / 1e9,
                100.0 * rate.saved
            );
        }
        println!("\nmatches, decoding, encoding, R/k, saved, found in a packet");
        let period = period(&packets, 10.0);
        for most in 1..=5 {
            let rate = run(&packets, store, period, most, rules)?;
            let bound = bits / packets.len() as f64 / (latency.as_secs_f64() * f64::from(most));
            println!(
                "{most} {:.2} {:.2} {:.2} Gbit/s {:.2} % {:.2}",
                gbps(rate.decoding),
                gbps(rate.encoding),
                bound / 1e9,
                100.0 * rate.saved,
                rate.matches
            );
        }
    }
    Ok(())
}

/// Payloads of a capture, with headers of one flow.
fn packets(capture: &[u8]) -> Result<Vec<Packet>, Failure> {
    let mut reader = CaptureReader::new(capture)?;
    let mut dissector = Dissector::new(Limits::default());
    let (mut all, mut sequence) = (Vec::new(), 0u32);
    while let Some(record) = reader.next() {
        let record = record?;
        let Ok(found) = dissector.dissect(&record) else { continue };
        if found.payload.is_empty() || found.missing > 0 {
            continue;
        }
        let number = all.len() as u64;
        let header = Header {
            source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            destination: IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)),
            source_port: 80,
            destination_port: 1024,
            protocol: 6,
            identification: Some(number as u16),
            transport: Fields::Tcp { sequence, acknowledgment: 0, checksum: 0 },
        };
        sequence = sequence.wrapping_add(found.payload.len() as u32);
        let payload: Arc<[u8]> = found.payload.into();
        all.push(Packet { time: number * APART, path: 0, header, header_bytes: HEADERS, payload });
    }
    if all.is_empty() { Err("no packets with payload".into()) } else { Ok(all) }
}

/// The sampling period that gives about so many fingerprints a packet.
fn period(packets: &[Packet], wanted: f64) -> usize {
    let mut period = 32;
    for _ in 0..4 {
        let finding = Finding { period, ..Finding::default() };
        let (found, _) = hashing(packets, &finding);
        period = (period as f64 * found / wanted).round().clamp(4.0, 1024.0) as usize;
    }
    period
}

/// The least times of three runs.
fn run(
    packets: &[Packet],
    store: u64,
    period: usize,
    most: u8,
    rules: Rules,
) -> Result<Rate, Failure> {
    let finding = Finding { period, ..Finding::default() };
    let (fingerprints, hashing) = hashing(packets, &finding);
    let mut best = Rate {
        fingerprints,
        saved: 0.0,
        matches: 0.0,
        hashing,
        encoding: Duration::MAX,
        decoding: Duration::MAX,
    };
    for _ in 0..3 {
        let rate = once(packets, store << 20, &finding, most, rules)?;
        best.encoding = best.encoding.min(rate.encoding);
        best.decoding = best.decoding.min(rate.decoding);
        (best.saved, best.matches) = (rate.saved, rate.matches);
    }
    Ok(best)
}

/// Markers and fingerprints of all packets: how many a packet, and the least time of three.
fn hashing(packets: &[Packet], finding: &Finding) -> (f64, Duration) {
    let (kernels, sampler) = (Kernels::detect(), SamplerKind::sample_byte().boxed());
    let (mut markers, mut hashes) = (Vec::new(), Vec::new());
    let (mut count, mut least) = (0, Duration::MAX);
    for _ in 0..3 {
        count = 0;
        let begun = ThreadTime::now();
        for packet in packets {
            markers.clear();
            markers.resize(packet.payload.len(), 0);
            let Finding { window, period, .. } = *finding;
            let block = &packet.payload[..];
            let sampling = Sampling { kernels, block, window, period, from: 0 };
            let found = sampler.sample(sampling, &mut markers).count;
            hashes.resize(found, 0);
            kernels.fingerprints(block, &markers[..found], window, 0, &mut hashes);
            count += std::hint::black_box(&hashes).len();
        }
        least = least.min(begun.elapsed());
    }
    (count as f64 / packets.len() as f64, least)
}

fn once(
    packets: &[Packet],
    store: u64,
    finding: &Finding,
    most: u8,
    rules: Rules,
) -> Result<Rate, Failure> {
    let device = DeviceManifest::from_json(&format!(
        r#"{{"format":1,"version":1,"network":"rates","hash":"oncewire-header-1","device":0,
            "name":"1","memory":{store},"ranges":[[0,0,4294967296,{store}]]}}"#
    ))?;
    let manifest = IngressManifest::from_json(&format!(
        r#"{{"format":1,"version":1,"network":"rates","hash":"oncewire-header-1","ingress":0,
            "name":"0","memory":{store},"tree":[[0,0]],
            "paths":[{{"path":0,"egress":"1","leaf":1,"ranges":[[1,4294967296,{store}]]}}]}}"#
    ))?;
    let (format, hash) = (
        Format { max_matches: most, ..Format::default() },
        HeaderHasher { seed: 0, extension: Extension::Always },
    );
    let known = Routes::all(vec![Route::through(vec![Some(DeviceId(0))])]);
    let budget = || vec![Budget { all: f64::INFINITY, caching: f64::INFINITY }; 2];
    let allocation = Arc::new(Allocation::of_ingress(&manifest));
    let mut ingress = Ingress::new(
        (finding, 0),
        manifest.bytes(),
        rules.copies,
        allocation.clone(),
        1.0,
        budget(),
    )?;
    ingress.expect(manifest.bytes());
    ingress.switch(allocation, 1, [0], budget(), rules);
    let mut node = Node::default();
    node.install(1, Ranges::of_manifest(&device, |_| 0));

    let mut rate = Rate {
        fingerprints: 0.0,
        saved: 0.0,
        matches: 0.0,
        hashing: Duration::ZERO,
        encoding: Duration::ZERO,
        decoding: Duration::ZERO,
    };
    let (mut flights, mut entered, mut sent) = (Vec::<InFlight>::new(), 0, 0);
    for batch in packets.chunks(BATCH) {
        let begun = ThreadTime::now();
        for packet in batch {
            let common = Common {
                format: &format,
                hash: &hash,
                window: finding.window,
                known: &known,
                rules,
                now: packet.time,
                round_trip: 200_000_000,
                due: 0.0,
            };
            let (flight, one) = ingress.encode(&common, packet, hash.identity(&packet.header))?;
            rate.matches += f64::from(one.matches);
            flights.push(flight);
        }
        rate.encoding += begun.elapsed();
        for (packet, flight) in batch.iter().zip(&flights) {
            entered += HEADERS as usize + packet.payload.len();
            sent += HEADERS as usize + flight.shim.len() + flight.body.bytes().len();
        }
        let begun = ThreadTime::now();
        for (packet, flight) in batch.iter().zip(&mut flights) {
            let identity = hash.identity(&packet.header);
            let task = CacheTask {
                holds: node.holds(0, identity.hash()),
                name: identity.name(format.name_bytes),
                header_bytes: HEADERS,
                path: 0,
                queue: 0,
                window: finding.window,
            };
            node.receive(&format, &hash, &task, flight)?;
        }
        rate.decoding += begun.elapsed();
        for (packet, flight) in batch.iter().zip(flights.drain(..)) {
            if flight.body.bytes() != &packet.payload[..] {
                return Err("a packet was not decoded".into());
            }
        }
    }
    rate.saved = 1.0 - sent as f64 / entered as f64;
    rate.matches /= packets.len() as f64;
    Ok(rate)
}

/// Time of a random access to memory: each address is what was read before.
fn latency() -> Duration {
    const LEN: usize = 1 << 26;
    const STEPS: u32 = 1 << 22;
    // One cycle through all places (Sattolo 1986).
    let mut next: Vec<u32> = (0..LEN as u32).collect();
    let mut random = oncewire_kernels::random::SplitMix64(1);
    for last in (1..LEN).rev() {
        next.swap(last, random.below(last as u64) as usize);
    }
    let begun = ThreadTime::now();
    let at = (0..STEPS).fold(0, |at, _| next[at as usize]);
    std::hint::black_box(at);
    begun.elapsed() / STEPS
}
