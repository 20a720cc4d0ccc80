//! The algorithms that the study compares, by name.

/// An algorithm of the study: a row of figure 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Algorithm {
    Gzip,
    GzipWindow,
    GzipFlow,
    ZstdWindow,
    ZstdFlow,
    Payload,
    PayloadGzip,
    Modp,
    Maxp,
    MaxpPublished,
    Fixed,
    SampleByte,
    SampleHash,
    Peaks,
    Chunk,
    ChunkWindow,
    MaxpQuad,
    MaxpGzip,
    MaxpZstd,
    Pairs,
    Shared,
    Optimal,
    Packets,
    Tunnel,
    TunnelBytes,
}

impl Algorithm {
    /// All, in the order of the table.
    pub const ALL: [Algorithm; 25] = [
        Algorithm::Gzip,
        Algorithm::GzipWindow,
        Algorithm::GzipFlow,
        Algorithm::ZstdWindow,
        Algorithm::ZstdFlow,
        Algorithm::Payload,
        Algorithm::PayloadGzip,
        Algorithm::Modp,
        Algorithm::Maxp,
        Algorithm::MaxpPublished,
        Algorithm::Fixed,
        Algorithm::SampleByte,
        Algorithm::SampleHash,
        Algorithm::Peaks,
        Algorithm::Chunk,
        Algorithm::ChunkWindow,
        Algorithm::MaxpQuad,
        Algorithm::MaxpGzip,
        Algorithm::MaxpZstd,
        Algorithm::Pairs,
        Algorithm::Shared,
        Algorithm::Optimal,
        Algorithm::Packets,
        Algorithm::Tunnel,
        Algorithm::TunnelBytes,
    ];

    /// The default: each adds an insight of its own, and takes a second or two for 300 MB.
    pub const LEAN: [Algorithm; 5] = [
        Algorithm::ZstdWindow,
        Algorithm::Payload,
        Algorithm::Maxp,
        Algorithm::Packets,
        Algorithm::Tunnel,
    ];

    /// Its name, as in `--algorithms`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Gzip => "gzip",
            Algorithm::GzipWindow => "gzip-10ms",
            Algorithm::GzipFlow => "gzip-10ms-flow",
            Algorithm::ZstdWindow => "zstd-10ms",
            Algorithm::ZstdFlow => "zstd-10ms-flow",
            Algorithm::Payload => "payload",
            Algorithm::PayloadGzip => "payload+gzip",
            Algorithm::Modp => "modp",
            Algorithm::Maxp => "maxp",
            Algorithm::MaxpPublished => "maxp-published",
            Algorithm::Fixed => "fixed",
            Algorithm::SampleByte => "samplebyte",
            Algorithm::SampleHash => "samplehash",
            Algorithm::Peaks => "peaks",
            Algorithm::Chunk => "chunk",
            Algorithm::ChunkWindow => "chunk-martynov",
            Algorithm::MaxpQuad => "maxp-4x",
            Algorithm::MaxpGzip => "re+gzip-10ms",
            Algorithm::MaxpZstd => "re+zstd-10ms",
            Algorithm::Pairs => "samplebyte-pairs",
            Algorithm::Shared => "samplebyte-2g",
            Algorithm::Optimal => "optimal",
            Algorithm::Packets => "oncewire-link",
            Algorithm::Tunnel => "oncewire-tunnel",
            Algorithm::TunnelBytes => "oncewire-tunnel-bytes",
        }
    }

    /// A short description.
    pub fn what(self) -> &'static str {
        match self {
            Algorithm::Gzip => "DEFLATE 6 of each payload",
            Algorithm::GzipWindow => "DEFLATE 6 over 10 ms, flows mixed",
            Algorithm::GzipFlow => "DEFLATE 6 over 10 ms of a flow",
            Algorithm::ZstdWindow => "zstd 3 over 10 ms, flows mixed",
            Algorithm::ZstdFlow => "zstd 3 over 10 ms of a flow",
            Algorithm::Payload => "whole payloads by name, LRU (Santos and Wetherall)",
            Algorithm::PayloadGzip => "payload-match, then DEFLATE of each payload",
            Algorithm::Modp => "max-match, MODP",
            Algorithm::Maxp => "max-match, MAXP",
            Algorithm::MaxpPublished => "max-match, MAXP without forced markers (thesis)",
            Algorithm::Fixed => "max-match, FIXED",
            Algorithm::SampleByte => "max-match, SAMPLEBYTE",
            Algorithm::SampleHash => "max-match, SAMPLEHASH (Oncewire)",
            Algorithm::Peaks => "max-match, PEAKS (Oncewire)",
            Algorithm::Chunk => "chunk-match, SAMPLEBYTE (EndRE)",
            Algorithm::ChunkWindow => "chunk-match, MODP, chunks end with the window (Martynov)",
            Algorithm::MaxpQuad => "max-match, MAXP, four times the cache",
            Algorithm::MaxpGzip => "the reference, then DEFLATE over 10 ms",
            Algorithm::MaxpZstd => "the reference, then zstd over 10 ms",
            Algorithm::Pairs => "max-match, SAMPLEBYTE, 10 MB per pair of hosts (EndRE)",
            Algorithm::Shared => "max-match, SAMPLEBYTE, 2 GB shared (EndRE's WAN optimizer)",
            Algorithm::Optimal => "upper bound, by a Bloom filter (thesis)",
            Algorithm::Packets => {
                "oncewire link: runs of packets in datagrams, with seal and headers"
            }
            Algorithm::Tunnel => {
                "oncewire serve and connect: TCP flows, with TLS, headers, acknowledgments"
            }
            Algorithm::TunnelBytes => {
                "the same with --inside off: repeats inside deflate and zstd are not found"
            }
        }
    }

    /// The algorithm with that name.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}
