//! Counts compressed streams, and how many are followed to their end, by carrier.

use crate::inside::follow::container::Framing;
use crate::inside::follow::frames;

/// The carrier of a compressed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// RFC 1952.
    Gzip,
    /// RFC 1950.
    Zlib,
    /// An entry of a zip archive.
    Zip,
    /// RFC 8878.
    Zstd,
    /// IDAT chunks of PNG.
    Png,
    /// Chunks of HTTP/1.1 around gzip, zlib or zstd.
    Chunked,
    /// DATA frames of HTTP/2 around these.
    Http2,
}

impl Carrier {
    /// All carriers.
    pub const ALL: [Carrier; 7] = [
        Carrier::Gzip,
        Carrier::Zlib,
        Carrier::Zip,
        Carrier::Zstd,
        Carrier::Png,
        Carrier::Chunked,
        Carrier::Http2,
    ];

    /// A short name: `gzip`.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Gzip => "gzip",
            Carrier::Zlib => "zlib",
            Carrier::Zip => "zip",
            Carrier::Zstd => "zstd",
            Carrier::Png => "PNG",
            Carrier::Chunked => "HTTP chunks",
            Carrier::Http2 => "HTTP/2",
        }
    }

    /// The carrier that begins with this header.
    pub(in crate::inside) fn of(header: &[u8]) -> Carrier {
        match header {
            [0x1f, 0x8b, ..] => Carrier::Gzip,
            [b'P', b'K', ..] => Carrier::Zip,
            _ if header.starts_with(&frames::MAGIC) => Carrier::Zstd,
            _ => Carrier::Zlib,
        }
    }

    pub(in crate::inside) fn within(self, framing: Framing) -> Carrier {
        match framing {
            Framing::None => self,
            Framing::Chunked(_) => Carrier::Chunked,
            Framing::Png(_) => Carrier::Png,
            Framing::Data { .. } => Carrier::Http2,
        }
    }
}

/// Streams of one carrier. Those that neither ended nor broke were truncated, were found as bytes
/// from some place on, or continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCount {
    /// Streams with enough tokens to rule out a false start, or with an end.
    pub begun: u64,
    /// Of these, streams whose tokens were all read.
    pub ended: u64,
    /// Of these, streams followed by bits that are not deflate or zstd.
    pub broken: u64,
}

/// Counts by carrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts([StreamCount; Carrier::ALL.len()]);

impl StreamCounts {
    /// The counts of this carrier.
    pub fn get(&self, carrier: Carrier) -> StreamCount {
        self.0[carrier as usize]
    }

    pub(in crate::inside) fn of(&mut self, carrier: Carrier) -> &mut StreamCount {
        &mut self.0[carrier as usize]
    }
}

impl std::ops::AddAssign for StreamCounts {
    fn add_assign(&mut self, other: StreamCounts) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            sum.begun += count.begun;
            sum.ended += count.ended;
            sum.broken += count.broken;
        }
    }
}
