//! The fuzz target on stable: its corpus, and some thousand changes of it that are the same every
//! time.
//!
//! `ONCEWIRE_BLESS=1 cargo test -p oncewire-packet --test all fuzz_seeds` writes the seeds into the
//! corpus; what libFuzzer found beyond them is kept there too.

use crate::build;
use crate::fuzz_entry;

use std::io::Write;

use oncewire_packet::LinkType;
use oncewire_testkit::fuzz::{self, LARGEST};

/// Changes tried: about a second.
const MUTATIONS: usize = 20_000;

/// Packets of each link type, fragments, and a file of each format and compression.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    let record = |packet: &[u8]| [&(packet.len() as u16).to_be_bytes()[..], &[0], packet].concat();
    let mut kinds = Vec::new();
    for (kind, link) in LinkType::SUPPORTED.iter().enumerate() {
        let packets =
            build::packets().into_iter().filter(|packet| packet.0 == *link).map(|packet| packet.1);
        kinds.push((format!("seed-{}", link.0), kind as u8, packets.collect::<Vec<_>>()));
    }
    let segment = build::udp(53, build::PAYLOAD);
    let raw = LinkType::SUPPORTED.iter().position(|link| *link == LinkType::RAW).unwrap() as u8;
    let fragments = [(0, 16), (48, segment.len()), (16, 48)].map(|(begin, end)| {
        let bytes = &segment[begin..end];
        let more = end < segment.len();
        [
            build::ipv4_fragment(17, 1, begin, more, bytes),
            build::ipv6_fragment(17, 1, begin, more, bytes),
        ]
    });
    kinds.push(("seed-fragments".to_owned(), raw, fragments.concat()));
    for (name, kind, packets) in kinds {
        let mut seed = vec![kind];
        let mut part = 0;
        for packet in packets {
            if seed.len() + packet.len() + 3 > LARGEST {
                seeds.push((format!("{name}-{part}"), std::mem::replace(&mut seed, vec![kind])));
                part += 1;
            }
            seed.extend(record(&packet));
        }
        seeds.push((format!("{name}-{part}"), seed));
    }

    let packet = build::ethernet(0x0800, &build::ipv4(6, &build::tcp(build::PAYLOAD)));
    let le = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let len = packet.len() as u32;
    let pcap =
        [le(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1, 5, 6, len, len]), packet.clone()].concat();
    let block = |kind: u32, body: &[u8]| {
        let padded = [body, &vec![0; body.len().next_multiple_of(4) - body.len()]].concat();
        let total = padded.len() as u32 + 12;
        [le(&[kind, total]), padded, le(&[total])].concat()
    };
    let pcapng = [
        block(0x0a0d_0d0a, &le(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX])),
        block(1, &le(&[1, 0, 0x0001_0009, 9, 0x0008_000e, 1, 0, 0])),
        block(6, &[&le(&[0, 0, 5, len, len])[..], &packet].concat()),
        block(3, &[&le(&[len])[..], &packet].concat()),
        block(2, &[&le(&[0, 0, 5, len, len])[..], &packet].concat()),
    ]
    .concat();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&pcap).unwrap();
    let mut zstd = Vec::with_capacity(zstd_safe::compress_bound(pcap.len()));
    zstd_safe::compress(&mut zstd, &pcap, 3).unwrap();
    let mut xz =
        lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(0)).unwrap();
    xz.write_all(&pcap).unwrap();
    let files = [
        ("pcap", pcap),
        ("pcapng", pcapng),
        ("gzip", gzip.finish().unwrap()),
        ("zstd", zstd),
        ("xz", xz.finish().unwrap()),
    ];
    seeds.extend(files.map(|(name, file)| (format!("seed-{name}"), [&[0xff][..], &file].concat())));
    seeds
}

#[test]
fn corpus_and_changes_of_it() {
    fuzz::seeds("capture", seeds());
    fuzz::replay("capture", fuzz_entry::run, MUTATIONS);
}
