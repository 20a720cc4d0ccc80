//! Recognizes the beginning of a zstd block in the middle of other bytes.

use super::huffman::{Code, MAX_BITS};
use super::{Literals, LiteralsHead, number, quarter, split};

/// Units of work, as those of `inside::budget`, to build a code.
const CODE: u64 = 500;
/// Literals that are read for a unit.
const LITERALS: usize = 4;

/// Whether a block of `len` bytes may begin with `content`, which may end earlier. Its literals must
/// have a code of their own, and four streams; others are not recognized. Adds the units of work
/// that this takes to `work`.
///
/// The first stream must use up its bits exactly, if it is there. After a plausible header of a
/// block, none of 10^7 places in random bytes passes.
pub(crate) fn may_begin(content: &[u8], len: usize, work: &mut u64) -> bool {
    let Some(Front { description, stream, count }) = Front::read(content, len) else {
        return false;
    };
    *work += CODE;
    let Ok((code, _)) = Code::read(description) else { return false };
    let Some(stream) = stream else { return true };
    *work += (count / LITERALS) as u64;
    code.unpack(stream, count, &mut Vec::with_capacity(count)).is_ok()
}

/// How a literals section begins.
struct Front<'a> {
    /// Of the code.
    description: &'a [u8],
    /// The first stream, if it is there, and the number of literals in it.
    stream: Option<&'a [u8]>,
    count: usize,
}

impl<'a> Front<'a> {
    /// `None` if the sizes do not fit together.
    fn read(content: &'a [u8], len: usize) -> Option<Front<'a>> {
        let mut rest = content;
        let head = LiteralsHead::fields(&mut rest).ok()?;
        let (count, packed, used) = (head.count, head.packed, content.len() - rest.len());
        // The shortest head with room is used, the code makes literals shorter, and sequences follow.
        let shortest = 3 + usize::from(count >= 1 << 10) + usize::from(count >= 1 << 14);
        let is_usual = head.kind == Literals::Coded(4) && !head.inherits && used == shortest;
        if !is_usual || packed >= count || used + packed >= len {
            return None;
        }
        let header = usize::from(*rest.first()?);
        let described = 1 + if header < 128 { header } else { (header - 127).div_ceil(2) };
        let description = split(&mut rest, described).ok()?;
        let jumps = split(&mut rest, 6).ok()?;
        let sizes = [0, 2, 4].map(|at| number(&jumps[at..at + 2]));
        let last = packed.checked_sub(described + 6 + sizes.iter().sum::<usize>())?;
        let left = count.checked_sub(3 * quarter(count))?;
        // Each literal has 1 to `MAX_BITS` bits, and another bit marks the end of a stream.
        let fits = |count: usize, size: usize| {
            (count / 8 + 1..=count * MAX_BITS as usize / 8 + 1).contains(&size)
        };
        let all_fit = sizes.iter().all(|&size| fits(quarter(count), size)) && fits(left, last);
        let stream = rest.get(..sizes[0]);
        all_fit.then_some(Front { description, stream, count: quarter(count) })
    }
}
