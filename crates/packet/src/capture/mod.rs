//! Capture files: pcap and pcapng, plain or compressed.

mod buffer;
mod decompress;
mod pcap;
mod pcapng;

use std::{
    fmt,
    io::{self, Read},
};

use self::{buffer::Buffer, decompress::Source};
use crate::{LinkType, Nanos, Record};

/// Most captured bytes of one packet: 16 MiB. libpcap takes 262,144 for most link types; generic offloads make packets of 512
/// KiB.
const MAX_CAPTURED: usize = 16 << 20;

/// Largest pcapng block that is looked at; larger ones that are no packets are skipped.
const MAX_BLOCK: usize = MAX_CAPTURED + (64 << 10);

/// What a capture file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The libpcap format: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/>.
    Pcap,
    /// The pcap next generation format: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>.
    PcapNg,
}

/// What a capture file is compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// RFC 1952; members may follow each other.
    Gzip,
    /// RFC 8878; frames may follow each other.
    Zstd,
    /// <https://tukaani.org/xz/xz-file-format.txt>; streams may follow each other.
    Xz,
}

/// Why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The reader failed.
    #[error("reading the capture failed")]
    Io(#[from] io::Error),
    /// The first bytes are those of no capture format that we know.
    #[error("not a pcap or pcapng capture: it {looks} (first bytes: {first:02x?}){}", advice.map_or(String::new(), |a| format!("; {a}")))]
    NotACapture {
        /// The first bytes, at most 16, after decompression.
        first: Vec<u8>,
        /// What they look like, as the end of "it ...".
        looks: &'static str,
        /// What to do about it.
        advice: Option<&'static str>,
    },
    /// The file ends in the middle of a record, as when a disk was full or the capture still runs. All records before were good.
    #[error("the capture is cut: it ends at byte {at} in the middle of a {what}; all packets before were read")]
    Cut {
        /// Offset, after decompression, at which the unfinished record begins.
        at: u64,
        /// What is unfinished.
        what: &'static str,
    },
    /// A record contradicts the format; what follows it cannot be found.
    #[error(
        "the capture is damaged at byte {at}: {what}; the packets before are good (`pcapfix`, or `editcap -r`, may save more)"
    )]
    Malformed {
        /// Offset, after decompression, at which the bad record begins.
        at: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The compressed data are damaged, or need more memory than we grant.
    #[error(
        "decompressing the capture failed after {at} bytes of content: {what} (if it asks for more memory than 128 MiB, decompress it first)"
    )]
    Compressed {
        /// Bytes of content before.
        at: u64,
        /// What the decompressor says.
        what: String,
    },
}

/// Reads the records of a capture, in bounded memory: 256 KiB, or what the largest record needs, at most 32 MiB, and what a
/// decompressor needs, at most 130 MiB.
pub struct CaptureReader<R: Read> {
    buffer: Buffer<R>,
    format: State,
    /// After the end or an error.
    done: bool,
}

enum State {
    Pcap(pcap::Header),
    PcapNg(pcapng::Section),
}

/// A record without its bytes, which are the last `len` that were consumed but `behind`.
struct Found {
    time: Nanos,
    link: LinkType,
    wire_len: u32,
    len: usize,
    behind: usize,
}

impl<R: Read> CaptureReader<R> {
    /// Finds out from the first bytes of `reader` what it is. No buffering of `reader` is needed.
    ///
    /// # Errors
    /// [`CaptureError::NotACapture`], and whatever can go wrong while reading the header.
    pub fn new(reader: R) -> Result<Self, CaptureError> {
        let source = Source::open(reader).map_err(|e| decompress::FileError::unwrap(e).unwrap_or_else(|e| e))?;
        let mut buffer = Buffer::new(source);
        let head = buffer.peek(16)?;
        let format = if let Some(order) = pcap::Order::of(head) {
            State::Pcap(pcap::Header::read(&mut buffer, order)?)
        } else if head.starts_with(&pcapng::SECTION_HEADER) {
            State::PcapNg(pcapng::Section::read_first(&mut buffer)?)
        } else {
            return Err(not_a_capture(head));
        };
        Ok(Self { buffer, format, done: false })
    }

    /// The next record; `None` at the end, and ever after an error.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the reader")]
    pub fn next(&mut self) -> Option<Result<Record<'_>, CaptureError>> {
        if self.done {
            return None;
        }
        let found = match &mut self.format {
            State::Pcap(header) => header.next(&mut self.buffer),
            State::PcapNg(section) => section.next(&mut self.buffer),
        };
        match found {
            Ok(Some(Found { time, link, wire_len, len, behind })) => {
                let data = &self.buffer.consumed(len + behind)[..len];
                Some(Ok(Record { time, link, wire_len: wire_len.max(len as u32), data }))
            }
            Ok(None) => {
                self.done = true;
                None
            }
            Err(e) => {
                self.done = true;
                Some(Err(e))
            }
        }
    }

    /// The format of the file.
    pub fn format(&self) -> Format {
        match self.format {
            State::Pcap(_) => Format::Pcap,
            State::PcapNg(_) => Format::PcapNg,
        }
    }

    /// The compression around it.
    pub fn compression(&self) -> Compression {
        self.buffer.source().compression()
    }

    /// Bytes taken from the reader so far, for a progress bar: of the compressed file, if it is compressed. It runs ahead of
    /// [`next`](Self::next) by what is buffered.
    pub fn compressed_position(&self) -> u64 {
        self.buffer.source().compressed_position()
    }

    /// Bytes of the uncompressed capture in front of the next record.
    pub fn position(&self) -> u64 {
        self.buffer.position()
    }
}

impl<R: Read> fmt::Debug for CaptureReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureReader")
            .field("format", &self.format())
            .field("compression", &self.compression())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

/// Says what a file is that is no capture of ours.
fn not_a_capture(head: &[u8]) -> CaptureError {
    let convert = Some("`editcap -F pcapng IN OUT` may convert it");
    let (looks, advice) = match head {
        [] => ("is empty", None),
        [b's', b'n', b'o', b'o', b'p', ..] => ("looks like a snoop capture", convert),
        [b'G', b'M', b'B', b'U', ..] | [b'R', b'T', b'S', b'S', ..] => {
            ("looks like a Microsoft Network Monitor capture", convert)
        }
        [b'X', b'C', b'P', 0, ..] => ("looks like a NetXRay capture", convert),
        [b'T', b'R', b'S', b'N', ..] => ("looks like a Sniffer capture", convert),
        [b'P', b'K', 3, 4, ..] => ("is a zip archive", Some("unpack it")),
        [b'B', b'Z', b'h', ..] => ("is compressed with bzip2", Some("`bzip2 -dc FILE` decompresses it")),
        [0x04, 0x22, 0x4d, 0x18, ..] => ("is compressed with lz4", Some("`lz4 -dc FILE` decompresses it")),
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            ("is compressed twice", Some("decompress it once"))
        }
        [_, _, _] | [_, _] | [_] => ("is too short", None),
        _ if head.iter().all(|b| (b' '..=b'~').contains(b) || b"\r\n\t".contains(b)) => {
            ("is text", Some("captures are written by `tcpdump -w FILE`"))
        }
        _ => ("begins with no magic number of these formats", None),
    };
    CaptureError::NotACapture { first: head.to_vec(), looks, advice }
}
