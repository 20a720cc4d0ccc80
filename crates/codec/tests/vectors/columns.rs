//! Descriptors in columns, by hand.

use crate::Vector;
use crate::common::params::Params;
use crate::hand::{CODED, FRESH, Hand, text, varints};
use oncewire_codec::{ChecksumSeed, Entropy};

/// Bytes of the log before the frame.
const AT: u64 = 300;

fn params() -> Params {
    Params { cache: 1000, max_block: 300, entropy: Entropy::None, ..Params::default() }
}

/// A frame of `block`, whose literals are raw, with these descriptors in columns.
fn frame(block: &[u8], descriptors: Vec<u8>, literals: &[u8]) -> Vec<u8> {
    Hand {
        flags: CODED | FRESH,
        hull: (AT, 0),
        descriptors,
        in_columns: true,
        literals: literals.to_vec(),
        block_len: block.len() as u64,
        checksum: ChecksumSeed::default().checksum(AT, 0, block),
        ..Hand::default()
    }
    .write()
}

/// Two matches: 30 bytes from 200 back, and after a literal 60 bytes from 10 farther back.
fn two() -> Vec<u8> {
    // Count, gaps, kinds: class 3 and length 12 + 18, class 1 and one byte of length. Then the
    // change, the lower and the upper byte of the first distance, and the length less 1.
    vec![2, 0, 1, 3 * 36 + 18, 36 + 33, 10, 200, 0, 59]
}

pub(crate) fn good() -> Vec<Vector> {
    let first = text(121, AT as usize);
    let block = [&first[100..130], b"-", &first[121..181]].concat();
    let mut vector = Vector::new(
        "hand-columns",
        "Two matches in columns: a distance of two bytes, a change of it, a length of one byte more.",
        params(),
    );
    vector.frames.extend([Hand::raw(0, &first).write(), frame(&block, two(), b"-")]);
    vector.blocks.insert(0, first);
    vector.blocks.insert(AT, block);
    vec![vector]
}

pub(crate) fn bad() -> Vec<Vector> {
    let first = text(121, AT as usize);
    let block = [&first[100..130], b"-", &first[121..181]].concat();
    let make = |name, error, story, descriptors: Vec<u8>| {
        let mut vector = Vector::new(name, story, params());
        vector.frames.extend([Hand::raw(0, &first).write(), frame(&block, descriptors, b"-")]);
        vector.blocks.insert(0, first.clone());
        vector.error = Some(error);
        vector
    };
    let changed = |at: usize, to: u8| {
        let mut descriptors = two();
        descriptors[at] = to;
        descriptors
    };
    vec![
        make("columns-none", "error TooLarge", "No match in columns.", vec![0]),
        make(
            "columns-too-many",
            "error TooLarge",
            "92 matches in a block of 91 bytes.",
            [varints(&[92]), vec![0; 300]].concat(),
        ),
        make("columns-kind", "error Field", "A kind of 252.", changed(4, 252)),
        make(
            "columns-distance-none",
            "error Field",
            "The distance of the match before, and there is none.",
            vec![1, 0, 18],
        ),
        make("columns-distance-0", "error Field", "A distance of 0.", changed(6, 0)),
        make("columns-distance-beyond", "error Field", "A distance of 456.", changed(7, 1)),
        make("columns-change-below-0", "error Field", "A change by -201.", {
            let mut descriptors = vec![2, 0, 1, 3 * 36 + 18, 2 * 36 + 33];
            descriptors.extend([200, 0x37, 0xff, 0, 59]);
            descriptors
        }),
        make("columns-too-long", "error Sum", "A match beyond the block.", changed(8, 60)),
        make("columns-gap-too-long", "error Sum", "A gap beyond the block.", changed(2, 200)),
        make("columns-cut", "error Short", "No byte for the length.", two()[..8].to_vec()),
        make("columns-left-over", "error Excess", "A byte too many.", [&two()[..], &[0]].concat()),
    ]
}
