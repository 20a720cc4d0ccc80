//! Long transfers with losses: savings, memory, and what in flight content costs.

use super::content::{Rng, noise, text};
use super::{deal, decoder, encoder, ends};
use oncewire_codec::datagram::{Class, DatagramDecoded, Indexing, Limits, RunTokens};
use oncewire_codec::{CachePolicy, ConfigError, Decoder, EncodeError, Encoder, Reach, Sharing};
use std::collections::VecDeque;

const LIMITS: Limits = Limits { segment: 1400, room: 1424, earlier: false };

#[test]
fn a_slice_decodes_alone_if_its_sources_are_held() {
    let (mut encoder, _) = ends(1 << 20, 1 << 16);
    let old = [text(1, 30_000), noise(1, 30_000)].concat();
    // Repeats of the old run, and of its own beginning.
    let fresh = noise(2, 10_000);
    let run = [&old[5000..25_000], &fresh, &old[40_000..60_000], &fresh].concat();
    let mut counter = 0;
    let first = deal(&mut encoder, &old, (Class::Unknown, Reach::Sent), &LIMITS, &mut counter);
    let second = deal(&mut encoder, &run, (Class::Unknown, Reach::Sent), &LIMITS, &mut counter);
    assert!(second.len() < 20 && second.iter().any(|datagram| datagram.depends));
    for (i, alone) in second.iter().enumerate() {
        let mut decoder = decoder(1 << 20, 1 << 16);
        for datagram in first.iter().chain([alone]) {
            let decoded = decoder.decode(datagram.counter, &datagram.frame).unwrap();
            let DatagramDecoded::Content { bytes, .. } = decoded else {
                panic!("slice {i} needs another one: {decoded:?}")
            };
            assert!(bytes == datagram.content);
        }
    }
    // Where slices may refer to earlier ones, fewer bytes repeat in each.
    let limits = Limits { earlier: true, ..LIMITS };
    let third = deal(
        &mut encoder,
        &noise(3, 20_000).repeat(3),
        (Class::Unknown, Reach::Sent),
        &limits,
        &mut counter,
    );
    assert!((15..20).contains(&third.len()), "{}", third.len());
    let apart = deal(
        &mut encoder,
        &noise(4, 20_000).repeat(3),
        (Class::Unknown, Reach::Sent),
        &LIMITS,
        &mut counter,
    );
    assert!(apart.len() > 40, "{}", apart.len());
}

/// Sends `content` in runs with one datagram in twenty lost and some late; acknowledgments come back
/// 100 datagrams later. Returns bytes of frames, and datagrams sent, lost, and missing something.
fn transfer(content: &[u8], reach: Reach, indexing: Indexing) -> (usize, [usize; 3]) {
    const CACHE: u64 = 3_000_017;
    const SPAN: u64 = 300_000;
    let (mut encoder, mut decoder) = ends(CACHE, SPAN);
    encoder.set_indexing(indexing);
    let mut rng = Rng::new(5);
    let (mut counter, mut bytes, mut counts) = (0, 0, [0; 3]);
    let (mut late, mut acknowledgments) = (Vec::new(), VecDeque::new());
    for run in content.chunks(60_000) {
        let dealt = deal(&mut encoder, run, (Class::Unknown, reach), &LIMITS, &mut counter);
        for datagram in dealt {
            counts[0] += 1;
            bytes += datagram.frame.len();
            late.push(datagram);
            if rng.one_in(10) {
                continue;
            }
            for datagram in late.drain(..).rev() {
                if rng.one_in(20) {
                    counts[1] += 1;
                    continue;
                }
                match decoder.decode(datagram.counter, &datagram.frame).unwrap() {
                    DatagramDecoded::Content { bytes, stored, .. } => {
                        assert!(bytes == datagram.content);
                        if stored {
                            acknowledgments.push_back((datagram.counter + 100, datagram.range));
                        }
                    }
                    DatagramDecoded::Missing { .. } => counts[2] += 1,
                }
            }
            while acknowledgments.front().is_some_and(|(due, _)| *due <= counter) {
                encoder.acknowledge(acknowledgments.pop_front().unwrap().1);
            }
        }
    }
    let most = Decoder::builder().cache(CACHE).span(SPAN).datagrams_memory();
    assert!(decoder.memory() <= most, "{} of {most}", decoder.memory());
    assert!(decoder.held().len() > 10, "there are holes");
    (bytes, counts)
}

#[test]
fn with_five_percent_lost_acknowledged_content_is_never_missing() {
    // Five versions of 2 MB: more than two generations of the log.
    let mut content = Vec::new();
    let base = [text(7, 1_000_000), noise(7, 1_000_000)].concat();
    for version in 0..5 {
        let mut version_of: Vec<u8> = base.clone();
        version_of.iter_mut().skip(version * 777).step_by(20_000).for_each(|byte| *byte ^= 1);
        content.extend(version_of);
    }
    let (sent, [datagrams, lost, missing]) = transfer(&content, Reach::Sent, Indexing::Immediate);
    assert!(lost * 100 / datagrams <= 6 && lost > 10, "{lost} of {datagrams}");
    assert!(missing > 0, "references to lost content are missing something");
    let (acknowledged, [.., without]) =
        transfer(&content, Reach::Acknowledged, Indexing::Acknowledged);
    assert_eq!(without, 0);
    assert!(sent * 10 < content.len() * 3, "{sent} bytes");
    assert!(acknowledged * 10 < content.len() * 4, "{acknowledged} bytes");
}

#[test]
fn content_in_flight_does_not_hide_what_was_acknowledged() {
    let run = noise(1, 20_000);
    let sizes = [Indexing::Immediate, Indexing::Acknowledged].map(|indexing| {
        let (mut encoder, _) = ends(1 << 20, 1 << 16);
        encoder.set_indexing(indexing);
        let (mut counter, policy) = (0, (Class::Unknown, Reach::Acknowledged));
        let mut send = |encoder: &mut _| deal(encoder, &run, policy, &LIMITS, &mut counter);
        let first = send(&mut encoder);
        // Nothing is acknowledged yet, so it is sent whole again; and this copy is lost.
        assert_eq!(send(&mut encoder).len(), first.len());
        for datagram in &first {
            encoder.acknowledge(datagram.range.clone());
        }
        send(&mut encoder).iter().map(|datagram| datagram.frame.len()).sum::<usize>()
    });
    assert!(sizes[0] > 20_000, "the copy in flight hides it: {sizes:?}");
    assert!(sizes[1] < 100, "{sizes:?}");
}

#[test]
fn content_is_referred_to_after_it_was_sent_often_enough() {
    let (run, other) = (noise(1, 20_000), noise(2, 7_000));
    for (times, whole) in [(0, 1), (1, 1), (2, 2), (3, 3)] {
        let (mut encoder, mut decoder) = ends(1 << 20, 1 << 16);
        let before = encoder.memory().total();
        encoder.refer_after(times).unwrap();
        assert!(encoder.memory().total() - before <= (1 << 14) + 2);
        let (mut counter, policy) = (0, (Class::Unknown, Reach::Sent));
        let mut sizes = Vec::new();
        for nth in 0..5 {
            // Each copy lies elsewhere in the cells of the counts.
            deal(&mut encoder, &other[..1000 + 37 * nth], policy, &LIMITS, &mut counter)
                .iter()
                .for_each(|datagram| drop(decoder.decode(datagram.counter, &datagram.frame)));
            let dealt = deal(&mut encoder, &run, policy, &LIMITS, &mut counter);
            sizes.push(dealt.iter().map(|datagram| datagram.frame.len()).sum::<usize>());
            for datagram in dealt {
                let decoded = decoder.decode(datagram.counter, &datagram.frame).unwrap();
                let DatagramDecoded::Content { bytes, .. } = decoded else {
                    panic!("all arrived: {decoded:?}")
                };
                assert!(bytes == datagram.content);
            }
        }
        for (nth, size) in sizes.iter().enumerate() {
            let is_whole = *size > 20_000;
            assert!(is_whole == (nth < whole) && (is_whole || *size < 400), "{times}: {sizes:?}");
        }
    }
}

#[test]
fn withdrawn_content_is_not_referred_to_even_by_tokens_found_before() {
    let (mut encoder, mut decoder) = ends(1 << 20, 1 << 16);
    let (run, mut counter) = (noise(1, 1000), 0);
    deal(&mut encoder, &run, (Class::Unknown, Reach::Sent), &LIMITS, &mut counter);
    let mut tokens = RunTokens::default();
    encoder.search(&run, Class::Unknown, Reach::Sent, &mut tokens).unwrap();
    let mut sources = Vec::new();
    encoder.sources(&tokens, 0..1000, &LIMITS, |range| sources.push(range));
    assert_eq!(sources, [0..1000]);
    encoder.withdraw(500..501);
    sources.clear();
    encoder.sources(&tokens, 0..1000, &LIMITS, |range| sources.push(range));
    assert_eq!(sources, []);
    let mut frame = Vec::new();
    assert!(!encoder.write(&tokens, &run, 0..1000, &LIMITS, &mut frame));
    // It needs nothing.
    let decoded = decoder.decode(1, &frame).unwrap();
    let DatagramDecoded::Content { offset, stored, bytes } = decoded else { panic!("{decoded:?}") };
    assert!((offset, stored) == (Some(1000), true) && bytes == run);
}

#[test]
fn slices_out_of_order_state_their_whole_offset() {
    let (mut encoder, mut decoder) = ends(1 << 20, 1 << 16);
    let (run, mut tokens) = (noise(1, 4000), RunTokens::default());
    encoder.search(&run, Class::Unknown, Reach::Sent, &mut tokens).unwrap();
    for (counter, (slice, head)) in
        [(1400..2800, 3), (0..1400, 9), (2800..4000, 3)].into_iter().enumerate()
    {
        let mut frame = Vec::new();
        encoder.write(&tokens, &run, slice.clone(), &LIMITS, &mut frame);
        assert_eq!(frame.len(), slice.len() + head);
        let (offset, bytes) = (Some(slice.start as u64), &run[slice]);
        let content = DatagramDecoded::Content { offset, stored: true, bytes };
        assert_eq!(decoder.decode(counter as u64, &frame), Ok(content));
    }
}

#[test]
fn a_repair_fills_the_hole_in_its_place() {
    let (mut encoder, mut decoder) = ends(1 << 20, 1 << 16);
    let (run, mut counter) = (noise(1, 1400), 0);
    let lost = deal(&mut encoder, &run, (Class::Unknown, Reach::Sent), &LIMITS, &mut counter);
    let next = deal(&mut encoder, &run, (Class::Unknown, Reach::Sent), &LIMITS, &mut counter);
    let missing = DatagramDecoded::Missing { offset: 1400, ranges: &[0..1400] };
    assert_eq!(decoder.decode(1, &next[0].frame), Ok(missing));
    let mut repair = Vec::new();
    encoder.repair(lost[0].range.clone(), &mut repair).unwrap();
    let content = DatagramDecoded::Content { offset: Some(0), stored: true, bytes: &run };
    assert_eq!(decoder.decode(2, &repair), Ok(content));
    let content = DatagramDecoded::Content { offset: Some(1400), stored: true, bytes: &run };
    assert_eq!(decoder.decode(1, &next[0].frame), Ok(content));
    // The log holds it already.
    let content = DatagramDecoded::Content { offset: Some(0), stored: false, bytes: &run };
    assert_eq!(decoder.decode(2, &repair), Ok(content));
    for range in [0..2801, 2800..2801, 0..MOST_AND_ONE] {
        let len = (range.end - range.start) as usize;
        let offset = range.start;
        assert_eq!(encoder.repair(range, &mut repair), Err(EncodeError::NotHeld { offset, len }));
    }
}

const MOST_AND_ONE: u64 = oncewire_codec::DEFAULT_BLOCK as u64 + 1;

#[test]
fn datagrams_refuse_what_needs_frames_in_order() {
    let refused = [
        encoder(1 << 20, 0).policy(CachePolicy::NewRuns { straddle: true }),
        encoder(1 << 20, 0).sharing(Sharing::Chunks),
        encoder(1 << 20, 0).inside(true),
        encoder(1 << 20, 0).search(oncewire_family::FamilySearch::new(
            oncewire_family::MatcherKind::ChunkMatch {
                form: oncewire_family::chunk::ChunkForm::StartsAtMarker,
            },
        )),
    ];
    for builder in refused {
        assert!(matches!(builder.build_datagrams(), Err(ConfigError::Conflict(_))));
    }
    let builder = Decoder::builder().policy(CachePolicy::NewBlocks { below_percent: 50 });
    assert!(matches!(builder.build_datagrams(), Err(ConfigError::Conflict(_))));
    let mut built = Encoder::builder().cache(100_000).max_block(1000).build_datagrams().unwrap();
    let too_large =
        built.search(&[0; 1001], Class::Unknown, Reach::Sent, &mut RunTokens::default());
    assert_eq!(too_large, Err(EncodeError::BlockTooLarge { len: 1001, max: 1000 }));
}

/// Counts allocations through Rust's allocator on the test's own thread.
#[test]
fn a_steady_state_allocates_nothing_at_either_end() {
    let blocks: Vec<Vec<u8>> = (0..40)
        .map(|i| match i % 4 {
            0 => text(i, 20_000),
            1 => noise(i, 30_000),
            2 => [text(i - 2, 20_000), noise(i - 1, 30_000)].concat(),
            _ => noise(i - 2, 1400),
        })
        .collect();
    for (reach, indexing) in
        [(Reach::Sent, Indexing::Immediate), (Reach::Acknowledged, Indexing::Acknowledged)]
    {
        let (mut encoder, mut decoder) = ends(300_007, 50_000);
        encoder.set_indexing(indexing);
        let (mut tokens, mut frame) = (RunTokens::default(), Vec::with_capacity(2000));
        let mut counter = 0u64;
        for round in 0..4 {
            for run in &blocks {
                let mut from = 0;
                let encoding = allocation_counter::measure(|| {
                    encoder.search(run, Class::Unknown, reach, &mut tokens).unwrap();
                });
                let mut allocated = encoding.count_total;
                while from < run.len() {
                    let counted = allocation_counter::measure(|| {
                        let to = encoder.fit(&tokens, from, &LIMITS);
                        frame.clear();
                        encoder.write(&tokens, run, from..to, &LIMITS, &mut frame);
                        from = to;
                        if counter % 16 != 5
                            && let Ok(DatagramDecoded::Content { offset, bytes, stored: true }) =
                                decoder.decode(counter, &frame)
                        {
                            let start = offset.unwrap();
                            encoder.acknowledge(start..start + bytes.len() as u64);
                        }
                        counter += 1;
                    });
                    allocated += counted.count_total;
                }
                assert!(round < 2 || allocated == 0, "{reach:?}: {allocated} allocations");
            }
        }
        let matches = encoder.stats().matches;
        assert!(matches > 60, "{reach:?}: {matches} matches");
    }
}
