//! The tools that people would use instead, each at its best: none is slowed down or cut off from
//! its history.

use super::candidate::{Candidate, Wire, compare};
use crate::failure::{Failure, Outcome};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use lz4_flex::block::{CompressTable, compress_into_with_table};
use xxhash_rust::xxh3::xxh3_64;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

fn broken(name: &str, error: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("{name} failed: {error}"))
}

/// The minimum work of anything with a log and a checksum.
#[derive(Default)]
pub(super) struct CopyAndChecksum {
    sum: u64,
}

impl Candidate for CopyAndChecksum {
    fn encode(&mut self, data: &[u8], block: usize, _: bool, wire: &mut Wire) -> Outcome {
        for block in data.chunks(block) {
            wire.out().extend_from_slice(block);
            self.sum ^= std::hint::black_box(xxh3_64(block));
        }
        Ok(())
    }

    fn decode(&mut self, wire: &Wire, _: usize, block: usize, check: Option<&[u8]>) -> Outcome {
        let mut out = vec![0; block];
        for (i, sent) in wire.bytes().chunks(block).enumerate() {
            let out = &mut out[..sent.len()];
            out.copy_from_slice(sent);
            self.sum ^= std::hint::black_box(xxh3_64(out));
            compare(out, i * block, check, "copy")?;
        }
        Ok(())
    }

    fn memory(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// LZ4 over each block separately.
#[derive(Default)]
pub(super) struct Lz4 {
    table: CompressTable,
}

impl Candidate for Lz4 {
    fn encode(&mut self, data: &[u8], block: usize, _: bool, wire: &mut Wire) -> Outcome {
        for block in data.chunks(block) {
            let out = wire.out();
            let start = out.len();
            out.resize(start + lz4_flex::block::get_maximum_output_size(block.len()), 0);
            let len = compress_into_with_table(block, &mut out[start..], &mut self.table)
                .map_err(|error| broken("lz4", error))?;
            out.truncate(start + len);
            wire.end_block();
        }
        Ok(())
    }

    fn decode(&mut self, wire: &Wire, len: usize, block: usize, check: Option<&[u8]>) -> Outcome {
        let mut out = vec![0; block];
        let mut at = 0;
        for sent in wire.blocks() {
            let out = &mut out[..block.min(len - at)];
            let n = lz4_flex::block::decompress_into(sent, out)
                .map_err(|error| broken("lz4", error))?;
            compare(&out[..n], at, check, "lz4")?;
            at += n;
        }
        Ok(())
    }

    fn memory(&self) -> (usize, usize) {
        // Its hash table: 4,096 entries of 4 bytes.
        (16 << 10, 0)
    }
}

/// One zstd stream over all blocks.
pub(crate) struct Zstd {
    encoder: CCtx<'static>,
    decoder: DCtx<'static>,
    /// Whether each block can be decoded as soon as it has been sent.
    flush: bool,
    /// Total bytes, if known in advance.
    total: Option<u64>,
}

fn zstd_error(code: usize) -> Failure {
    broken("zstd", zstd_safe::get_error_name(code))
}

impl Zstd {
    /// Flushed after each block, as a link needs it.
    pub(crate) fn flushed(level: i32) -> Outcome<Zstd> {
        let mut encoder = CCtx::create();
        encoder.set_parameter(CParameter::CompressionLevel(level)).map_err(zstd_error)?;
        Ok(Zstd { encoder, decoder: DCtx::create(), flush: true, total: None })
    }

    /// As the command-line tool packs a file of known size: with long-distance matching, flushed
    /// only at the end.
    pub(crate) fn long(level: i32, window_log: u32, total: u64) -> Outcome<Zstd> {
        let mut zstd = Zstd { flush: false, total: Some(total), ..Zstd::flushed(level)? };
        zstd.encoder
            .set_parameter(CParameter::EnableLongDistanceMatching(true))
            .map_err(zstd_error)?;
        zstd.encoder.set_parameter(CParameter::WindowLog(window_log)).map_err(zstd_error)?;
        // The tool's default, and comparable to our frames' checksums.
        zstd.encoder.set_parameter(CParameter::ChecksumFlag(true)).map_err(zstd_error)?;
        zstd.encoder.set_pledged_src_size(Some(total)).map_err(zstd_error)?;
        zstd.decoder.set_parameter(DParameter::WindowLogMax(31)).map_err(zstd_error)?;
        Ok(zstd)
    }

    /// Appends `input`, compressed, to `out`. Ends the stream if it is the `last`.
    pub(crate) fn feed(&mut self, input: &[u8], last: bool, out: &mut Vec<u8>) -> Outcome {
        self.run(
            input,
            if last { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue },
            out,
        )
    }

    /// Appends `input`, compressed, to `out`. With `flush`, all consumed input is output, and the
    /// stream continues.
    pub(crate) fn feed_on(&mut self, input: &[u8], flush: bool, out: &mut Vec<u8>) -> Outcome {
        self.run(
            input,
            if flush {
                ZSTD_EndDirective::ZSTD_e_flush
            } else {
                ZSTD_EndDirective::ZSTD_e_continue
            },
            out,
        )
    }

    fn run(&mut self, input: &[u8], directive: ZSTD_EndDirective, out: &mut Vec<u8>) -> Outcome {
        let mut input = InBuffer::around(input);
        loop {
            let start = out.len();
            // Room for the output of one call; the vector was touched to its full capacity before.
            out.resize(start + zstd_safe::BLOCKSIZE_MAX as usize + 4096, 0);
            let mut output = OutBuffer::around_pos(out, start);
            let left = self
                .encoder
                .compress_stream2(&mut output, &mut input, directive)
                .map_err(zstd_error)?;
            let end = output.pos();
            out.truncate(end);
            let all_in = input.pos() == input.src.len();
            if all_in && (left == 0 || matches!(directive, ZSTD_EndDirective::ZSTD_e_continue)) {
                return Ok(());
            }
        }
    }
}

impl Candidate for Zstd {
    fn encode(&mut self, data: &[u8], block: usize, last: bool, wire: &mut Wire) -> Outcome {
        // Without flushing, blocks of the tool's own size are its best.
        let block = if self.flush { block } else { zstd_safe::BLOCKSIZE_MAX as usize };
        for block in data.chunks(block) {
            self.feed_on(block, self.flush, wire.out())?;
        }
        if last { self.feed(&[], true, wire.out()) } else { self.feed_on(&[], true, wire.out()) }
    }

    fn decode(&mut self, wire: &Wire, len: usize, block: usize, check: Option<&[u8]>) -> Outcome {
        let block = if self.flush { block } else { zstd_safe::BLOCKSIZE_MAX as usize };
        let mut out = vec![0; block];
        let mut input = InBuffer::around(wire.bytes());
        let mut at = 0;
        while at < len {
            let mut output = OutBuffer::around(&mut out[..]);
            let before = input.pos();
            self.decoder.decompress_stream(&mut output, &mut input).map_err(zstd_error)?;
            let n = output.pos();
            if n == 0 && input.pos() == before {
                return Err(broken("zstd", "the stream ends early"));
            }
            compare(&out[..n], at, check, "zstd")?;
            at += n;
        }
        Ok(())
    }

    /// Sends as many zeros as there will be data, to touch the windows, and resets.
    fn prefault(&mut self) -> Outcome {
        let Some(total) = self.total else { return Ok(()) };
        let zeros = vec![0; zstd_safe::BLOCKSIZE_MAX as usize];
        let (mut sent, mut out, mut left) = (Vec::new(), zeros.clone(), total as usize);
        while left > 0 {
            let n = left.min(zeros.len());
            self.feed(&zeros[..n], false, &mut sent)?;
            left -= n;
        }
        self.feed(&[], true, &mut sent)?;
        let mut input = InBuffer::around(&sent);
        let mut got = 0;
        while got < total {
            let mut output = OutBuffer::around(&mut out[..]);
            self.decoder.decompress_stream(&mut output, &mut input).map_err(zstd_error)?;
            got += output.pos() as u64;
        }
        self.encoder.reset(ResetDirective::SessionOnly).map_err(zstd_error)?;
        self.encoder.set_pledged_src_size(self.total).map_err(zstd_error)?;
        self.decoder.reset(ResetDirective::SessionOnly).map_err(zstd_error)?;
        Ok(())
    }

    fn memory(&self) -> (usize, usize) {
        (self.encoder.sizeof(), self.decoder.sizeof())
    }
}

/// One gzip (deflate) stream over all blocks, flushed only at the end.
pub(crate) struct Gzip {
    encoder: Compress,
    decoder: Decompress,
}

impl Gzip {
    pub(crate) fn new(level: u32) -> Gzip {
        Gzip {
            encoder: Compress::new(Compression::new(level), true),
            decoder: Decompress::new(true),
        }
    }
}

impl Gzip {
    /// Appends `input`, compressed, to `out`. Ends the stream if it is the `last`.
    pub(crate) fn feed(&mut self, input: &[u8], last: bool, out: &mut Vec<u8>) -> Outcome {
        self.run(input, if last { FlushCompress::Finish } else { FlushCompress::None }, out)
    }

    /// Appends `input`, compressed, to `out`. All consumed input is output, and the stream
    /// continues, as in `ssh -C`.
    pub(crate) fn feed_on(&mut self, input: &[u8], out: &mut Vec<u8>) -> Outcome {
        self.run(input, FlushCompress::Partial, out)
    }

    fn run(&mut self, input: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Outcome {
        let begun = self.encoder.total_in();
        loop {
            // Room for the output of one call; unused room means that nothing more will come.
            out.reserve(1 << 16);
            let fed = (self.encoder.total_in() - begun) as usize;
            let status = self
                .encoder
                .compress_vec(&input[fed..], out, flush)
                .map_err(|error| broken("gzip", error))?;
            let all_in = (self.encoder.total_in() - begun) as usize == input.len();
            let finished = if flush == FlushCompress::Finish {
                status == Status::StreamEnd
            } else {
                out.len() < out.capacity()
            };
            if all_in && finished {
                return Ok(());
            }
        }
    }
}

impl Candidate for Gzip {
    fn encode(&mut self, data: &[u8], _: usize, last: bool, wire: &mut Wire) -> Outcome {
        let flush = if last { FlushCompress::Finish } else { FlushCompress::Sync };
        self.run(data, flush, wire.out())
    }

    fn decode(&mut self, wire: &Wire, len: usize, _: usize, check: Option<&[u8]>) -> Outcome {
        let mut out = vec![0; 1 << 17];
        let (mut at, begun) = (0, self.decoder.total_in());
        while at < len {
            let fed = (self.decoder.total_in() - begun) as usize;
            let before = self.decoder.total_out();
            let sent = &wire.bytes()[fed..];
            self.decoder
                .decompress(sent, &mut out, FlushDecompress::None)
                .map_err(|error| broken("gzip", error))?;
            let n = (self.decoder.total_out() - before) as usize;
            if n == 0 {
                return Err(broken("gzip", "the stream ends early"));
            }
            compare(&out[..n], at, check, "gzip")?;
            at += n;
        }
        Ok(())
    }

    fn memory(&self) -> (usize, usize) {
        // zlib's documented memory at its default window and memory level.
        (268 << 10, 44 << 10)
    }
}
