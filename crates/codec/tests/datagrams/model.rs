//! Any order and any subset of datagrams, with every policy, against a plain model.

use super::content::{History, Piece, piece};
use super::{Datagram, SEED, deal, encoder};
use oncewire_codec::datagram::{
    Class, DatagramDecoded, DatagramDecoder, DatagramEncoder, FrozenContext, Indexing, Limits,
    Training,
};
use oncewire_codec::{Decoder, Domain, Reach, Sharing};
use proptest::prelude::*;
use std::ops::Range;
use std::rc::Rc;

const CACHE: u64 = 40_001;
const SPAN: u64 = 9000;
const MAX_BLOCK: usize = 6000;

/// What happens to a datagram: it arrives so many datagrams later, and perhaps again.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Lost,
    Late(usize),
    Twice(usize, usize),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Late(0)),
        2 => (0usize..30).prop_map(Fate::Late),
        2 => Just(Fate::Lost),
        1 => (0usize..5, 0usize..30).prop_map(|(first, second)| Fate::Twice(first, second)),
    ]
}

#[derive(Clone, Debug)]
struct Step {
    pieces: Vec<Piece>,
    domain: u64,
    class: Class,
    reach: Reach,
    indexing: Indexing,
    limits: Limits,
    fates: Vec<Fate>,
    /// Acknowledgments of older datagrams that the encoder gets before.
    acknowledge: usize,
    /// A part of the log in thousandths of it, and bytes, to withdraw after.
    withdraw: Option<(u64, u64)>,
    /// Of the last datagrams, one to repair.
    repair: Option<usize>,
    /// The frozen context to write with; one of them does not exist.
    context: Option<u8>,
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop_oneof![
        4 => Just(Class::Unknown), 1 => Just(Class::Compressible), 1 => Just(Class::Incompressible)
    ];
    let limits = (
        prop_oneof![1 => Just(0usize), 5 => 1usize..1500],
        prop_oneof![1 => 3usize..40, 5 => 40usize..1500, 1 => Just(8000)],
        any::<bool>(),
    )
        .prop_map(|(segment, room, earlier)| Limits {
            segment: segment.max(room / 4),
            room,
            earlier,
        });
    let policy = (
        prop_oneof![Just(Reach::Sent), Just(Reach::Acknowledged)],
        prop_oneof![Just(Indexing::Immediate), Just(Indexing::Acknowledged)],
    );
    (
        (proptest::collection::vec(piece(), 0..5), 0u64..3, class, policy, limits),
        (
            proptest::collection::vec(fate(), 1..8),
            0usize..60,
            proptest::option::weighted(0.1, (0u64..1000, 1u64..3000)),
            proptest::option::weighted(0.2, 0usize..20),
            proptest::option::weighted(0.7, 0u8..3),
        ),
    )
        .prop_map(
            |(
                (pieces, domain, class, (reach, indexing), limits),
                (fates, acknowledge, withdraw, repair, context),
            )| Step {
                pieces,
                domain,
                class,
                reach,
                indexing,
                limits,
                fates,
                acknowledge,
                withdraw,
                repair,
                context,
            },
        )
}

/// A datagram on its way, and what its frame may refer to.
struct InFlight {
    due: usize,
    datagram: Datagram,
    /// `None`: everything but what was withdrawn.
    acknowledged: Option<Rc<Vec<bool>>>,
    withdrawn: Vec<Range<u64>>,
    domain: u64,
    start_of_run: u64,
    earlier: bool,
    repair: bool,
}

fn meets(ranges: &[Range<u64>], range: &Range<u64>) -> bool {
    ranges.iter().any(|other| other.start.max(range.start) < other.end.min(range.end))
}

/// Checks what arrives, and returns the content that the decoder stored.
fn arrive(
    decoder: &mut DatagramDecoder,
    sent: &InFlight,
    owner: &[(u64, u64)],
) -> Option<Range<u64>> {
    let Datagram { counter, frame, range, content, depends } = &sent.datagram;
    let held = decoder.held().to_vec();
    let (high, mut missing) = (decoder.end(), Vec::new());
    let stored = match decoder.decode(*counter, frame) {
        Ok(DatagramDecoded::Content { offset, stored, bytes }) => {
            assert!(bytes == content, "wrong content");
            assert_eq!(offset, Some(range.start));
            let expected = !content.is_empty() && !meets(&held, range) && range.end + SPAN > high;
            assert_eq!(stored, expected, "{range:?}");
            stored
        }
        Ok(DatagramDecoded::Missing { offset, ranges }) => {
            assert_eq!(offset, range.start);
            missing = ranges.to_vec();
            false
        }
        Err(error) => panic!("{error}"),
    };
    let is_held = |range: &Range<u64>| {
        held.iter().any(|held| held.start <= range.start && range.end <= held.end)
    };
    let mut lacking = false;
    for source in decoder.sources() {
        if source.start >= range.start {
            assert!(source.start < range.end);
            continue;
        }
        assert!(*depends && !sent.repair);
        assert!(source.end <= range.start);
        assert!(!meets(&sent.withdrawn, &source), "withdrawn content was referred to");
        if let Some(acknowledged) = &sent.acknowledged {
            assert!(
                source.clone().all(|at| acknowledged.get(at as usize) == Some(&true)),
                "it was in flight"
            );
        }
        assert!(sent.earlier || source.end <= sent.start_of_run, "an earlier slice");
        // Runs before this one, by the offset of their end.
        for at in [source.start, source.end - 1] {
            let run = owner.partition_point(|&(end, _)| end <= at);
            assert_eq!(owner[run].1, sent.domain, "content of another domain");
        }
        lacking |= !is_held(&source);
    }
    assert_eq!(missing.is_empty(), !lacking);
    for range in &missing {
        assert!(!range.is_empty() && !meets(&held, range));
    }
    if !stored {
        assert_eq!(decoder.held(), held, "only what is stored may change the log");
    }
    // What was acknowledged is there, unless a frame comes so late that the ring has overwritten it.
    if sent.acknowledged.is_some() && range.end + SPAN > high {
        assert!(missing.is_empty(), "acknowledged content is missing");
    }
    stored.then(|| range.clone())
}

/// A context of content as these tests have it.
fn trained() -> FrozenContext {
    let content: Vec<u8> = (0..40u64).flat_map(|seed| super::content::text(seed, 500)).collect();
    Training::new(&content, 4000).finish().context(&content)
}

/// A quarter of proptest's cases: each is some dozens of runs.
fn config() -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    ProptestConfig { cases: (config.cases / 4).max(8), ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn each_datagram_gives_its_content_or_says_what_is_missing(
        steps in proptest::collection::vec(step(), 1..50),
        apart in any::<bool>(),
        times in 0u8..4,
    ) {
        let sharing = if apart { Sharing::None } else { Sharing::All };
        let builder = encoder(CACHE, SPAN).max_block(MAX_BLOCK).window(12).period(8).sharing(sharing);
        let bound = builder.datagrams_memory().total() + 2 * DatagramEncoder::CONTEXT_MEMORY;
        let bound = bound + CACHE as usize / 64 + 2;
        let mut encoder = builder.build_datagrams().unwrap();
        encoder.refer_after(times).unwrap();
        let mut decoder = Decoder::builder()
            .cache(CACHE)
            .span(SPAN)
            .checksum_seed(SEED)
            .max_block(MAX_BLOCK)
            .build_datagrams()
            .unwrap();
        for (number, context) in [(0, FrozenContext::built_in()), (1, trained())] {
            encoder.set_context(number, Some(&context));
            decoder.set_context(number, Some(&context));
        }
        let (mut history, mut counter, mut now) = (History::default(), 0u64, 0usize);
        let (mut acknowledged, mut withdrawn) = (Vec::new(), Vec::<Range<u64>>::new());
        let (mut flying, mut unheard, mut owner) = (Vec::<InFlight>::new(), Vec::new(), Vec::new());
        let mut last = Vec::<Datagram>::new();
        for step in steps {
            for range in unheard.drain(..step.acknowledge.min(unheard.len())) {
                let range: Range<u64> = range;
                encoder.acknowledge(range.clone());
                let end = range.end as usize;
                acknowledged.resize(acknowledged.len().max(end), false);
                acknowledged[range.start as usize..end].fill(true);
            }
            let known = Rc::new(acknowledged.clone());
            encoder.enter(Domain(step.domain));
            encoder.set_indexing(step.indexing);
            encoder.use_context(step.context);
            let run = history.block(&step.pieces, MAX_BLOCK, CACHE);
            let domain = if apart { step.domain } else { 0 };
            let dealt =
                deal(&mut encoder, &run, (step.class, step.reach), &step.limits, &mut counter);
            let end = encoder.log().end();
            owner.push((end, domain));
            let start_of_run = dealt.first().map_or(end, |first| first.range.start);
            let mut sent: Vec<(Datagram, bool)> =
                dealt.iter().cloned().map(|datagram| (datagram, false)).collect();
            if let Some(back) = step.repair.filter(|&back| back < last.len()) {
                let old = &last[last.len() - 1 - back];
                let mut frame = Vec::new();
                if encoder.repair(old.range.clone(), &mut frame).is_ok() {
                    let datagram = Datagram { counter, frame, depends: false, ..old.clone() };
                    sent.push((datagram, true));
                    counter += 1;
                }
            }
            last.extend(dealt);
            for (i, (datagram, repair)) in sent.into_iter().enumerate() {
                let is_acknowledged = step.reach == Reach::Acknowledged;
                let mut fly = |late: usize| flying.push(InFlight {
                    due: now + late,
                    datagram: datagram.clone(),
                    acknowledged: is_acknowledged.then(|| known.clone()),
                    withdrawn: withdrawn.clone(),
                    domain,
                    start_of_run,
                    earlier: step.limits.earlier && !is_acknowledged,
                    repair,
                });
                match step.fates[i % step.fates.len()] {
                    Fate::Lost => {}
                    Fate::Late(late) => fly(late),
                    Fate::Twice(first, second) => {
                        fly(first);
                        fly(second);
                    }
                }
                now += 1;
                let (due, later): (Vec<_>, Vec<_>) = flying.drain(..).partition(|sent| sent.due < now);
                flying = later;
                for sent in due {
                    unheard.extend(arrive(&mut decoder, &sent, &owner));
                }
            }
            if let Some((place, len)) = step.withdraw {
                let start = encoder.log().end().saturating_sub(CACHE * place / 1000);
                encoder.withdraw(start..start + len);
                withdrawn.push(start..(start + len).min(encoder.log().end()));
            }
            let memory = encoder.memory();
            prop_assert!(memory.total() <= bound, "{:?}, promised {:?}", memory, bound);
        }
        for sent in flying {
            arrive(&mut decoder, &sent, &owner);
        }
    }
}
