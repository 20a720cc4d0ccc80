//! Compressed content: versions of a text, in the containers that carry deflate, and zstd frames.

use crate::common::content::{Rng, text};
use flate2::{Compress, Compression, Crc, FlushCompress};

/// The same text with scattered small edits.
pub(crate) fn edited(content: &[u8], seed: u64, edits: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut out = content.to_vec();
    for _ in 0..edits {
        let at = rng.below(out.len());
        let end = (at + rng.below(9)).min(out.len());
        out.splice(at..end, text(rng.next(), 1 + rng.below(12)));
    }
    out
}

/// A raw deflate stream, flushed after every `flush` bytes.
pub(crate) fn deflate(content: &[u8], level: u32, flush: usize) -> Vec<u8> {
    let mut compress = Compress::new(Compression::new(level), false);
    let mut out = Vec::new();
    let pieces: Vec<&[u8]> = content.chunks(flush.max(1)).collect();
    for (i, piece) in pieces.iter().enumerate() {
        let last = i + 1 == pieces.len();
        out.reserve(piece.len() + piece.len() / 8 + 1000);
        let how = if last { FlushCompress::Finish } else { FlushCompress::Sync };
        compress.compress_vec(piece, &mut out, how).unwrap();
    }
    out
}

/// RFC 1952, with a file name.
pub(crate) fn gzip(content: &[u8], level: u32) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(content);
    let mut out = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03a name\0".to_vec();
    out.extend(deflate(content, level, usize::MAX));
    out.extend(crc.sum().to_le_bytes());
    out.extend((content.len() as u32).to_le_bytes());
    out
}

/// A zip archive of these files, without its directory.
pub(crate) fn zip(files: &[Vec<u8>], level: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for file in files {
        let stream = deflate(file, level, usize::MAX);
        out.extend(b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0");
        let mut crc = Crc::new();
        crc.update(file);
        out.extend(crc.sum().to_le_bytes());
        out.extend((stream.len() as u32).to_le_bytes());
        out.extend((file.len() as u32).to_le_bytes());
        out.extend([6, 0, 0, 0]);
        out.extend(b"a name");
        out.extend(stream);
    }
    out
}

/// A response of HTTP/1.1 in chunks of this many bytes.
pub(crate) fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut out =
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(size) {
        out.extend(format!("{:x}\r\n", chunk.len()).bytes());
        out.extend(chunk);
        out.extend(b"\r\n");
    }
    out.extend(b"0\r\n\r\n");
    out
}

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let len = &(content.len() as u32).to_be_bytes()[1..];
    [len, &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// A connection of HTTP/2 from its beginning, with these responses at once, in turns, in DATA frames
/// of this many bytes; and the `others`, over and over, between them.
pub(crate) fn interleaved(bodies: &[Vec<u8>], size: usize, others: &[Vec<u8>]) -> Vec<u8> {
    let mut out = frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]);
    let stream = |nth: usize| 2 * nth as u32 + 1;
    for nth in 0..bodies.len() {
        out.extend(frame(1, 4, stream(nth), b"\x88 and other fields"));
    }
    let mut others = others.iter().cycle();
    let turns = bodies.iter().map(|body| body.len().div_ceil(size)).max().unwrap_or(0);
    for turn in 0..turns {
        for (nth, body) in bodies.iter().enumerate() {
            let Some(content) = body.chunks(size).nth(turn) else { continue };
            let is_last = (turn + 1) * size >= body.len();
            out.extend(frame(0, u8::from(is_last), stream(nth), content));
            out.extend(others.next().into_iter().flatten());
        }
    }
    out
}

/// A response of HTTP/2 in DATA frames of this many bytes, with other frames between them: of the
/// connection, and of another stream. `prefix` is what a protocol puts before its content.
pub(crate) fn http2(prefix: &[u8], body: &[u8], size: usize) -> Vec<u8> {
    let mut out = frame(1, 4, 5, b"\x88 and other fields");
    let body = [prefix, body].concat();
    let last = body.len().div_ceil(size) - 1;
    for (nth, content) in body.chunks(size).enumerate() {
        out.extend(frame(0, u8::from(nth == last), 5, content));
        if nth % 2 == 1 {
            out.extend(frame(8, 0, 5, &[0, 1, 0, 0]));
        }
        if nth % 3 == 2 {
            out.extend(frame(0, 0, 7, &text(nth as u64, 700)));
        }
    }
    out
}

/// A zlib stream in chunks of PNG.
pub(crate) fn png(content: &[u8], size: usize) -> Vec<u8> {
    let mut stream = vec![0x78, 0x9c];
    stream.extend(deflate(content, 6, usize::MAX));
    stream.extend([1, 2, 3, 4]);
    let mut out =
        b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x10\0\0\0\x10\x08\x02\0\0\0\x90\x91\x68\x36"
            .to_vec();
    for chunk in stream.chunks(size) {
        out.extend((chunk.len() as u32).to_be_bytes());
        out.extend(b"IDAT");
        out.extend(chunk);
        out.extend([9, 9, 9, 9]);
    }
    out.extend(b"\0\0\0\0IEND\xae\x42\x60\x82");
    out
}

/// A zstd frame of this level, with a checksum. Content that comes in pieces of `flush` bytes ends
/// blocks.
pub(crate) fn zstd(content: &[u8], level: i32, flush: usize) -> Vec<u8> {
    use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, compress_bound};
    let mut context = CCtx::create();
    context.set_parameter(CParameter::CompressionLevel(level)).unwrap();
    context.set_parameter(CParameter::ChecksumFlag(true)).unwrap();
    if level > 19 {
        // Enough for the content here. That of unknown length gets tables of 640 MB at level 22,
        // and clearing them takes longer than all else.
        context.set_parameter(CParameter::HashLog(18)).unwrap();
        context.set_parameter(CParameter::ChainLog(20)).unwrap();
    }
    let pieces = content.len() / flush.max(1) + 1;
    let mut out = vec![0; compress_bound(content.len()) + 16 * pieces];
    let mut output = OutBuffer::around(&mut out[..]);
    for piece in content.chunks(flush.max(1)) {
        let mut input = InBuffer::around(piece);
        while input.pos() < piece.len() {
            context.compress_stream(&mut output, &mut input).unwrap();
        }
        assert_eq!(context.flush_stream(&mut output).unwrap(), 0);
    }
    assert_eq!(context.end_stream(&mut output).unwrap(), 0);
    let len = output.pos();
    out.truncate(len);
    out
}
