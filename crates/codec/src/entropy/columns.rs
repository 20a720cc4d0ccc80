//! Columns of bytes under Huffman codes that stay from frame to frame.
//!
//! A new code is stated only where it saves more than it takes. Its lengths of words are coded by
//! those of the code before it, so that a code that has drifted a little takes little.

use super::symbols::{SectionReader, SectionWriter, Symbols};
use crate::error::FrameError;
use crate::format::varint;
use oncewire_kernels::{
    HUFFMAN_MAX_BITS, HuffmanReader, HuffmanWriter, Kernels, byte_counts, huffman_lengths,
};

/// Fewer symbols than this are not coded: a byte that says how would not pay.
const PLAIN: usize = 16;
/// Fewer than this cannot bring a code of their own, which bounds what reading codes may take.
const NEW_CODE: usize = 64;
/// From as many on there are four streams.
const FOUR_STREAMS: usize = 256;
/// More than this are divided into parts of half of it, each with its own choice.
const WHOLE: usize = 32 << 10;
const PART: usize = WHOLE / 2;
/// A code for fewer symbols than this has words for all bytes, and counts what was before them.
const FEW: usize = 1024;
/// Bytes that a new code must save, beside those that it takes. Making and reading one takes as long
/// as 2,000 bytes of text, so a few bytes are not worth it: with 16 the six kinds of content tried take
/// up to 0.2 % less, and longer to decode. With 48, and looking inside, pages with many flushes would
/// take 0.4 % more than without.
const MARGIN: u32 = 32;

/// A frame may state one new code for this many bytes of its block. Reading a code takes 3.5 us,
/// as long as 2,000 bytes of text. With this limit no content that was tried takes more than 0.1 %
/// more bytes, in blocks of 200 bytes; with one code for 512 bytes, it is up to 5 %.
const BYTES_PER_CODE: usize = 256;

/// Counts the new codes of a frame, in all its columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewCodes {
    stated: usize,
    limit: usize,
}

impl NewCodes {
    /// For a frame with a block of this many bytes.
    pub(crate) fn of(block_len: usize) -> NewCodes {
        NewCodes { stated: 0, limit: (block_len + BYTES_PER_CODE / 2) / BYTES_PER_CODE }
    }

    fn are_left(&self) -> bool {
        self.stated < self.limit
    }

    /// Counts a code.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] if it is one too many.
    fn state(&mut self) -> Result<(), FrameError> {
        if !self.are_left() {
            let (value, limit) = (self.stated as u64 + 1, self.limit as u64);
            return Err(FrameError::TooLarge { field: "new codes", value, limit });
        }
        self.stated += 1;
        Ok(())
    }
}

const RAW: u8 = 0;
const KEPT: u8 = 1;
const NEW: u8 = 2;
const ONE: u8 = 3;

/// Models of the lengths of words, by the length that the symbol had before; where it had none, by
/// whether the symbol below it has one now.
#[derive(Clone)]
pub(super) struct LengthModels([Symbols; HUFFMAN_MAX_BITS as usize + 2]);

impl LengthModels {
    pub(super) const NEW: LengthModels =
        LengthModels([Symbols::EVEN; HUFFMAN_MAX_BITS as usize + 2]);

    #[inline(always)]
    fn of(&mut self, before: u8, below: u8) -> &mut Symbols {
        let index = if before > 0 { usize::from(before) + 1 } else { usize::from(below > 0) };
        &mut self.0[index]
    }

    fn write(
        &mut self,
        coder: &mut SectionWriter,
        before: &[u8; 256],
        lengths: &[u8; 256],
        out: &mut Vec<u8>,
    ) {
        let mut below = 0;
        for (&before, &length) in before.iter().zip(lengths) {
            coder.symbol(self.of(before, below), length.into());
            below = length;
        }
        coder.finish(out);
    }

    /// Replaces the lengths. After an error, both are unusable.
    fn read(&mut self, section: &[u8], lengths: &mut [u8; 256]) -> Result<(), FrameError> {
        let mut coder = SectionReader::new(section)?;
        let mut below = 0;
        for length in lengths {
            *length = coder.symbol(self.of(*length, below)) as u8;
            below = *length;
        }
        coder.finish()
    }
}

/// Bits that `len` symbols with these counts take at least, in a code of their own.
fn entropy(counts: &[u32; 256], len: u32) -> f32 {
    // Several sums, so that they are those of a vector.
    let mut sums = [0f32; LANES];
    let (chunks, _) = counts.as_chunks::<LANES>();
    for chunk in chunks {
        for (sum, &count) in sums.iter_mut().zip(chunk) {
            *sum += count as i32 as f32 * log2(count);
        }
    }
    len as f32 * log2(len) - sums.iter().sum::<f32>()
}

/// Bits that symbols with these counts take in words of these lengths; `None` if one that occurs
/// has no word.
fn words(counts: &[u32; 256], lengths: &[u8; 256]) -> Option<u32> {
    let (mut sums, mut lacks) = ([0f32; LANES], [false; LANES]);
    let (chunks, _) = counts.as_chunks::<LANES>();
    let (lengths, _) = lengths.as_chunks::<LANES>();
    for (counts, lengths) in chunks.iter().zip(lengths) {
        for nth in 0..LANES {
            // At most 11 times 2^15 in all, which is exact.
            sums[nth] += counts[nth] as i32 as f32 * f32::from(lengths[nth]);
            lacks[nth] |= (counts[nth] > 0) & (lengths[nth] == 0);
        }
    }
    (lacks == [false; LANES]).then(|| sums.iter().sum::<f32>() as u32)
}

/// Numbers that are computed at once.
const LANES: usize = 8;

/// The logarithm of a count, to 0.0002; of 0, a number.
#[inline(always)]
fn log2(count: u32) -> f32 {
    let bits = (count as i32 as f32).to_bits() as i32;
    // 1 to 2, and a polynomial that is 0 and 1 at the ends.
    let part = f32::from_bits((bits & 0x7f_ffff | 0x3f80_0000) as u32) - 1.0;
    let curve = 0.438_724 + part * (-0.239_052 + part * 0.082_125);
    ((bits >> 23) - 127) as f32 + part + part * (1.0 - part) * curve
}

/// A column's code at the writer.
#[derive(Clone)]
pub(super) struct ColumnWriter {
    /// All 0 if there is none.
    lengths: [u8; 256],
    code: Option<HuffmanWriter>,
    /// Bytes that the last code took.
    stated: u32,
    /// Of small columns, counts that decay.
    counts: [u32; 256],
}

impl ColumnWriter {
    pub(super) const NEW: ColumnWriter =
        ColumnWriter { lengths: [0; 256], code: None, stated: 60, counts: [0; 256] };

    /// Appends a column.
    pub(super) fn write(
        &mut self,
        mut symbols: &[u8],
        models: &mut LengthModels,
        codes: &mut NewCodes,
        coder: &mut SectionWriter,
        out: &mut Vec<u8>,
    ) {
        while symbols.len() > WHOLE {
            let (part, rest) = symbols.split_at(PART);
            self.write_part(part, models, codes, coder, out);
            symbols = rest;
        }
        self.write_part(symbols, models, codes, coder, out);
    }

    fn write_part(
        &mut self,
        symbols: &[u8],
        models: &mut LengthModels,
        codes: &mut NewCodes,
        coder: &mut SectionWriter,
        out: &mut Vec<u8>,
    ) {
        if symbols.len() < PLAIN {
            out.extend_from_slice(symbols);
            return;
        }
        let len = symbols.len() as u32;
        let counts = byte_counts(symbols);
        if counts[usize::from(symbols[0])] == len {
            out.extend_from_slice(&[ONE, symbols[0]]);
            return;
        }
        let streams = if symbols.len() < FOUR_STREAMS { 1 } else { 8 };
        // A code is a little longer than the entropy.
        let ideal = (entropy(&counts, len) * (129.0 / 128.0 / 8.0)) as u32 + streams + self.stated;
        let kept = match self.code {
            Some(_) => words(&counts, &self.lengths).map_or(u32::MAX, |bits| bits / 8 + streams),
            None => u32::MAX,
        };
        let is_new =
            symbols.len() >= NEW_CODE && ideal.saturating_add(MARGIN) < kept && codes.are_left();
        let best = if is_new { ideal } else { kept };
        if best >= len - len / 64 {
            out.push(RAW);
            out.extend_from_slice(symbols);
            return;
        }
        let start = out.len();
        let before = is_new.then(|| (self.clone(), models.clone()));
        if is_new {
            self.renew(&counts, len, models, coder, out);
        } else {
            out.push(KEPT);
        }
        self.write_streams(symbols, out);
        if let Some((column, models_before)) = before
            && out.len() - start > symbols.len()
        {
            // What stating the code takes was estimated.
            (*self, *models) = (column, models_before);
            out.truncate(start);
            out.push(RAW);
            out.extend_from_slice(symbols);
        } else if is_new {
            codes.stated += 1;
        }
    }

    /// Appends the words of symbols, all of which have one.
    fn write_streams(&self, symbols: &[u8], out: &mut Vec<u8>) {
        match &self.code {
            Some(code) if symbols.len() < FOUR_STREAMS => code.write(symbols, out),
            Some(code) => write_four(code, symbols, out),
            None => {}
        }
    }

    /// Makes a code for `counts`, and states it.
    fn renew(
        &mut self,
        counts: &[u32; 256],
        len: u32,
        models: &mut LengthModels,
        coder: &mut SectionWriter,
        out: &mut Vec<u8>,
    ) {
        let lengths = if (len as usize) < FEW {
            // Words for all, so that the next column can use the code whatever it has.
            for (decaying, &count) in self.counts.iter_mut().zip(counts) {
                *decaying = *decaying / 2 + 4 * count;
            }
            huffman_lengths(&self.counts.map(|count| 4 * count + 1))
        } else {
            self.counts = [0; 256];
            huffman_lengths(counts)
        };
        out.push(NEW);
        let before = out.len();
        // Its length comes first, and is not known: in most cases one byte will do.
        out.push(0);
        models.write(coder, &self.lengths, &lengths, out);
        let section = out.len() - before - 1;
        if section < 0x80 {
            out[before] = section as u8;
        } else {
            let mut len = Vec::new();
            varint::put(&mut len, section as u64);
            out.splice(before..=before, len);
        }
        self.stated = (out.len() - before) as u32;
        self.code = HuffmanWriter::new(&lengths);
        self.lengths = lengths;
    }
}

/// A column's code at the reader.
#[derive(Clone)]
pub(super) struct ColumnReader {
    lengths: [u8; 256],
    code: Option<HuffmanReader>,
}

impl ColumnReader {
    /// Memory of a code in bytes, at most.
    pub(super) const MEMORY: usize = size_of::<ColumnReader>() + HuffmanReader::MEMORY;

    pub(super) const NEW: ColumnReader = ColumnReader { lengths: [0; 256], code: None };

    /// Forgets the code.
    pub(super) fn reset(&mut self) {
        // `read` tells from the lengths whether there is one.
        self.lengths = [0; 256];
    }

    /// Takes a column of `out.len()` symbols from the front of `from`. After an error, the code is
    /// unusable.
    pub(super) fn read(
        &mut self,
        kernels: Kernels,
        models: &mut LengthModels,
        codes: &mut NewCodes,
        from: &mut &[u8],
        out: &mut [u8],
    ) -> Result<(), FrameError> {
        let mut rest = out;
        while rest.len() > WHOLE {
            let (part, after) = rest.split_at_mut(PART);
            self.read_part(kernels, models, codes, from, part)?;
            rest = after;
        }
        self.read_part(kernels, models, codes, from, rest)
    }

    fn read_part(
        &mut self,
        kernels: Kernels,
        models: &mut LengthModels,
        codes: &mut NewCodes,
        from: &mut &[u8],
        out: &mut [u8],
    ) -> Result<(), FrameError> {
        const SHORT: FrameError = FrameError::Short { section: "column" };
        let mode = if out.len() < PLAIN { RAW } else { take(from, 1).ok_or(SHORT)?[0] };
        match mode {
            RAW => {
                out.copy_from_slice(take(from, out.len()).ok_or(SHORT)?);
                return Ok(());
            }
            ONE => {
                out.fill(take(from, 1).ok_or(SHORT)?[0]);
                return Ok(());
            }
            NEW if out.len() >= NEW_CODE => {
                codes.state()?;
                let len = varint::field(from, "code length")?;
                let len = usize::try_from(len).map_err(|_| SHORT)?;
                let section = take(from, len).ok_or(SHORT)?;
                models.read(section, &mut self.lengths)?;
                let is_complete = match &mut self.code {
                    Some(code) => code.set(&self.lengths),
                    none => {
                        *none = HuffmanReader::new(&self.lengths);
                        none.is_some()
                    }
                };
                if !is_complete {
                    return Err(DAMAGED);
                }
            }
            KEPT if self.lengths != [0; 256] => {}
            value => {
                return Err(FrameError::Field {
                    field: "column coding",
                    value: value.into(),
                    allowed: "0 to 3, 1 with a code, 2 from 64 symbols on",
                });
            }
        }
        let code = self.code.as_ref().ok_or(DAMAGED)?;
        let len = if out.len() < FOUR_STREAMS {
            code.read(kernels, from, out)
        } else {
            let (jump, streams) = from.split_first_chunk::<6>().ok_or(SHORT)?;
            *from = streams;
            let (lens, _) = jump.as_chunks::<2>();
            let lens = [lens[0], lens[1], lens[2]].map(|len| u16::from_le_bytes(len).into());
            code.read_four(kernels, from, lens, out)
        };
        *from = &from[len.ok_or(DAMAGED)?..];
        Ok(())
    }
}

const DAMAGED: FrameError = FrameError::Literals { method: "columns" };

fn take<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(taken)
}

/// Appends symbols under a code in four streams, after where the first three end: at most 2^16
/// symbols of 11 bits.
pub(super) fn write_four(code: &HuffmanWriter, symbols: &[u8], out: &mut Vec<u8>) {
    let jump = out.len();
    out.extend_from_slice(&[0; 6]);
    let lens = code.write_four(symbols, out);
    for (nth, len) in lens.into_iter().enumerate() {
        out[jump + 2 * nth..][..2].copy_from_slice(&(len as u16).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of 300 symbols that each want a code, as a frame with a block of `len` bytes may have
    /// them. Returns also how many have a new one.
    fn written(len: usize) -> (Vec<u8>, Vec<Vec<u8>>, usize) {
        let (mut models, mut codes) = (LengthModels::NEW, NewCodes::of(len));
        let (mut out, mut coder) = (Vec::new(), SectionWriter::default());
        let columns: Vec<Vec<u8>> =
            (1..=20).map(|nth| (0..300u32).map(|i| (i * i % 7) as u8 * nth).collect()).collect();
        let mut count = 0;
        for symbols in &columns {
            let before = out.len();
            let mut column = ColumnWriter::NEW;
            column.write(symbols, &mut models, &mut codes, &mut coder, &mut out);
            count += usize::from(out[before] == NEW);
        }
        (out, columns, count)
    }

    #[test]
    fn a_frame_has_no_more_new_codes_than_its_block_allows() {
        for (len, limit) in [(0, 0), (127, 0), (128, 1), (383, 1), (384, 2), (1500, 6), (4000, 16)]
        {
            let (section, columns, count) = written(len);
            assert_eq!(count, limit, "in a block of {len} bytes");
            let read = |mut codes: NewCodes| {
                let (mut models, mut from) = (LengthModels::NEW, &section[..]);
                for symbols in &columns {
                    let mut out = vec![0; symbols.len()];
                    let kernels = Kernels::detect();
                    let (models, codes) = (&mut models, &mut codes);
                    let mut column = ColumnReader::NEW;
                    column.read(kernels, models, codes, &mut from, &mut out)?;
                    assert_eq!(&out, symbols);
                }
                Ok(from.len())
            };
            assert_eq!(read(NewCodes::of(len)), Ok(0));
            if limit > 0 {
                let (value, fewer) = (limit as u64, limit as u64 - 1);
                let error = FrameError::TooLarge { field: "new codes", value, limit: fewer };
                assert_eq!(read(NewCodes::of(256 * limit - 129)), Err(error));
            }
        }
    }
}
