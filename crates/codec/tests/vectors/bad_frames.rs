//! Frames that every decoder must refuse.
//!
//! Longer than 600 lines: a table of frames.

use crate::common::params::Params;
use crate::hand::{
    CODED, CONTEXT, FRESH, Hand, LITERALS, LZ4, OFFSET, digits, noise, plainly_coded, text, varints,
};
use crate::symbols::Symbols;
use crate::{Maker, Vector};
use oncewire_codec::{CachePolicy, ChecksumSeed, Entropy, Kernels};

/// Collects the vectors. Each starts with the same 600 bytes in two blocks of 300, in a log of
/// 1,000.
struct Book {
    all: Vec<Vector>,
    params: Params,
}

impl Book {
    fn first() -> Vec<u8> {
        text(81, 300)
    }

    fn second() -> Vec<u8> {
        text(82, 300)
    }

    fn start(&self, name: &'static str, error: &'static str, story: &'static str) -> Vector {
        let (first, second) = (Book::first(), Book::second());
        let frames = vec![Hand::raw(0, &first).write(), Hand::raw(300, &second).write()];
        let blocks = [(0, first), (300, second)].into();
        Vector {
            frames,
            blocks,
            error: Some(error),
            ..Vector::new(name, story, self.params.clone())
        }
    }

    /// A bad frame after the two good ones.
    fn bad(
        &mut self,
        name: &'static str,
        error: &'static str,
        story: &'static str,
        frame: Vec<u8>,
    ) {
        let mut vector = self.start(name, error, story);
        vector.frames.push(frame);
        self.all.push(vector);
    }
}

/// All of them.
pub(crate) fn all(kernels: Kernels) -> Vec<Vector> {
    let params = Params {
        cache: 1000,
        span: 0,
        max_block: 300,
        entropy: Entropy::None,
        ..Params::default()
    };
    let mut book = Book { all: Vec::new(), params };
    heads(&mut book);
    descriptors(&mut book);
    offsets(&mut book);
    literals(&mut book);
    contents(&mut book);
    policies(&mut book);
    let mut all = book.all;
    all.extend(coded(kernels));
    all.extend(crate::transcoded::bad());
    all.extend(crate::fixed::bad());
    all.extend(crate::columns::bad());
    all
}

fn heads(book: &mut Book) {
    let block = text(83, 20);
    let good = Hand::raw(600, &block);
    let flags = |flags| Hand { flags, ..good.clone() }.write();
    book.bad("descriptor-coding-3", "error Field", "Descriptor coding 3 does not exist.", flags(3));
    book.bad(
        "flags-of-a-trailer",
        "error Field",
        "No frame begins like the end of a pack.",
        flags(0xff),
    );
    book.bad(
        "fresh-without-context",
        "error Field",
        "A frame that uses no context can begin none.",
        flags(FRESH),
    );
    book.bad(
        "context-without-use",
        "error Field",
        "A frame that uses no context names none.",
        Hand { context: 1, ..good.clone() }.with(CONTEXT),
    );

    let body = &good.write()[2..];
    book.bad(
        "length-too-long-a-form",
        "error Field",
        "The body length, 29, in two bytes where one is enough.",
        [&[0, 0x9d, 0x00], body].concat(),
    );
    book.bad(
        "length-of-ten-bytes",
        "error Field",
        "A body length of ten bytes.",
        [&[0][..], &[0xff; 9], &[0x01], body].concat(),
    );
    book.bad(
        "body-too-long",
        "error TooLarge",
        "A body of 429 bytes: the block limit and 128 are 428.",
        [&[0, 0xad, 0x03], body].concat(),
    );
    book.bad(
        "block-too-long",
        "error TooLarge",
        "A block of 301 bytes where 300 are agreed.",
        Hand::raw(600, &text(83, 301)).write(),
    );
    book.bad(
        "no-room-for-a-checksum",
        "error Short",
        "A body of seven bytes.",
        [&[0, 7, 0][..], &[1; 6]].concat(),
    );
    book.bad(
        "block-length-cut",
        "error Short",
        "The body ends inside its first field.",
        vec![0, 2, 0x80, 0x80],
    );
    book.bad(
        "block-length-too-long-a-form",
        "error Field",
        "The block length in two bytes where one is enough.",
        [&[0, 30, 0x94, 0x00], &body[1..]].concat(),
    );
    book.bad(
        "cut",
        "need",
        "The last byte of the frame has not come: no error, but a wait.",
        good.write()[..good.write().len() - 1].to_vec(),
    );
    book.bad("nothing", "need", "Nothing has come: no error, but a wait.", Vec::new());
    book.bad(
        "cut-in-the-length",
        "need",
        "The body length goes on where the input ends.",
        vec![0, 0x80],
    );
}

impl Hand {
    fn with(self, flags: u8) -> Vec<u8> {
        Hand { flags: self.flags | flags, ..self }.write()
    }
}

// More than 100 lines: a table of cases.
fn descriptors(book: &mut Book) {
    let second = Book::second();
    // 100 bytes from the start of the second block, then 20 of text.
    let block = [&second[..100], &text(84, 20)].concat();
    let literals = &block[100..];
    let frame = |numbers: &[u64]| Hand::plain(600, &block, numbers, literals).write();
    book.bad("no-matches", "error Field", "Plain descriptors of no match.", frame(&[0]));
    book.bad(
        "more-matches-than-fit",
        "error Field",
        "Plain descriptors that announce more matches than their section can hold.",
        frame(&[2, 0, 300, 100]),
    );
    book.bad(
        "distance-0-first",
        "error Field",
        "The distance of the match before, and there is none.",
        frame(&[1, 0, 0, 100]),
    );
    book.bad(
        "gap-beyond-the-block",
        "error Sum",
        "A match that begins where the block ends.",
        frame(&[1, 120, 300, 1]),
    );
    book.bad(
        "match-beyond-the-block",
        "error Sum",
        "A match one byte longer than the block.",
        frame(&[1, 0, 300, 121]),
    );
    book.bad(
        "literals-left-over",
        "error Sum",
        "A match of 99 bytes leaves 21 for the 20 literals.",
        frame(&[1, 0, 300, 99]),
    );
    book.bad(
        "descriptors-left-over",
        "error Excess",
        "One number too many behind the descriptors.",
        frame(&[1, 0, 300, 100, 5]),
    );
    let cut = Hand {
        descriptors: [&varints(&[1, 0, 300])[..], &[0x80]].concat(),
        ..Hand::plain(600, &block, &[], literals)
    };
    book.bad(
        "descriptor-cut",
        "error Short",
        "The last number of the descriptors goes on where their section ends.",
        cut.write(),
    );
    let long = Hand {
        descriptors: [&varints(&[1, 0, 300])[..], &[0xe4, 0x00]].concat(),
        ..Hand::plain(600, &block, &[], literals)
    };
    book.bad(
        "descriptor-too-long-a-form",
        "error Field",
        "A length of 100 in two bytes where one is enough.",
        long.write(),
    );
    let mut too_long = frame(&[1, 0, 300, 100]);
    too_long[3] = 200;
    book.bad(
        "descriptors-beyond-the-body",
        "error Short",
        "A descriptor section that is longer than the rest of the frame.",
        too_long,
    );

    // Referenceable content: 600 + 120 - 1000 is below 0, so everything from 0 to 600.
    book.bad(
        "before-the-beginning",
        "error Reference",
        "A distance that reaches below offset 0.",
        frame(&[1, 0, 601, 100]),
    );
    book.bad(
        "from-the-past-into-itself",
        "error Reference",
        "A source that begins in the log and ends in the block.",
        frame(&[1, 0, 99, 100]),
    );
    let ahead = [&[b'x'; 10][..], &block].concat();
    let frame = Hand::plain(600, &ahead, &[1, 10, 0x3fff_ffff_ffff_ffff, 100], &[b'x'; 30]);
    book.bad("distance-too-large", "error Reference", "A distance of 2^62 - 1.", frame.write());

    // The generation ends with padding at 850..1000. The current block extends to 1250 and may
    // reference 510 and above.
    let (filler, third, block) = (text(85, 250), text(86, 250), noise(86, 260));
    let after_padding = Hand {
        checksum: ChecksumSeed::default().checksum(1000, 150, &third),
        ..Hand::raw(1000, &third)
    };
    for (name, story, distance, len) in [
        (
            "below-the-floor",
            "A match that begins one byte below what a block of its length may refer to.",
            741,
            250,
        ),
        ("into-padding", "A match whose last byte is padding.", 450, 51),
        ("inside-padding", "A match in the padding at the end of a lap.", 350, 50),
    ] {
        let mut vector = book.start(name, "error Reference", story);
        vector.blocks.extend([(600, filler.clone()), (1000, third.clone())]);
        vector.frames.extend([Hand::raw(600, &filler).write(), after_padding.write()]);
        vector.frames.push(
            Hand::plain(1250, &block, &[1, 0, distance, len], &block[len as usize..]).write(),
        );
        book.all.push(vector);
    }
    let story = "A match over the end of a lap that is full: its bytes do not lie together.";
    let mut vector = book.start("across-laps", "error Reference", story);
    for (offset, len) in [(600, 300), (900, 100), (1000, 250)] {
        let filler = text(offset, len);
        vector.frames.push(Hand::raw(offset, &filler).write());
        vector.blocks.insert(offset, filler);
    }
    vector.frames.push(Hand::plain(1250, &block, &[1, 0, 300, 100], &block[100..]).write());
    book.all.push(vector);
}

fn offsets(book: &mut Book) {
    let block = text(87, 200);
    let at =
        |offset, padding, block: &[u8]| Hand::raw(offset, block).at(offset, padding, block).write();
    book.bad("a-gap", "error Offset", "A byte is left out, and the span is 0.", at(601, 0, &block));
    book.bad("again", "error Offset", "An offset that is held already.", at(400, 0, &block));
    book.bad("offset-too-large", "error Field", "An offset of 2^62.", at(1 << 62, 0, &block));
    book.bad(
        "padding-before-the-beginning",
        "error Field",
        "More padding than offset.",
        at(600, 601, &block),
    );
    let other = Hand { explicit: (600, 0), flags: OFFSET, ..Hand::raw(601, &block) };
    book.bad(
        "offset-changed",
        "error Checksum",
        "A frame of another offset that claims this one.",
        other.write(),
    );

    // From here on, 250 bytes ahead are accepted.
    book.params.span = 250;
    book.bad(
        "beyond-the-span",
        "error Offset",
        "A block that ends one byte above 600 and the span of 250.",
        at(651, 0, &block),
    );
    book.bad(
        "padding-inside-a-lap",
        "error Offset",
        "Padding before a block that starts no lap.",
        at(650, 50, &block),
    );
    for (name, error, story, filler, frame) in [
        (
            "across-the-end-of-the-ring",
            "error Offset",
            "A block at 900..1100 in a ring of 1,000.",
            300,
            at(900, 0, &block),
        ),
        (
            "padding-over-content",
            "error Offset",
            "Padding of 200 bytes where the last 50 are content.",
            250,
            at(1000, 200, &block[..50]),
        ),
        (
            "padding-changed",
            "error Checksum",
            "A block behind 100 bytes of padding that claims 99: the byte in between would be a hole that nothing ever fills.",
            300,
            Hand {
                explicit: (1000, 99),
                ..Hand::raw(1000, &block[..150]).at(1000, 100, &block[..150])
            }
            .write(),
        ),
        (
            "over-a-hole",
            "error Offset",
            "A block where the next one of its length would go, but for the 100 bytes before it that are no padding and have not come.",
            300,
            at(1000, 0, &text(88, 300)),
        ),
    ] {
        let mut vector = book.start(name, error, story);
        let filler = text(89, filler);
        vector.frames.extend([Hand::raw(600, &filler).write(), frame]);
        vector.blocks.insert(600, filler);
        book.all.push(vector);
    }
    book.params.span = 0;
}

// More than 100 lines: a table of cases.
fn literals(book: &mut Book) {
    let block = text(92, 120);
    let with = |flags, literals: &[u8]| {
        Hand { flags, literals: literals.to_vec(), ..Hand::raw(600, &block) }.write()
    };
    let lz4 = |content: &[u8]| lz4_flex::block::compress(content);
    book.bad(
        "raw-too-short",
        "error Sum",
        "A byte fewer than the block has.",
        with(0, &block[1..]),
    );
    book.bad("lz4-noise", "error Literals", "Noise as an LZ4 block.", with(LZ4, &[0xf0; 40]));
    let zero = [b"\xff\x00abcdefghijklmno\x00\x00\x4e".as_slice(), b"\x80stuvwxyz"].concat();
    book.bad(
        "lz4-offset-0",
        "error Literals",
        "An LZ4 match at a distance of 0.",
        with(LZ4, &zero),
    );
    book.bad(
        "lz4-too-short",
        "error Literals",
        "An LZ4 block of a byte fewer.",
        with(LZ4, &lz4(&block[1..])),
    );
    book.bad(
        "lz4-too-long",
        "error Literals",
        "An LZ4 block of a byte more.",
        with(LZ4, &lz4(&text(92, 121))),
    );
    let flags = LITERALS | FRESH;
    let mut literals = |name, error, story, section: &[u8]| {
        book.bad(name, error, story, with(flags, section));
    };
    let section = plainly_coded(&block);
    literals(
        "literals-noise",
        "error TooLarge",
        "Noise as coded literals: its first number is one of short matches.",
        &noise(92, 40),
    );
    literals("literals-none", "error Short", "Coded literals of no byte: one says 0.", &[]);
    literals(
        "literals-too-few",
        "error Short",
        "Coded literals, a byte fewer.",
        &section[..section.len() - 1],
    );
    literals(
        "literals-too-many",
        "error Excess",
        "Coded literals, and a byte more.",
        &[&section[..], b"x"].concat(),
    );
    literals(
        "literals-coding",
        "error Field",
        "A column coded in a fifth way.",
        &[&[0, 4], &block[..]].concat(),
    );
    literals(
        "literals-no-code",
        "error Field",
        "A column under a kept code where none was stated.",
        &[&[0, 1], &block[..]].concat(),
    );
    // A block of 128 bytes may state a code.
    let mut coded = |name, error, story, len: usize, section: &[u8]| {
        let literals = section.to_vec();
        let frame = Hand { flags, literals, ..Hand::raw(600, &text(92, len)) }.write();
        book.bad(name, error, story, frame);
    };
    coded(
        "literals-code-too-long",
        "error Literals",
        "A code with too few words.",
        128,
        &[&[0, 2], &code(&[(b'a', 1), (b'b', 2)])[..], &[0x55; 40]].concat(),
    );
    coded(
        "literals-code-cut",
        "error Short",
        "A code without its last bytes.",
        128,
        &[&[0, 2][..], &code(&[(b'a', 1), (b'b', 1)])[..4]].concat(),
    );
    coded(
        "literals-stream-end",
        "error Literals",
        "A stream of 129 bits, after which bits of 1 follow in its last byte.",
        128,
        &[
            &[0, 2][..],
            &code(&[(b'a', 1), (b'b', 2), (b'c', 2)]),
            &[&[0x80][..], &[0; 15], &[0x7f]].concat(),
        ]
        .concat(),
    );
    coded(
        "literals-code-of-a-short-block",
        "error TooLarge",
        "A new code in a block of 127 bytes.",
        127,
        &[&[0, 2][..], &code(&[(b'a', 1), (b'b', 1)]), &[0; 16]].concat(),
    );
    let mut literals = |name, error, story, section: &[u8]| {
        book.bad(name, error, story, with(flags, section));
    };
    literals(
        "short-matches-too-many",
        "error TooLarge",
        "31 short matches for 120 literals.",
        &[&[31, 3, 0][..], &block].concat(),
    );
    // One token: a run of 3 literals, and a match of 4 bytes at the last distance, which is 8.
    literals(
        "short-distance-beyond",
        "error Literals",
        "A short match from before the first literal.",
        &[&[1, 0x30, 0][..], &block[..116]].concat(),
    );
    literals(
        "short-distance-0",
        "error Literals",
        "A short match at a distance of 0.",
        &[&[1, 0xb0, 0, 0, 0][..], &block[..116]].concat(),
    );
    literals(
        "short-match-too-long",
        "error Literals",
        "A short match of 121 bytes, for 120 literals.",
        &[1, 0xbf, 0, 1, 102, b'a'],
    );
    literals(
        "short-run-too-long",
        "error Literals",
        "A run of 117 literals where there are 116.",
        &[&[1, 0x70, 110, 0][..], &block[..116]].concat(),
    );
    book.bad(
        "context-never-begun",
        "error ContextLost",
        "A frame that continues a context which no frame began.",
        with(LITERALS, &section),
    );
    let id = |context| {
        Hand {
            flags: flags | CONTEXT,
            context,
            literals: section.clone(),
            ..Hand::raw(600, &block)
        }
        .write()
    };
    book.bad("context-0-stated", "error Field", "Context 0 has no number in a frame.", id(0));
    book.bad("context-256", "error Field", "Context 256: one byte's worth is the limit.", id(256));
    book.bad(
        "context-not-agreed",
        "error TooLarge",
        "Context 1 where one context is agreed.",
        id(1),
    );

    let mut vector = book.start(
        "context-after-a-failure",
        "error ContextLost",
        "A context whose frame failed does not go on.",
    );
    vector.frames.push(
        Hand { checksum: 1, flags, literals: section.clone(), ..Hand::raw(600, &block) }.write(),
    );
    vector
        .frames
        .push(Hand { flags: LITERALS, literals: section, ..Hand::raw(600, &block) }.write());
    book.all.push(vector);
}

fn contents(book: &mut Book) {
    let block = text(93, 100);
    let good = Hand::raw(600, &block);
    let checksum = |checksum| Hand { checksum, ..good.clone() }.write();
    book.bad(
        "checksum-bit",
        "error Checksum",
        "One bit of the checksum is wrong.",
        checksum(good.checksum ^ 1 << 63),
    );
    let mut changed = good.clone();
    changed.literals[50] ^= 0x20;
    book.bad("content-bit", "error Checksum", "One bit of the content is wrong.", changed.write());
    book.bad("another-epoch", "error Checksum", "A frame of epoch 1.", {
        checksum(ChecksumSeed { session: 0, epoch: 1 }.checksum(600, 0, &block))
    });
    book.bad("another-session", "error Checksum", "A frame of session 1.", {
        checksum(ChecksumSeed { session: 1, epoch: 0 }.checksum(600, 0, &block))
    });
    book.bad(
        "another-place",
        "error Checksum",
        "A frame without an offset that was meant to go elsewhere.",
        Hand::raw(700, &block).write(),
    );
    book.bad("another-source", "error Checksum", "A match one byte beside the right one.", {
        let second = Book::second();
        Hand::plain(600, &second[..100], &[1, 0, 299, 0], b"").write()
    });
}

/// Ends with different cache policies.
fn policies(book: &mut Book) {
    let second = Book::second();
    let block = [&second[..100], &text(94, 20)].concat();
    let matched = Hand::plain(600, &block, &[1, 0, 300, 100], &block[100..]).write();
    let behind = |offset| Hand::raw(offset, b"behind it").write();
    let (runs, blocks) =
        (CachePolicy::NewRuns { straddle: false }, CachePolicy::NewBlocks { below_percent: 50 });
    for (name, story, policy, frame, next) in [
        (
            "new-runs-taken-for-all",
            "The encoder kept 20 bytes of a block, the decoder, whose policy is `all`, 120: the next block has another offset.",
            CachePolicy::All,
            &matched,
            620,
        ),
        (
            "all-taken-for-new-runs",
            "The encoder kept 120 bytes of a block, the decoder, whose policy is `new runs`, 20.",
            runs,
            &matched,
            720,
        ),
        (
            "new-blocks-without-their-matches",
            "The encoder kept nothing of a block for its matches, and sent it without them: the decoder keeps it.",
            blocks,
            &Hand::raw(600, &block).write(),
            600,
        ),
    ] {
        let mut vector = book.start(name, "error Checksum", story);
        vector.params.policy = policy;
        vector.blocks.insert(600, block.clone());
        vector.frames.extend([frame.clone(), behind(next)]);
        book.all.push(vector);
    }
    let mut vector = book.start(
        "new-runs-not-kept",
        "error Reference",
        "A match in what was not kept of the block before: there is no such offset.",
    );
    vector.params.policy = runs;
    vector.blocks.insert(600, block.clone());
    vector
        .frames
        .extend([matched.clone(), Hand::plain(620, &block[..30], &[1, 0, 10, 0], b"").write()]);
    book.all.push(vector);
}

/// A code with words of these lengths, as it is stated first: its length, and the section.
fn code(words: &[(u8, usize)]) -> Vec<u8> {
    let mut lengths = [0; 256];
    words.iter().for_each(|&(symbol, bits)| lengths[usize::from(symbol)] = bits);
    let mut symbols = Symbols::default();
    let mut below = 0;
    for bits in lengths {
        // No symbol has had a word before.
        symbols.put(if below > 0 { "length[1]" } else { "length[0]" }, bits);
        below = bits;
    }
    let section = symbols.finish();
    [varints(&[section.len() as u64]), section].concat()
}

/// Coded descriptors, written by the encoder and then changed.
fn coded(kernels: Kernels) -> Vec<Vector> {
    let params = Params {
        cache: 8009,
        max_block: 2000,
        entropy: Entropy::Coded { level: 1 },
        window: 16,
        period: 4,
        ..Params::default()
    };
    let base = digits(95, 1800);
    let mixed =
        [&base[900..1200], b"-", &base[100..400], b"+", &base[500..800], b"=", &base[1200..1600]]
            .concat();
    let make = |name, error, story, change: &dyn Fn(&mut Vec<u8>)| {
        let mut maker = Maker::new(kernels, name, story, params.clone());
        maker.block(LITERALS | FRESH, 0, &base).block(CODED, 0, &mixed);
        let mut vector = maker.vector;
        vector.error = Some(error);
        vector.pinned = false;
        vector.blocks.remove(&1800);
        change(&mut vector.frames[1]);
        vector
    };
    // Flags, body length (one byte), block length, hull start and end (two bytes each), descriptor
    // length (one).
    const HULL: usize = 4;
    const DESCRIPTORS: usize = 8;
    vec![
        make("hull-turned", "error Field", "A hull that ends before it starts.", &|frame| {
            frame[HULL..DESCRIPTORS].rotate_left(2)
        }),
        make("coded-noise", "error", "Noise as coded descriptors.", &|frame| {
            let len = usize::from(frame[DESCRIPTORS]) / 2;
            frame[DESCRIPTORS + 1..][..len].copy_from_slice(&noise(95, len));
        }),
        make(
            "coded-cut",
            "error",
            "Coded descriptors without their last byte, which counts as a literal.",
            &|frame| {
                frame[DESCRIPTORS] -= 2;
            },
        ),
        make("coded-bit", "error", "One bit of coded descriptors is wrong.", &|frame| {
            frame[DESCRIPTORS + 5] ^= 4
        }),
    ]
}
