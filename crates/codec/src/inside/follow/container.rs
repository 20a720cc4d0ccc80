//! Containers of deflate streams: signatures and headers, and the framing that divides a stream
//! into pieces.

use crate::deflate::{BitReader, Code, Stop};
use crate::inside::follow::frames;
use crate::inside::follow::http2::data_before;

/// Most bytes of an incomplete header, of a container or a deflate block, that are kept for the
/// next block.
pub(in crate::inside) const MAX_HEADER: usize = 2 << 10;
/// Bytes examined to tell whether content is compressed.
pub(in crate::inside) const PROBE: usize = 16;
/// Bytes between two probes for compressed content.
pub(in crate::inside) const PROBE_STRIDE: usize = 512;

/// Whether a direction of a connection that begins with these bytes is encrypted, by its protocol:
/// a handshake record of TLS (RFC 8446, section 5.1), or the identification of SSH (RFC 4253,
/// section 4.2).
pub fn begins_encrypted(first: &[u8]) -> bool {
    let is_tls = matches!(first, [0x16, 0x03, 0..=4, high, ..] if *high <= 0x48);
    is_tls || first.starts_with(b"SSH-")
}

/// The framing that divides a stream into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inside) enum Framing {
    None,
    /// Chunks of HTTP/1.1 (RFC 9112, section 7.1); this many bytes of the current one are left.
    Chunked(u64),
    /// IDAT chunks of PNG (RFC 2083, section 3.2).
    Png(u64),
    /// A DATA frame of HTTP/2 of which `left` bytes are left. Its connection divides what follows:
    /// see [`Connection`](crate::inside::follow::connection::Connection).
    Data {
        left: u64,
        stream: u32,
    },
}

impl Framing {
    /// The framing of a stream that begins after `content`.
    fn before(content: &[u8]) -> Framing {
        match chunk_before(content) {
            Some(left) => Framing::Chunked(left),
            None => match data_before(content) {
                Some((stream, left)) => Framing::Data { left, stream },
                None => Framing::None,
            },
        }
    }

    /// Bytes left of a piece; `None` without framing.
    pub(in crate::inside) fn left(&mut self) -> Option<&mut u64> {
        match self {
            Framing::None | Framing::Data { .. } => None,
            Framing::Chunked(left) | Framing::Png(left) => Some(left),
        }
    }

    /// Reads the bytes between two pieces, and advances past them.
    pub(in crate::inside) fn step(&mut self, between: &[u8]) -> Header {
        let is_begun = |of: &[u8], by: &[u8]| of.iter().zip(by).all(|(of, by)| of == by);
        match self {
            Framing::None | Framing::Data { .. } => Header::Length(0),
            Framing::Png(left) => {
                // A checksum, a length and a name.
                let Some(&[_, _, _, _, a, b, c, d, ref name @ ..]) = between.first_chunk::<12>()
                else {
                    return Header::Short;
                };
                *left = u64::from(u32::from_be_bytes([a, b, c, d]));
                if name == b"IDAT" && *left > 0 { Header::Length(12) } else { Header::Not }
            }
            Framing::Chunked(left) => {
                if !is_begun(between, b"\r\n") {
                    return Header::Not;
                }
                let Some(line) = between.get(2..) else { return Header::Short };
                let Some(end) = line.iter().position(|&byte| byte == b'\n') else {
                    return Header::Short;
                };
                let size = line[..end].strip_suffix(b"\r").and_then(chunk_size);
                *left = size.unwrap_or(0);
                if *left > 0 { Header::Length(2 + end + 1) } else { Header::Not }
            }
        }
    }
}

/// Whether content looks compressed: about half of its bytes have the highest bit set.
pub(in crate::inside) fn is_dense(content: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let Some(probe) = content.last_chunk::<PROBE>() else { return false };
    let (low, high) = probe.split_at(8);
    let count = |half: &[u8]| {
        half.first_chunk().map_or(0, |half| (u64::from_le_bytes(*half) & HIGH).count_ones())
    };
    (4..=13).contains(&(count(low) + count(high)))
}

/// Whether content looks compressed wherever it is probed, but for one place in eight: programs and
/// other binary files do here and there.
pub(in crate::inside) fn is_dense_throughout(content: &[u8]) -> bool {
    let probes = content.chunks_exact(PROBE_STRIDE);
    let count = probes.len();
    8 * probes.filter(|probe| is_dense(probe)).count() >= 7 * count
}

/// The first signature that begins in `data[from..to]`, and the framing of its stream.
pub(in crate::inside) fn signature(
    data: &[u8],
    from: usize,
    to: usize,
) -> Option<(usize, Framing)> {
    let mut at = from;
    while at < to {
        at += first_pair(&data[at..], to - at)?;
        let rest = &data[at..];
        if rest.starts_with(&[0x1f, 0x8b, 8]) {
            return Some((at, Framing::before(&data[..at])));
        }
        if rest.starts_with(&frames::MAGIC) && frames::may_begin(rest) {
            return Some((at, Framing::before(&data[..at])));
        }
        if rest.starts_with(b"PK\x03\x04") {
            return Some((at, Framing::None));
        }
        if rest.starts_with(b"IDAT")
            && let Some(length) = at.checked_sub(4).and_then(|at| data[at..].first_chunk::<4>())
            && is_zlib(&rest[4..])
        {
            let length = u32::from_be_bytes(*length);
            return Some((at + 4, Framing::Png(u64::from(length))));
        }
        if is_zlib(rest) && looks_like_block(&rest[2..]) {
            return Some((at, Framing::before(&data[..at])));
        }
        at += 1;
    }
    None
}

/// Whether a signature may begin with these bytes. Branch-free, for the loop below.
#[inline(always)]
fn is_pair(first: u8, second: u8) -> bool {
    let zlib = (second == 0x01) | (second == 0x5e) | (second == 0x9c) | (second == 0xda);
    ((first == 0x1f) & (second == 0x8b))
        | ((first == frames::MAGIC[0]) & (second == frames::MAGIC[1]))
        | ((first == b'P') & (second == b'K'))
        | ((first == b'I') & (second == b'D'))
        | ((first == 0x78) & zlib)
}

/// The first position below `limit` at which a signature may begin.
fn first_pair(data: &[u8], limit: usize) -> Option<usize> {
    /// Positions tested together, so that compilers vectorize the loop.
    const TOGETHER: usize = 64;
    let is_at = |at: usize| data.get(at + 1).is_some_and(|&second| is_pair(data[at], second));
    let mut at = 0;
    while at + TOGETHER <= limit
        && let Some(firsts) = data[at..].first_chunk::<TOGETHER>()
        && let Some(seconds) = data[at + 1..].first_chunk::<TOGETHER>()
    {
        let pairs = firsts.iter().zip(seconds);
        if pairs.fold(false, |any, (&first, &second)| any | is_pair(first, second)) {
            break;
        }
        at += TOGETHER;
    }
    (at..limit.min(data.len())).find(|&at| is_at(at))
}

/// A zlib header without a dictionary (RFC 1950, section 2.2), with the window of 32 KiB that
/// compressors use.
fn is_zlib(data: &[u8]) -> bool {
    matches!(data, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..])
}

/// Whether a plausible deflate block may begin here.
fn looks_like_block(data: &[u8]) -> bool {
    let mut reader = BitReader::new(data, 1);
    match reader.bits(2) {
        Ok(1) => true,
        Ok(2) => !matches!(Code::read(&mut reader), Err(Stop::Bad)),
        _ => false,
    }
}

/// The size of the HTTP chunk that begins after `content`, if any.
fn chunk_before(content: &[u8]) -> Option<u64> {
    let rest = content.strip_suffix(b"\r\n")?;
    let line = rest.iter().rev().take(20).position(|&byte| byte == b'\n')?;
    chunk_size(&rest[rest.len() - line..]).filter(|&size| size > 0)
}

/// The size in the first line of a chunk.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let extension = line.get(digits).is_none_or(|byte| matches!(byte, b';' | b' '));
    let digits = std::str::from_utf8(&line[..digits]).ok().filter(|digits| digits.len() <= 15)?;
    if extension { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// The header of a container.
pub(in crate::inside) enum Header {
    /// Its length in bytes.
    Length(usize),
    /// It is incomplete.
    Short,
    /// There is no header.
    Not,
}

pub(in crate::inside) fn container_header(data: &[u8]) -> Header {
    let length = match data {
        // gzip: RFC 1952, section 2.3.
        [0x1f, 0x8b, 8, flags, ..] if flags & 0xe0 == 0 => gzip_header(data, *flags),
        [0x1f, 0x8b, 8] => None,
        // zip: a local file header, deflated and not encrypted (APPNOTE.TXT, section 4.3.7).
        [b'P', b'K', 3, 4, ..] => match data.first_chunk::<30>() {
            Some(header) if header[6] & 1 == 0 && header[8..10] == [8, 0] => {
                let number = |at: usize| usize::from(header[at]) | usize::from(header[at + 1]) << 8;
                Some(30 + number(26) + number(28))
            }
            Some(_) => return Header::Not,
            None => None,
        },
        _ if is_zlib(data) => Some(2),
        _ => return Header::Not,
    };
    match length {
        Some(length) if length <= data.len() => Header::Length(length),
        _ if data.len() > MAX_HEADER => Header::Not,
        _ => Header::Short,
    }
}

/// `None` if it is incomplete.
fn gzip_header(data: &[u8], flags: u8) -> Option<usize> {
    let mut at = 10;
    if flags & 4 != 0 {
        let extra = data.get(at..)?.first_chunk::<2>()?;
        at += 2 + usize::from(u16::from_le_bytes(*extra));
    }
    for flag in [8, 16] {
        if flags & flag != 0 {
            at += data.get(at..)?.iter().position(|&byte| byte == 0)? + 1;
        }
    }
    Some(if flags & 2 != 0 { at + 2 } else { at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_testkit::content::{incompressible, text_like};

    #[test]
    fn tls_and_ssh_are_recognized_by_their_first_bytes() {
        for first in [&b"\x16\x03\x01\x02\x00\x01"[..], b"\x16\x03\x03\x00\x7a\x02", b"SSH-2.0-x"] {
            assert!(begins_encrypted(first), "{first:?}");
        }
        for first in [
            &b""[..],
            b"\x16\x03",
            b"\x16\x03\x09\x00\x10",
            b"GET / HTTP/1.1",
            b"\x17\x03\x03\x00\x10",
        ] {
            assert!(!begins_encrypted(first), "{first:?}");
        }
    }

    #[test]
    fn content_is_dense_throughout_if_few_places_are_not() {
        let (noise, text) = (incompressible(1, 64 << 10), text_like(1, 64 << 10));
        let with_text = |bytes: usize| [&text[..bytes], &noise[bytes..]].concat();
        assert!(is_dense_throughout(&noise) && is_dense_throughout(&with_text(6 << 10)));
        assert!(!is_dense_throughout(&with_text(12 << 10)) && !is_dense_throughout(&text));
        // What is seen last does not decide.
        assert!(is_dense(&with_text(12 << 10)));
        assert!(is_dense_throughout(&[noise, b"short".to_vec()].concat()));
    }
}
