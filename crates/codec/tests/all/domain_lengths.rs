//! The lengths of a domain's frames do not depend on how many bytes other domains have put into the
//! log between them.
//!
//! An attacker sends versions of some content, and between them a victim sends a message. With
//! distances whose size shows how far back something lies, the length of the attacker's frames is
//! that of the victim's message.

use crate::common::config_divided;
use crate::common::content::{History, Piece, Rng, noise, piece, text};
use crate::deflated::{edited, gzip, zip, zstd};
use oncewire_codec::{
    DEFAULT_BLOCK, Decoded, Decoder, Domain, Encoder, EncoderStats, Sharing, Stream,
};
use proptest::prelude::*;

const ATTACKER: u64 = 1;
const VICTIM: u64 = 2;

/// How an encoder is built, and how it is used.
#[derive(Clone, Copy, Debug)]
struct Setup {
    sharing: Sharing,
    /// Frames state their offset, as with several lanes.
    explicit: bool,
    cache: u64,
}

const SETUPS: [Setup; 3] = [
    Setup { sharing: Sharing::None, explicit: false, cache: 32 << 20 },
    Setup { sharing: Sharing::None, explicit: true, cache: 32 << 20 },
    Setup { sharing: Sharing::Chunks, explicit: true, cache: 32 << 20 },
];

/// Both ends of a link, with an entropy context for the attacker and another for all others.
struct Ends {
    encoder: Encoder,
    decoder: Decoder,
    streams: [Stream; 2],
}

impl Ends {
    fn new(setup: Setup) -> Ends {
        let mut encoder = Encoder::builder()
            .cache(setup.cache)
            .sharing(setup.sharing)
            .explicit_offsets(setup.explicit)
            .fingerprint_key(31)
            .table_entries(1 << 20)
            .inside(true)
            .contexts(2)
            .build()
            .unwrap();
        let mut decoder = Decoder::builder().cache(setup.cache).contexts(2).build().unwrap();
        // More than one domain, whoever sends first.
        for domain in [98, 99] {
            encoder.enter(Domain(domain));
            encoder.prime(&[b'x'; 10]).unwrap();
            decoder.prime(&[b'x'; 10]);
        }
        let streams = [ATTACKER, VICTIM].map(|domain| Stream::new(Domain(domain)));
        Ends { encoder, decoder, streams }
    }

    /// Sends content of a domain that is not the attacker's.
    fn send_other(&mut self, domain: u64, content: &[u8], block: usize) {
        self.encoder.reset_context(1).unwrap();
        self.streams[1] = Stream::new(Domain(domain));
        self.send(1, content, block);
    }

    /// Sends content of one of the two; returns the flags and the lengths of the frames.
    fn send(&mut self, who: usize, content: &[u8], block: usize) -> Vec<(u8, usize)> {
        let mut frame = Vec::new();
        let frames = content.chunks(block).map(|block| {
            frame.clear();
            let stream = &mut self.streams[who];
            self.encoder.encode_stream(stream, block, who).unwrap().append_to(&mut frame);
            match self.decoder.decode(&frame) {
                Ok(Decoded::Block { content, .. }) => assert!(content == block),
                other => panic!("{other:?}"),
            }
            (frame[0], frame.len())
        });
        frames.collect()
    }
}

/// What the attacker sends between messages of the victim, in blocks of this size.
struct Attack {
    name: &'static str,
    messages: Vec<Vec<u8>>,
    block: usize,
}

/// The attacker's frames, with messages of the victim between its own: the flags and lengths.
type View = Vec<Vec<(u8, usize)>>;

fn view(setup: Setup, attack: &Attack, victim: &[Vec<u8>]) -> (View, EncoderStats) {
    let mut ends = Ends::new(setup);
    let mut seen = Vec::new();
    for (nth, message) in attack.messages.iter().enumerate() {
        seen.push(ends.send(0, message, attack.block));
        ends.send(1, &victim[nth % victim.len()], DEFAULT_BLOCK);
    }
    (seen, ends.encoder.stats())
}

/// Content of the attacker, and edited versions of it.
fn versions(content: &[u8], count: u64, edits: usize) -> Vec<Vec<u8>> {
    (0..count).map(|nth| edited(content, nth, edits)).collect()
}

/// Bytes that repeat earlier ones here and there, in another order.
fn shuffled(content: &[u8], seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut out = Vec::new();
    for _ in 0..40 {
        let at = rng.below(content.len() - 2000);
        out.extend_from_slice(&content[at..at + 200 + rng.below(1500)]);
        out.extend_from_slice(&noise(rng.next(), rng.below(30)));
    }
    out
}

/// The first two in parts, then the others whole.
fn in_parts(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (first, rest) = messages.split_at(2);
    let parts = first.iter().flat_map(|message| message.chunks(message.len() / 5));
    parts.map(<[u8]>::to_vec).chain(rest.iter().cloned()).collect()
}

fn attacks() -> Vec<Attack> {
    let random = noise(1, 60_000);
    let words = text(2, 60_000);
    let request = |nth: u64| [&text(3, 700)[..], &nth.to_le_bytes(), &text(4, 300)].concat();
    let compressed = |compress: &dyn Fn(&[u8]) -> Vec<u8>, len| -> Vec<Vec<u8>> {
        versions(&text(5, len), 4, 30).iter().map(|version| compress(version)).collect()
    };
    let all = |messages: Vec<Vec<u8>>| messages.concat();
    vec![
        Attack {
            name: "repeats",
            messages: vec![random[..5000].to_vec(); 4],
            block: DEFAULT_BLOCK,
        },
        Attack {
            name: "small requests",
            messages: (0..6).map(request).collect(),
            block: DEFAULT_BLOCK,
        },
        Attack { name: "incompressible", messages: versions(&random, 4, 40), block: DEFAULT_BLOCK },
        Attack { name: "compressible", messages: versions(&words, 4, 200), block: 16 << 10 },
        Attack {
            name: "in another order",
            messages: [vec![random.clone()], (0..4).map(|nth| shuffled(&random, nth)).collect()]
                .concat(),
            block: DEFAULT_BLOCK,
        },
        Attack {
            name: "of several messages",
            messages: [
                versions(&random, 2, 40),
                (0..3).map(|nth| shuffled(&all(versions(&random, 2, 40)), nth)).collect(),
            ]
            .concat(),
            block: 20_000,
        },
        Attack {
            name: "gzip",
            messages: compressed(&|version| gzip(version, 6), 120_000),
            block: DEFAULT_BLOCK,
        },
        Attack {
            name: "zip",
            messages: (0..4)
                .map(|nth| zip(&versions(&text(6, 20_000), 3 + nth, 10)[nth as usize..], 6))
                .collect(),
            block: 8000,
        },
        Attack {
            name: "zstd",
            messages: compressed(&|version| zstd(version, 3, usize::MAX), 300_000),
            block: DEFAULT_BLOCK,
        },
        // The victim's messages come in the middle of streams.
        Attack {
            name: "gzip in parts",
            messages: in_parts(&compressed(&|version| gzip(version, 6), 60_000)),
            block: DEFAULT_BLOCK,
        },
        Attack {
            name: "zstd in parts",
            messages: in_parts(&compressed(&|version| zstd(version, 3, 20_000), 100_000)),
            block: DEFAULT_BLOCK,
        },
        Attack {
            name: "zstd, flushed",
            messages: compressed(&|version| zstd(version, 1, 30_000), 200_000),
            block: 30_000,
        },
    ]
}

/// Asserts that the attacker sees the same for all messages of the victim.
fn assert_blind(setup: Setup, attack: &Attack, victims: impl Iterator<Item = Vec<Vec<u8>>>) {
    let mut first: Option<(View, Vec<usize>)> = None;
    for victim in victims {
        let lens: Vec<usize> = victim.iter().map(Vec::len).collect();
        let (seen, _) = view(setup, attack, &victim);
        match &first {
            None => first = Some((seen, lens)),
            Some((before, of)) => assert!(
                seen == *before,
                "{}, {setup:?}: {before:?} for messages of {of:?} bytes, {seen:?} for {lens:?}",
                attack.name
            ),
        }
    }
}

/// Around powers of 128, and of 2.
const LENGTHS: [usize; 24] = [
    1, 2, 100, 127, 128, 129, 512, 1000, 4096, 7321, 10_000, 11_384, 15_000, 16_383, 16_384,
    16_385, 20_000, 32_768, 65_536, 100_000, 131_072, 300_000, 1_000_000, 1_500_000,
];

#[test]
fn frames_are_as_long_however_long_the_messages_of_others_are() {
    for (nth, setup) in SETUPS.into_iter().enumerate() {
        for attack in attacks() {
            let lengths = LENGTHS.iter().skip(nth).step_by([1, 4, 4][nth]);
            assert_blind(setup, &attack, lengths.map(|&len| vec![noise(9, len)]));
        }
    }
}

#[test]
fn each_byte_of_a_short_message_is_as_good_as_any_other() {
    let attacks = attacks();
    for setup in SETUPS {
        for attack in &attacks[..2] {
            // The sums with what the attacker itself has sent cross the limits of 7 and 14 bits.
            let lengths = (1..300).chain((9000..17_000).step_by(89)).chain(6300..6500);
            assert_blind(setup, attack, lengths.map(|len| vec![text(10, len)]));
        }
    }
}

#[test]
fn a_megabyte_more_or_less_does_not_show_either() {
    let mut attacks = attacks();
    attacks.truncate(4);
    for attack in &attacks {
        let lengths = [(1 << 21) - 1, 1 << 21, 5000, (1 << 21) + 1, (1 << 21) - 60_000];
        let victims = lengths.iter().map(|&len| vec![noise(11, len), noise(12, 1)]);
        assert_blind(SETUPS[1], attack, victims);
    }
}

/// What the victim's content inflates to does not show in the attacker's, nor how much of it was
/// found.
#[test]
fn frames_are_as_long_however_much_others_have_compressed() {
    let plain = text(13, 400_000);
    let victims = || {
        [1, 3_000, 70_000, 200_000, 400_000].into_iter().flat_map(|len| {
            let content = &plain[..len];
            [
                vec![zstd(content, 3, usize::MAX)],
                vec![gzip(content, 6)],
                // A repeat, and a version.
                vec![zstd(content, 1, 20_000), zstd(&edited(content, 3, 5), 1, 20_000)],
            ]
        })
    };
    for setup in &SETUPS[1..] {
        for attack in attacks() {
            assert_blind(*setup, &attack, victims());
        }
    }
}

/// The tests above would show little if attackers found nothing.
#[test]
fn the_attackers_find_their_content_in_every_way() {
    let (mut plain, mut coded, mut transcoded, mut saved) = (0, 0, 0, 0);
    for attack in attacks() {
        let (seen, stats) = view(SETUPS[0], &attack, &[noise(14, 5000)]);
        let flags: Vec<u8> = seen.iter().flatten().map(|&(flags, _)| flags).collect();
        plain += flags.iter().filter(|&&flags| flags & 3 == 1).count();
        coded += flags.iter().filter(|&&flags| flags & 3 == 2).count();
        transcoded += flags.iter().filter(|&&flags| flags & 12 == 12).count();
        saved += stats.inside.saved_bytes;
        if attack.name.starts_with("z") || attack.name == "gzip" {
            assert!(stats.inside.saved_bytes > 1500, "{}: {:?}", attack.name, stats.inside);
        }
    }
    assert!(plain > 10 && coded > 20 && transcoded > 10, "{plain} {coded} {transcoded} {saved}");
}

/// A decoder's view of a log that others fill, with frames encoded again.
#[test]
fn blocks_that_are_encoded_again_are_as_long_wherever_they_lie() {
    let repair = |len: usize| {
        let mut ends = Ends::new(SETUPS[1]);
        ends.send(1, &noise(15, len), DEFAULT_BLOCK);
        let at = ends.encoder.end();
        ends.send(0, &noise(16, 500), DEFAULT_BLOCK);
        let mut frame = Vec::new();
        ends.encoder.repair(at, 500, &mut frame).unwrap();
        frame.len()
    };
    let first = repair(1);
    assert!(LENGTHS.iter().all(|&len| repair(len) == first));
}

/// What is shared lies in content of others, also in pieces that others have written between.
#[test]
fn shared_chunks_take_as_much_wherever_they_lie() {
    let public: Vec<u8> = noise(17, 400_000).iter().map(|byte| b' ' + byte % 64).collect();
    let view = |len: usize| {
        let mut ends = Ends::new(SETUPS[2]);
        for client in 200..206 {
            ends.encoder.reset_context(1).unwrap();
            let mut stream = Stream::new(Domain(client));
            for block in public.chunks(30_000) {
                std::mem::swap(&mut ends.streams[1], &mut stream);
                ends.send(1, block, DEFAULT_BLOCK);
                std::mem::swap(&mut ends.streams[1], &mut stream);
                ends.send_other(VICTIM, &noise(18, len), DEFAULT_BLOCK);
                ends.encoder.reset_context(1).unwrap();
            }
        }
        let mut seen = Vec::new();
        for block in public.chunks(45_000) {
            seen.push(ends.send(0, block, DEFAULT_BLOCK));
            ends.send_other(VICTIM, &noise(19, len), DEFAULT_BLOCK);
        }
        seen
    };
    let first = view(1);
    let all: usize = first.iter().flatten().map(|&(_, len)| len).sum();
    assert!(all < public.len() / 4, "{all} bytes: much is shared");
    for len in [2, 127, 128, 7_321, 16_384, 100_000] {
        assert_eq!(view(len), first, "{len} bytes");
    }
}

#[derive(Clone, Debug)]
struct Turn {
    pieces: Vec<Piece>,
    compress: u8,
    block: usize,
    /// Domains of others, and how much they send in one run and in the other.
    others: Vec<(u64, [usize; 2])>,
}

fn turn() -> impl Strategy<Value = Turn> {
    let pieces = proptest::collection::vec(piece(), 1..5);
    let len = || prop_oneof![1usize..300, 1usize..20_000];
    let others = proptest::collection::vec((2u64..6, (len(), len())), 1..4);
    let block = prop_oneof![Just(DEFAULT_BLOCK), 500usize..20_000];
    (pieces, 0u8..6, block, others).prop_map(|(pieces, compress, block, others)| Turn {
        pieces,
        compress,
        block,
        others: others.into_iter().map(|(domain, (one, other))| (domain, [one, other])).collect(),
    })
}

proptest! {
    #![proptest_config(config_divided(8))]

    #[test]
    fn nothing_that_is_sent_shows_how_much_others_send(
        turns in proptest::collection::vec(turn(), 1..14),
        setup in proptest::sample::select(&SETUPS),
    ) {
        let view = |which: usize| {
            let (mut ends, mut history) = (Ends::new(setup), History::default());
            let mut seen = Vec::new();
            for turn in &turns {
                let content = history.block(&turn.pieces, DEFAULT_BLOCK, setup.cache);
                let content = match turn.compress {
                    0 | 1 => gzip(&content, 6),
                    2 | 3 => zstd(&content, 3, 40_000),
                    _ => content,
                };
                seen.push(ends.send(0, &content, turn.block));
                for &(domain, lens) in &turn.others {
                    // A run, all windows of which have one fingerprint: others would displace
                    // some of the attacker's in the table, now and then.
                    ends.send_other(domain, &vec![domain as u8; lens[which]], DEFAULT_BLOCK);
                }
            }
            seen
        };
        prop_assert_eq!(view(0), view(1));
    }
}
