//! Logs that go on after a restart: encoder and decoder are built anew from what somebody kept.

use oncewire_codec::{
    ChecksumSeed, Decoded, Decoder, Domain, Encoder, EncoderBuilder, Sharing, Stream,
};
use std::ops::Range;

const CACHE: u64 = 1 << 20;
const SPAN: u64 = CACHE / 4;

fn encoder(sharing: Sharing, seed: ChecksumSeed) -> Encoder {
    let builder = EncoderBuilder::default().cache(CACHE).span(SPAN).fingerprint_key(77);
    builder.sharing(sharing).checksum_seed(seed).build().unwrap()
}

fn decoder(seed: ChecksumSeed) -> Decoder {
    Decoder::builder().cache(CACHE).span(SPAN).checksum_seed(seed).build().unwrap()
}

fn epoch(epoch: u64) -> ChecksumSeed {
    ChecksumSeed { session: 9, epoch }
}

/// Sends a block of a domain. Returns the length of its frame.
fn send(ends: &mut (Encoder, Decoder), domain: Domain, block: &[u8]) -> usize {
    let (encoder, decoder) = ends;
    let mut wire = Vec::new();
    encoder.reset_context(0).unwrap();
    let mut stream = Stream::new(domain);
    encoder.encode_stream(&mut stream, block, 0).unwrap().append_to(&mut wire);
    match decoder.decode(&wire).expect("a valid frame") {
        Decoded::Block { content, consumed, .. } => {
            assert_eq!((content, consumed), (block, wire.len()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(encoder.end(), decoder.acknowledged());
    wire.len()
}

/// What a store would keep of a log: pieces of it with their owners.
type Kept = Vec<(Domain, u64, Vec<u8>)>;

/// Keeps the blocks of a range.
fn keep(ends: &(Encoder, Decoder), blocks: &[Range<u64>]) -> Kept {
    let mut kept = Kept::new();
    for block in blocks {
        let mut owners = ends.0.owners(block.clone());
        owners.push((u64::MAX, Domain::NOBODY));
        for pair in owners.windows(2) {
            let part = pair[0].0.max(block.start)..pair[1].0.min(block.end);
            let content = ends.1.content(part.clone()).expect("held");
            // An encoder reads no further back than it may refer.
            assert!(ends.0.content(part.clone()).is_none_or(|own| own == content), "equal logs");
            kept.push((pair[0].1, part.start, content.to_vec()));
        }
    }
    kept
}

fn restored(kept: &Kept, sharing: Sharing, seed: ChecksumSeed) -> (Encoder, Decoder) {
    let mut ends = (encoder(sharing, seed), decoder(seed));
    for (domain, offset, content) in kept {
        ends.0.restore(*domain, *offset, content).expect("it follows");
        assert!(ends.1.restore(*offset, content), "it follows");
    }
    assert_eq!(ends.0.end(), ends.1.acknowledged());
    ends
}

fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| rng.alphanumeric() as u8).collect()
}

/// Sends blocks of 40,000 bytes, alternately of two domains. Returns where they lie.
fn fill(ends: &mut (Encoder, Decoder), blocks: u64, domains: [Domain; 2]) -> Vec<Range<u64>> {
    (0..blocks)
        .map(|nth| {
            send(ends, domains[nth as usize % 2], &text(nth, 40_000));
            ends.0.end() - 40_000..ends.0.end()
        })
        .collect()
}

#[test]
fn a_restored_log_finds_what_it_had() {
    let mut ends = (encoder(Sharing::All, epoch(0)), decoder(epoch(0)));
    let blocks = fill(&mut ends, 35, [Domain::COMMON; 2]);
    assert!(blocks.windows(2).any(|two| two[0].end < two[1].start), "with padding");
    let mut ends = restored(&keep(&ends, &blocks[15..]), Sharing::All, epoch(1));
    for nth in 20..35 {
        let frame = send(&mut ends, Domain::COMMON, &text(nth, 40_000));
        assert!(frame < 60, "block {nth}: {frame} bytes");
    }
    // What was not restored is not referred to: the decoder would not have it.
    assert!(send(&mut ends, Domain::COMMON, &text(14, 40_000)) > 20_000);
}

#[test]
fn restored_content_belongs_to_its_domains() {
    let (one, other) = (Domain(11), Domain(22));
    let mut ends = (encoder(Sharing::None, epoch(0)), decoder(epoch(0)));
    let blocks = fill(&mut ends, 10, [one, other]);
    let mut kept = keep(&ends, &blocks);
    // Of one block it is not known whose it was.
    kept[4].0 = Domain::NOBODY;
    let mut ends = restored(&kept, Sharing::None, epoch(1));
    let repeats = |ends: &mut _, nth, domain| send(ends, domain, &text(nth, 40_000)) < 80;
    assert!(!repeats(&mut ends, 2, other) && !repeats(&mut ends, 3, one), "of the other domain");
    assert!(!repeats(&mut ends, 4, one) && !repeats(&mut ends, 4, Domain::NOBODY), "of nobody");
    assert!(repeats(&mut ends, 6, one) && repeats(&mut ends, 7, other), "of the domain itself");
    assert!(!repeats(&mut ends, 8, Domain::COMMON));
    // A match that begins in content of a domain does not grow into that of the next.
    let both = [text(8, 40_000).split_off(20_000), text(9, 40_000)].concat();
    assert!(send(&mut ends, one, &both[..50_000]) > 20_000);
}

#[test]
fn with_everything_shared_content_of_nobody_stays_unused() {
    let mut ends = (encoder(Sharing::All, epoch(0)), decoder(epoch(0)));
    let blocks = fill(&mut ends, 6, [Domain::COMMON; 2]);
    let mut kept = keep(&ends, &blocks);
    kept[0].0 = Domain::NOBODY;
    kept[3].0 = Domain::NOBODY;
    let mut ends = restored(&kept, Sharing::All, epoch(1));
    for nth in 0..6 {
        let is_short = send(&mut ends, Domain::COMMON, &text(nth, 40_000)) < 80;
        assert_eq!(is_short, nth % 3 != 0, "block {nth}");
    }
}

#[test]
fn both_ends_go_back_and_refer_to_nothing_that_either_has_lost() {
    // The encoder was restored at block `kept`, the decoder has gone on to the end of the ring and
    // beyond; both go on from an earlier block.
    for back in [24u64, 27, 30, 33] {
        let mut ends = (encoder(Sharing::All, epoch(0)), decoder(epoch(0)));
        let blocks = fill(&mut ends, 34, [Domain::COMMON; 2]);
        let (kept, to) = (keep(&ends, &blocks[12..back as usize]), blocks[back as usize - 2].end);
        let (mut encoder, _) = restored(&kept, Sharing::All, epoch(0));
        let mut decoder = ends.1;
        encoder.rewind_to(to, epoch(1)).unwrap();
        assert!(decoder.rewind_to(to, epoch(1)));
        assert_eq!(decoder.acknowledged(), to);
        let from = decoder.held_from();
        assert!(from >= blocks[33].end - CACHE, "overwritten");
        encoder.give_up_below(from);
        let mut ends = (encoder, decoder);
        let mut short = 0;
        for nth in (8..34).rev() {
            short += u32::from(send(&mut ends, Domain::COMMON, &text(nth, 40_000)) < 80);
        }
        let held = blocks.iter().filter(|block| block.start >= from && block.end <= to).count();
        assert!(held > 0 && short > 0 && short as usize <= held, "{short} of {held}");
    }
}

#[test]
fn what_does_not_follow_is_refused() {
    let (mut encoder, mut decoder) = (encoder(Sharing::All, epoch(0)), decoder(epoch(0)));
    assert!(encoder.restore(Domain::COMMON, 5000, &[1; 1000]).is_ok());
    assert!(decoder.restore(5000, &[1; 1000]));
    for (offset, len) in [
        (5999, 10),
        (6001, 10),
        (0, 10),
        (6000, 0),
        (6000, 65_537),
        (CACHE - 5, 10),
        (CACHE, 10),
        (u64::MAX, 1),
        (u64::MAX - 9, 10),
    ] {
        let content = vec![1; len];
        assert!(encoder.restore(Domain::COMMON, offset, &content).is_err(), "{offset}, {len}");
        assert!(!decoder.restore(offset, &content), "{offset}, {len}");
    }
    assert!(!decoder.rewind_to(6001, epoch(1)) && !decoder.rewind_to(5000, epoch(1)));
    assert!(encoder.rewind_to(6001, epoch(1)).is_err());
    assert!(encoder.rewind_to(5000, epoch(1)).is_err(), "nothing would be left");
    assert!(decoder.rewind_to(5500, epoch(1)) && encoder.rewind_to(5500, epoch(1)).is_ok());
    assert_eq!(
        (decoder.content(5400..5500), decoder.content(5400..5501)),
        (Some(&[1; 100][..]), None)
    );
}
