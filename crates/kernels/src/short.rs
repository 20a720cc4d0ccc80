//! Short matches in what a matcher left over, found by looking up 64 positions at a time, and their
//! execution.
//!
//! Every position is entered in a table by a hash of the 6 bytes there. An entry is 32 bits: the
//! low 16 of the position, and 16 of the hash as a tag. So whether a position has a candidate is
//! known for 64 positions from one comparison of tags, without a branch; only those that have one
//! are compared with it.

mod execute;
mod probe;
mod search;
mod sequences;
#[cfg(test)]
mod tests;

pub use execute::{ShortColumns, ShortCounts};
pub use sequences::{Sequence, SequenceSearch};

use crate::Kernels;
#[cfg(target_arch = "x86_64")]
use crate::Level;
use execute::copy_words;
use probe::Portable;
#[cfg(target_arch = "x86_64")]
use search::search_avx2;

/// Farthest that a match may lie back.
pub const SHORT_REACH: usize = 0xffff;
/// The last distance before the first match.
pub const SHORT_FIRST_DISTANCE: u16 = 8;
/// Shortest match in bytes.
pub const SHORT_LEAST: usize = 4;
/// Values of a token's fields that say that more follows.
const MORE_LITERALS: usize = 7;
const MORE_LENGTH: usize = 15;
/// The value of a byte of `more` that says that three more bytes follow.
const ESCAPE: usize = 255;
/// Bytes that a buffer must have after what is read or written, because copies are of whole words.
pub const SHORT_SLACK: usize = 128;
/// Positions that are looked up at once.
const BATCH: usize = 64;
/// Bytes that a hash is made of.
const HASHED: usize = 6;
/// Of the two tables of a deep search.
const HASHED_SHORT: usize = 5;
const HASHED_LONG: usize = 8;
/// A match of so many bytes is taken without a look at the positions after it.
const LONG_ENOUGH: usize = 24;

/// How hard a search tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortEffort {
    /// Takes the first match.
    Fast,
    /// Looks whether one that begins one or two bytes later saves more.
    Lazy,
    /// That, with a second table for long matches.
    Deep,
}

impl ShortEffort {
    /// Whether there is a table for long matches.
    fn is_deep(self) -> bool {
        self == ShortEffort::Deep
    }
}

/// What short matches are made of, in columns.
///
/// A match is a token: bit 7 is set if its distance is not that of the match before; bits 4 to 6
/// are the literals before it, 7 meaning 7 and what a byte of `runs` adds; bits 0 to 3 are its
/// length less 4, 15 meaning 19 and what a byte of `lens` adds. A byte of 255 is followed by three
/// bytes of `large`, which are added instead.
#[derive(Clone, Debug, Default)]
pub struct ShortMatches {
    /// One byte for each match.
    pub tokens: Vec<u8>,
    /// The upper byte of each distance that is stated.
    pub high: Vec<u8>,
    /// The lower byte.
    pub low: Vec<u8>,
    /// Of runs of 7 literals and more.
    pub runs: Vec<u8>,
    /// Of matches of 19 bytes and more.
    pub lens: Vec<u8>,
    /// Three bytes for each 255 in `runs` and `lens`, in the order of tokens, `runs` first.
    pub large: Vec<u8>,
    /// What is in no match.
    pub literals: Vec<u8>,
}

impl ShortMatches {
    /// Memory as of now, in bytes.
    pub fn memory(&self) -> usize {
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = self;
        [tokens, high, low, runs, lens, large, literals].into_iter().map(Vec::capacity).sum()
    }

    /// Room for the matches and literals of `len` bytes, with all columns empty.
    fn make_room(&mut self, len: usize) {
        let matches = len / SHORT_LEAST + 1;
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = self;
        for (column, most) in [
            (tokens, matches),
            (high, matches),
            (low, matches),
            (runs, len / (MORE_LITERALS + SHORT_LEAST) + 1),
            (lens, len / (SHORT_LEAST + MORE_LENGTH) + 1),
            (large, 3 * (len / ESCAPE + 1)),
            (literals, len + 32),
        ] {
            column.clear();
            // One more may be written than counts, and four bytes for three.
            column.reserve(most + 4);
        }
    }
}

/// Where the next byte of each column of [`ShortMatches`] goes.
#[derive(Clone, Copy)]
struct Ends {
    tokens: *mut u8,
    high: *mut u8,
    low: *mut u8,
    runs: *mut u8,
    lens: *mut u8,
    large: *mut u8,
    literals: *mut u8,
}

impl Ends {
    fn of(out: &mut ShortMatches) -> Ends {
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = out;
        Ends {
            tokens: tokens.as_mut_ptr(),
            high: high.as_mut_ptr(),
            low: low.as_mut_ptr(),
            runs: runs.as_mut_ptr(),
            lens: lens.as_mut_ptr(),
            large: large.as_mut_ptr(),
            literals: literals.as_mut_ptr(),
        }
    }

    /// Appends the last `run` literals, and makes what was written count.
    ///
    /// # Safety
    /// As of [`Ends::push`]; the ends began as those of `out`, which was not changed since.
    unsafe fn end(mut self, from: *const u8, run: usize, out: &mut ShortMatches) {
        // SAFETY: there is room for all literals and 32 more.
        unsafe {
            copy_words(from, self.literals, run);
            self.literals = self.literals.add(run);
        }
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = out;
        for (column, end) in [
            (tokens, self.tokens),
            (high, self.high),
            (low, self.low),
            (runs, self.runs),
            (lens, self.lens),
            (large, self.large),
            (literals, self.literals),
        ] {
            // SAFETY: `end` is in the column's allocation, and what is before it was written.
            unsafe {
                let len = end.offset_from(column.as_ptr()) as usize;
                column.set_len(len);
            }
        }
    }

    /// Appends a match of `len` bytes, at least 4, after the `run` literals at `from`.
    ///
    /// # Safety
    /// All matches and literals together have at most as many bytes as [`ShortMatches::make_room`]
    /// was told, and `from` has 31 bytes more than `run`.
    #[inline(always)]
    unsafe fn push(
        &mut self,
        from: *const u8,
        run: usize,
        len: usize,
        distance: usize,
        is_new: bool,
    ) {
        let more = len - SHORT_LEAST;
        let token = u8::from(is_new) << 7
            | (run.min(MORE_LITERALS) << 4) as u8
            | more.min(MORE_LENGTH) as u8;
        // SAFETY: there is room for a match and its literals in each column, and for one byte more
        // than counts; literals are followed by room for 32 more.
        unsafe {
            self.tokens.write(token);
            self.tokens = self.tokens.add(1);
            self.high.write((distance >> 8) as u8);
            self.high = self.high.add(usize::from(is_new));
            self.low.write(distance as u8);
            self.low = self.low.add(usize::from(is_new));
            copy_words(from, self.literals, run);
            self.literals = self.literals.add(run);
            if run >= MORE_LITERALS {
                put_more(run - MORE_LITERALS, &mut self.runs, &mut self.large);
            }
            if more >= MORE_LENGTH {
                put_more(more - MORE_LENGTH, &mut self.lens, &mut self.large);
            }
        }
    }
}

/// # Safety
/// There is room for one byte in `column`, and for four in `large`.
#[inline(always)]
unsafe fn put_more(value: usize, column: &mut *mut u8, large: &mut *mut u8) {
    // SAFETY: by the caller.
    unsafe {
        column.write(value.min(ESCAPE) as u8);
        *column = column.add(1);
        if value >= ESCAPE {
            large.cast::<[u8; 4]>().write_unaligned((value as u32).to_le_bytes());
            *large = large.add(3);
        }
    }
}

/// Finds short matches. Keeps its table from call to call.
#[derive(Clone, Debug)]
pub struct ShortSearch {
    /// Bits of an index.
    bits: u32,
    table: Vec<u32>,
    /// Of a deep search.
    long: Vec<u32>,
    effort: ShortEffort,
    last: u16,
}

impl ShortSearch {
    /// A search with a table of `2^bits` entries, 8 to 16, or two, which are allocated when first
    /// used.
    pub fn new(bits: u32, effort: ShortEffort) -> ShortSearch {
        assert!((8..=16).contains(&bits), "8 to 16 bits");
        let (table, long) = (Vec::new(), Vec::new());
        ShortSearch { bits, table, long, effort, last: SHORT_FIRST_DISTANCE }
    }

    /// Forgets all positions.
    pub fn reset(&mut self) {
        self.table.fill(0);
        self.long.fill(0);
        self.last = SHORT_FIRST_DISTANCE;
    }

    /// Searches as [`ShortSearch::new`] with these would from now on; what it has entered is forgotten
    /// if they are others than before. What is found does not tell the reader.
    pub fn set_effort(&mut self, bits: u32, effort: ShortEffort) {
        assert!((8..=16).contains(&bits), "8 to 16 bits");
        if (bits, effort) != (self.bits, self.effort) {
            (self.bits, self.effort) = (bits, effort);
            // The next search makes tables of the new size, of zeros.
            self.table.clear();
            self.long.clear();
        }
    }

    /// Takes back what searches of `content[from..end]` have entered, and begins anew: afterwards the
    /// search is as `before`, of which it was a copy then. It takes time for the bytes searched, and
    /// not for the table.
    ///
    /// # Panics
    /// If the tables have different sizes, or `content` lacks its slack.
    pub fn undo(&mut self, before: &ShortSearch, content: &[u8], from: usize, end: usize) {
        assert!(from <= end && end + SHORT_SLACK <= content.len());
        assert!(self.bits == before.bits && self.effort == before.effort);
        let entered = &content[from..end + BATCH + HASHED_LONG];
        let ShortSearch { bits, table, long, effort, last } = self;
        if effort.is_deep() {
            search::undo::<HASHED_SHORT>(table, &before.table, *bits, entered);
            search::undo::<HASHED_LONG>(long, &before.long, *bits, entered);
        } else {
            search::undo::<HASHED>(table, &before.table, *bits, entered);
        }
        *last = before.last;
    }

    /// The next content does not continue what was searched: the last distance is that of the
    /// beginning.
    pub fn restart(&mut self) {
        self.last = SHORT_FIRST_DISTANCE;
    }

    /// Memory as of now, in bytes.
    pub fn memory(&self) -> usize {
        (self.table.capacity() + self.long.capacity()) * size_of::<u32>()
    }

    /// Memory in bytes, once used.
    pub fn most_memory(bits: u32, effort: ShortEffort) -> usize {
        size_of::<u32>() << bits << u32::from(effort.is_deep())
    }

    /// Finds matches for `content[from..end]`, at most 2^24 bytes, each in what is before it in
    /// `content`, and puts them in `out`. What is before `from` was searched by the calls before;
    /// its first byte has `position` in all that was ever searched, modulo 2^16. `content` has at
    /// least [`SHORT_SLACK`] bytes from `end` on, on whose values the result may depend.
    pub fn search(
        &mut self,
        kernels: Kernels,
        content: &[u8],
        from: usize,
        end: usize,
        position: u16,
        out: &mut ShortMatches,
    ) {
        assert!(from <= end && end - from < 1 << 24 && end + SHORT_SLACK <= content.len());
        out.make_room(end - from);
        if self.table.is_empty() {
            self.table.resize(1 << self.bits, 0);
            if self.effort.is_deep() {
                self.long.resize(1 << self.bits, 0);
            }
        }
        match kernels.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both levels include AVX2, BMI1, BMI2 and LZCNT, and `Kernels` holds a level
            // only if the machine has it.
            Level::Avx2 | Level::Avx512 => unsafe {
                search_avx2(self, content, from, end, position, out);
            },
            _ => search::search_all::<Portable>(self, content, from, end, position, out),
        }
    }
}
