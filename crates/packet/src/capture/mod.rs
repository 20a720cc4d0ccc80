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

/// Most captured bytes of one packet: 16 MiB. libpcap's limit is 262,144 for most link types, but
/// generic segmentation offload can produce packets of 512 KiB.
const MAX_CAPTURED: usize = 16 << 20;

/// Largest pcapng block that is read. Larger blocks are skipped unless they hold packets.
const MAX_BLOCK: usize = MAX_CAPTURED + (64 << 10);

/// The format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The libpcap format: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/>.
    Pcap,
    /// The pcap next generation format:
    /// <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>.
    PcapNg,
}

/// The compression of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed.
    None,
    /// RFC 1952, with any number of members.
    Gzip,
    /// RFC 8878, with any number of frames.
    Zstd,
    /// <https://tukaani.org/xz/xz-file-format.txt>; streams may follow each other.
    Xz,
}

/// Why a capture, or the rest of it, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The reader failed.
    #[error("reading the capture failed")]
    Io(#[from] io::Error),
    /// The file does not start like a supported capture format.
    #[error("not a pcap or pcapng capture: it {looks} (first bytes: {first:02x?}){}", advice.map_or(String::new(), |a| format!("; {a}")))]
    NotACapture {
        /// The first bytes, at most 16, after decompression.
        first: Vec<u8>,
        /// What they look like; completes the sentence "it ...".
        looks: &'static str,
        /// What the user can do about it.
        advice: Option<&'static str>,
    },
    /// The file ends in the middle of a record, for example because a disk was full or the capture
    /// is still running. All records before that were read.
    #[error(
        "the capture is truncated: it ends at byte {at} in the middle of a {what}; all packets before that were read"
    )]
    Cut {
        /// Offset, after decompression, at which the unfinished record begins.
        at: u64,
        /// The kind of structure that is incomplete.
        what: &'static str,
    },
    /// A record violates the format, so the next one cannot be located.
    #[error(
        "the capture is corrupt at byte {at}: {what}; the packets before that were read (`pcapfix` or `editcap -r` may recover more)"
    )]
    Malformed {
        /// Offset, after decompression, at which the bad record begins.
        at: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The compressed data are corrupt, or need more memory than the limit.
    #[error(
        "decompressing the capture failed after {at} bytes of content: {what} (if it needs more than 128 MiB of memory, decompress it first)"
    )]
    Compressed {
        /// Bytes decompressed before the error.
        at: u64,
        /// The decompressor's message.
        what: String,
    },
}

/// Reads the records of a capture in bounded memory: 256 KiB or the size of the largest record (at
/// most 32 MiB), plus at most 130 MiB for a decompressor.
pub struct CaptureReader<R: Read> {
    buffer: Buffer<R>,
    format: FormatReader,
    /// Set at the end and after an error.
    done: bool,
}

enum FormatReader {
    Pcap(pcap::Header),
    PcapNg(pcapng::Section),
}

/// A record without its bytes. Those are the last `len` bytes consumed, except for the final
/// `behind`.
struct Found {
    time: Nanos,
    link: LinkType,
    wire_len: u32,
    len: usize,
    behind: usize,
}

impl<R: Read> CaptureReader<R> {
    /// Recognizes the format from the first bytes of `reader`, which need not be buffered.
    ///
    /// # Errors
    /// [`CaptureError::NotACapture`], and any error while reading the header.
    pub fn new(reader: R) -> Result<Self, CaptureError> {
        let source = Source::open(reader)
            .map_err(|e| decompress::FileError::unwrap(e).unwrap_or_else(|e| e))?;
        let mut buffer = Buffer::new(source);
        let head = buffer.peek(16)?;
        let format = if let Some(order) = pcap::Order::of(head) {
            FormatReader::Pcap(pcap::Header::read(&mut buffer, order)?)
        } else if head.starts_with(&pcapng::SECTION_HEADER) {
            FormatReader::PcapNg(pcapng::Section::read_first(&mut buffer)?)
        } else {
            return Err(not_a_capture(head));
        };
        Ok(Self { buffer, format, done: false })
    }

    /// The next record. `None` at the end, and on every call after an error.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the reader")]
    pub fn next(&mut self) -> Option<Result<Record<'_>, CaptureError>> {
        if self.done {
            return None;
        }
        let found = match &mut self.format {
            FormatReader::Pcap(header) => header.next(&mut self.buffer),
            FormatReader::PcapNg(section) => section.next(&mut self.buffer),
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
            FormatReader::Pcap(_) => Format::Pcap,
            FormatReader::PcapNg(_) => Format::PcapNg,
        }
    }

    /// The compression around it.
    pub fn compression(&self) -> Compression {
        self.buffer.source().compression()
    }

    /// Bytes taken from the reader so far, for a progress bar. If the file is compressed, these are
    /// compressed bytes. The value is ahead of [`next`](Self::next) by what is buffered.
    pub fn compressed_position(&self) -> u64 {
        self.buffer.source().compressed_position()
    }

    /// Offset of the next record in the uncompressed capture, in bytes.
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

/// Describes a file that is not a supported capture.
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
        [b'B', b'Z', b'h', ..] => {
            ("is compressed with bzip2", Some("`bzip2 -dc FILE` decompresses it"))
        }
        [0x04, 0x22, 0x4d, 0x18, ..] => {
            ("is compressed with lz4", Some("`lz4 -dc FILE` decompresses it"))
        }
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            ("is compressed twice", Some("decompress it once"))
        }
        [_, _, _] | [_, _] | [_] => ("is too short", None),
        _ if head.iter().all(|b| (b' '..=b'~').contains(b) || b"\r\n\t".contains(b)) => {
            ("is text", Some("captures are written by `tcpdump -w FILE`"))
        }
        _ => ("has no known magic number", None),
    };
    CaptureError::NotACapture { first: head.to_vec(), looks, advice }
}
