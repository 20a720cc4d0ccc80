//! Frames over several lanes, decoded in any order in which they can arrive.
//!
//! The sender in these tests keeps the rules: offsets are dense, each lane carries increasing
//! offsets and has its own entropy context, and nothing is sent that ends more than the span above
//! what the decoder reported as contiguous. So a model that only unites ranges predicts every
//! answer of the decoder.
//!
//! One file, because model, sender and receiver make sense only together.
// Lists of ranges that happen to hold one range.
#![allow(clippy::single_range_in_vec_init)]

use crate::common::content::{History, Piece, noise, piece, text};
use crate::common::params::{Params, entropy, params};
use crate::common::{config, holes, place};
use oncewire_codec::{
    Decoded, Decoder, Entropy, Finder, FrameError, FrameView, FrameWriter, Scan, Tokens,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ops::Range;

/// A frame in transit.
#[derive(Clone, Debug)]
struct Sent {
    offset: u64,
    padding: u64,
    block: Vec<u8>,
    frame: Vec<u8>,
    /// The ranges below its own offset that it references.
    sources: Vec<Range<u64>>,
    /// Whether it uses and continues the entropy context of its lane.
    uses_context: bool,
    continues: bool,
}

impl Sent {
    fn end(&self) -> u64 {
        self.offset + self.block.len() as u64
    }
}

/// The encoder, and what it knows about the decoder.
struct Sender {
    finder: Finder,
    writer: FrameWriter,
    tokens: Tokens,
    params: Params,
    history: History,
    end: u64,
}

impl Sender {
    fn new(params: &Params) -> Sender {
        let (finder, writer) = params.encoder_builder().build_halves().unwrap();
        Sender {
            finder,
            writer,
            tokens: Tokens::default(),
            params: params.clone(),
            history: History::default(),
            end: 0,
        }
    }

    fn make(&mut self, pieces: &[Piece]) -> Vec<u8> {
        self.history.block(pieces, self.params.max_block, self.params.cache - self.params.span)
    }

    fn encode(&mut self, block: Vec<u8>, lane: usize) -> Sent {
        self.finder.find(&block, &mut self.tokens).unwrap();
        let mut frame = Vec::new();
        self.writer.write(&self.tokens, &block, lane).unwrap().append_to(&mut frame);
        let offset = place(self.params.cache, self.end, block.len());
        assert_eq!(self.tokens.offset(), offset);
        let padding = offset - self.end;
        self.end = offset + block.len() as u64;

        let Scan::Frame(view) = FrameView::scan(&frame, self.params.max_block).unwrap() else {
            panic!("the frame is whole")
        };
        assert_eq!(view.explicit_offset(), Some((offset, padding)));
        let hull = view.depends_on(offset).unwrap();
        // Without a dependency range, the writer found that the matches do not pay.
        let matches =
            self.tokens.matches().iter().filter(|found| !hull.is_empty() && found.source < offset);
        let sources: Vec<_> =
            matches.map(|found| found.source..found.source + u64::from(found.len)).collect();
        if let (Some(start), Some(end)) =
            (sources.iter().map(|s| s.start).min(), sources.iter().map(|s| s.end).max())
        {
            assert_eq!(
                hull,
                start..end,
                "the frame must name what it may need before it is decoded"
            );
        }
        let uses_context = view.context().is_some();
        let continues = uses_context && !frame_begins_context(&frame);
        Sent { offset, padding, block, frame, sources, uses_context, continues }
    }

    /// The replacement for a frame that failed; empty if its block is empty.
    fn repair(&self, sent: &Sent) -> Option<Sent> {
        let mut frame = Vec::new();
        (!sent.block.is_empty())
            .then(|| self.finder.repair(sent.offset, sent.block.len(), &mut frame).unwrap())?;
        Some(Sent {
            frame,
            sources: Vec::new(),
            uses_context: false,
            continues: false,
            ..sent.clone()
        })
    }
}

/// The decoder, and a model of its log.
struct Receiver {
    decoder: Decoder,
    cache: u64,
    span: u64,
    decoded: Vec<Range<u64>>,
    /// End of the highest block, including empty ones.
    end: u64,
    low: u64,
    held: Vec<Range<u64>>,
    /// Blocks that failed have overwritten what lay below.
    given_up: u64,
    lost: Vec<bool>,
}

/// The result of a delivery.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Decoded,
    Missing,
    OutsideSpan,
    ContextLost,
}

impl Receiver {
    fn new(params: &Params) -> Receiver {
        Receiver {
            decoder: params.decoder(),
            cache: params.cache,
            span: params.span,
            decoded: Vec::new(),
            end: 0,
            low: 0,
            held: Vec::new(),
            given_up: 0,
            lost: vec![false; params.contexts],
        }
    }

    fn accepts(&self, sent: &Sent) -> bool {
        sent.offset - sent.padding == self.low
            || (sent.offset >= self.low && sent.end() <= self.low + self.span)
    }

    /// Passes the frame to the decoder. The answer and the changes must be those of the model.
    fn deliver(&mut self, sent: &Sent, lane: usize) -> Result<Outcome, TestCaseError> {
        let missing = holes(&sent.sources, &self.held);
        let lost = sent.continues && self.lost[lane];
        let outcome = match () {
            () if !self.accepts(sent) => Outcome::OutsideSpan,
            () if !missing.is_empty() => Outcome::Missing,
            () if lost => Outcome::ContextLost,
            () => Outcome::Decoded,
        };
        // Waiting may be told again and again.
        for _ in 0..if outcome == Outcome::Missing { 2 } else { 1 } {
            match (&outcome, self.decoder.decode(&sent.frame)) {
                (Outcome::Decoded, Ok(Decoded::Block { offset, content, consumed })) => {
                    prop_assert_eq!((offset, consumed), (sent.offset, sent.frame.len()));
                    prop_assert!(content == sent.block, "content differs at {offset}");
                }
                (Outcome::Missing, Ok(Decoded::Missing(ranges))) => {
                    prop_assert_eq!(ranges, missing.clone())
                }
                // A frame that continues a lost context may be refused for that before its missing
                // ranges are reported.
                (Outcome::Missing, Err(FrameError::ContextLost { .. })) if lost => {}
                (Outcome::OutsideSpan, Err(FrameError::Offset { offset, low, high })) => {
                    prop_assert_eq!(
                        (offset, low, high),
                        (sent.offset, self.low, self.low + self.span)
                    );
                }
                (Outcome::ContextLost, Err(FrameError::ContextLost { context })) => {
                    prop_assert_eq!(context, lane)
                }
                (_, answer) => prop_assert!(
                    false,
                    "{outcome:?} expected, {answer:?} given for {}",
                    sent.offset
                ),
            }
        }
        if outcome == Outcome::Decoded {
            self.take(sent);
        }
        self.check()?;
        Ok(outcome)
    }

    fn take(&mut self, sent: &Sent) {
        self.decoded.push(sent.offset - sent.padding..sent.end());
        self.low = unite(&self.decoded)
            .first()
            .filter(|range| range.start == 0)
            .map_or(0, |range| range.end);
        self.end = self.end.max(sent.end());
        self.hold();
    }

    /// The frame failed, but its block was written to the place that it has in the log.
    fn give_up(&mut self, sent: &Sent) {
        self.given_up = self.given_up.max(sent.end().saturating_sub(self.cache));
        self.hold();
    }

    fn hold(&mut self) {
        let floor = self.end.saturating_sub(self.cache).max(self.given_up);
        self.held = unite(&self.decoded)
            .into_iter()
            .map(|range| range.start.max(floor)..range.end)
            .filter(|range| !range.is_empty())
            .collect();
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.decoder.acknowledged(), self.low);
        prop_assert_eq!(self.decoder.held(), &self.held[..]);
        Ok(())
    }
}

/// The same numbers as ascending ranges that do not touch.
fn unite(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_by_key(|range| range.start);
    let mut united: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match united.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => united.push(range),
        }
    }
    united
}

#[derive(Clone, Debug)]
enum Event {
    /// Encode a block for a lane. The sender knows everything decoded so far, or only what it knew
    /// before.
    Encode { lane: usize, pieces: Vec<Piece>, acknowledged: bool },
    /// The oldest frame of a lane arrives; it waits if it cannot be decoded.
    Arrive { lane: usize },
    /// It arrives corrupt; its repair follows, and so do repairs of all frames that continue its
    /// context.
    Damage { lane: usize, bit: usize },
    /// A frame arrives a second time.
    Again { which: usize },
    /// Encode a block although the span does not allow it.
    Overrun { lane: usize, pieces: Vec<Piece> },
}

fn event() -> impl Strategy<Value = Event> {
    let lane = 0usize..4;
    let pieces = || proptest::collection::vec(piece(), 0..4);
    prop_oneof![
        8 => (lane.clone(), pieces(), any::<bool>())
            .prop_map(|(lane, pieces, acknowledged)| Event::Encode { lane, pieces, acknowledged }),
        8 => lane.clone().prop_map(|lane| Event::Arrive { lane }),
        1 => (lane.clone(), any::<usize>()).prop_map(|(lane, bit)| Event::Damage { lane, bit }),
        1 => any::<usize>().prop_map(|which| Event::Again { which }),
        1 => (lane, pieces()).prop_map(|(lane, pieces)| Event::Overrun { lane, pieces }),
    ]
}

/// Spans of half a block to several blocks, logs of slightly more than four spans, one to four
/// lanes.
fn link() -> impl Strategy<Value = Params> {
    let sizes = (1usize..3000, 1usize..=12, 0usize..4000);
    (params(1usize..2), sizes, entropy(), 1usize..=4).prop_map(
        |(base, (max_block, halves, more), entropy, contexts)| {
            let span = (max_block * halves).div_ceil(2) as u64;
            let cache = (4 * span).max(max_block as u64 + span) + more as u64;
            Params { cache, span, max_block, contexts, entropy, explicit: true, ..base }
        },
    )
}

/// Both ends and the lanes between them.
struct Link {
    sender: Sender,
    receiver: Receiver,
    lanes: Vec<VecDeque<Sent>>,
    /// The sender's knowledge of the receiver's contiguous content.
    acknowledged: u64,
    arrived: Vec<(usize, Sent)>,
}

impl Link {
    fn new(params: &Params) -> Link {
        Link {
            sender: Sender::new(params),
            receiver: Receiver::new(params),
            lanes: vec![VecDeque::new(); params.contexts],
            acknowledged: 0,
            arrived: Vec::new(),
        }
    }

    fn play(&mut self, event: Event) -> Result<(), TestCaseError> {
        let lanes = self.lanes.len();
        match event {
            Event::Encode { lane, pieces, acknowledged } => {
                let block = self.sender.make(&pieces);
                if acknowledged {
                    self.acknowledged = self.receiver.low;
                }
                while !self.may_send(block.len(), self.receiver.span) {
                    self.arrive_lowest()?;
                    self.acknowledged = self.receiver.low;
                }
                self.send(block, lane % lanes);
            }
            Event::Overrun { lane, pieces } => {
                let block = self.sender.make(&pieces);
                // No further than the sender could repair.
                while !self.may_send(block.len(), 2 * self.receiver.span) {
                    self.arrive_lowest()?;
                    self.acknowledged = self.receiver.low;
                }
                self.send(block, lane % lanes);
            }
            Event::Arrive { lane } => {
                if self.lanes[lane % lanes].front().is_some() {
                    self.arrive(lane % lanes)?;
                }
            }
            Event::Damage { lane, bit } => self.damage(lane % lanes, bit)?,
            Event::Again { which } => {
                let Some((lane, sent)) =
                    self.arrived.get(which % self.arrived.len().max(1)).cloned()
                else {
                    return Ok(());
                };
                if !sent.block.is_empty() {
                    let answer = self.receiver.decoder.decode(&sent.frame);
                    prop_assert!(matches!(answer, Err(FrameError::Offset { .. })), "{answer:?}");
                    self.receiver.check()?;
                    if sent.uses_context {
                        self.repair_lane(lane, false)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn may_send(&self, len: usize, span: u64) -> bool {
        let offset = place(self.sender.params.cache, self.sender.end, len);
        self.sender.end == self.acknowledged || offset + len as u64 <= self.acknowledged + span
    }

    fn send(&mut self, block: Vec<u8>, lane: usize) {
        let sent = self.sender.encode(block, lane);
        self.lanes[lane].push_back(sent);
    }

    fn arrive(&mut self, lane: usize) -> Result<Outcome, TestCaseError> {
        let sent = self.lanes[lane].front().expect("the caller looked").clone();
        let outcome = self.receiver.deliver(&sent, lane)?;
        // An empty block that others have overtaken is below the acceptable offsets, and nothing is
        // lost with it.
        let overtaken = sent.block.is_empty() && sent.offset < self.receiver.low;
        if outcome == Outcome::Decoded || overtaken {
            self.lanes[lane].pop_front();
            self.arrived.push((lane, sent));
        } else if outcome == Outcome::OutsideSpan && sent.uses_context {
            self.lanes[lane][0] =
                self.sender.repair(&sent).expect("an empty block uses no context");
            self.repair_lane(lane, false)?;
        }
        Ok(outcome)
    }

    /// The lowest frame not yet decoded; it is the first of its lane.
    fn lowest(&self) -> Option<usize> {
        (0..self.lanes.len())
            .filter(|&lane| !self.lanes[lane].is_empty())
            .min_by_key(|&lane| (self.lanes[lane][0].offset, self.lanes[lane][0].block.len()))
    }

    fn arrive_lowest(&mut self) -> Result<(), TestCaseError> {
        let Some(lane) = self.lowest() else { return Ok(()) };
        let empty = self.lanes[lane][0].block.is_empty();
        let outcome = self.arrive(lane)?;
        prop_assert!(
            outcome == Outcome::Decoded || empty,
            "the lowest frame can always be decoded, but: {outcome:?}"
        );
        Ok(())
    }

    fn damage(&mut self, lane: usize, bit: usize) -> Result<(), TestCaseError> {
        let Some(sent) = self.lanes[lane].front().cloned() else { return Ok(()) };
        let mut damaged = sent.frame.clone();
        // In the checksum, so that nothing else can be wrong.
        let at = damaged.len() - 8 + bit / 8 % 8;
        damaged[at] ^= 1 << (bit % 8);
        let missing = holes(&sent.sources, &self.receiver.held);
        match self.receiver.decoder.decode(&damaged) {
            Err(FrameError::Offset { .. }) => {
                prop_assert!(!self.receiver.accepts(&sent));
                self.arrive(lane)?;
            }
            Ok(Decoded::Missing(ranges)) => prop_assert_eq!(ranges, missing),
            Err(FrameError::Checksum { offset, len }) => {
                prop_assert_eq!((offset, len), (sent.offset, sent.block.len()));
                self.receiver.give_up(&sent);
                self.receiver.check()?;
                // The repair needs nothing; frames that continue the context can no longer be
                // decoded.
                self.lanes[lane].pop_front();
                if let Some(repair) = self.sender.repair(&sent) {
                    self.lanes[lane].push_front(repair);
                }
                if sent.uses_context {
                    self.receiver.lost[lane] = true;
                    self.repair_lane(lane, true)?;
                }
            }
            answer => prop_assert!(false, "{answer:?}"),
        }
        self.receiver.check()
    }

    /// Replaces all frames of the lane that continue its context, up to one that restarts it. If
    /// none does, the next frame will. Whether a frame at a wrong offset invalidated the context is
    /// unspecified; a corrupt frame did.
    fn repair_lane(&mut self, lane: usize, surely_lost: bool) -> Result<(), TestCaseError> {
        let frames = std::mem::take(&mut self.lanes[lane]);
        let mut begun = false;
        for sent in frames {
            begun |= frame_begins_context(&sent.frame);
            if sent.continues && !begun {
                if surely_lost {
                    let answer = self.receiver.deliver(&sent, lane)?;
                    prop_assert_ne!(answer, Outcome::Decoded);
                }
                self.lanes[lane].extend(self.sender.repair(&sent));
            } else {
                self.lanes[lane].push_back(sent);
            }
        }
        if !begun {
            self.sender.writer.reset_context(lane).unwrap();
        }
        // From here on the lane carries only repairs, frames without the context, and then a fresh
        // one.
        self.receiver.lost[lane] = false;
        Ok(())
    }
}

fn frame_begins_context(frame: &[u8]) -> bool {
    frame[0] & 0x20 != 0
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn everything_decodes_in_any_possible_order(
        params in link(),
        events in proptest::collection::vec(event(), 1..250),
    ) {
        let mut link = Link::new(&params);
        for event in events {
            link.play(event)?;
        }
        while link.lowest().is_some() {
            link.arrive_lowest()?;
        }
        prop_assert_eq!(link.receiver.low, link.sender.end);
        prop_assert!(link.receiver.decoder.memory().total() <= params.decoder_bound());
    }
}

fn small(cache: u64, span: u64, max_block: usize) -> Params {
    Params {
        cache,
        span,
        max_block,
        contexts: 2,
        entropy: Entropy::None,
        explicit: true,
        ..Params::default()
    }
}

fn missing(decoder: &mut Decoder, sent: &Sent) -> Vec<Range<u64>> {
    match decoder.decode(&sent.frame) {
        Ok(Decoded::Missing(ranges)) => ranges.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn exactly_the_missing_ranges_are_named_and_nothing_changes() {
    for entropy in [Entropy::None, Entropy::Lz4, Entropy::DEFAULT] {
        let params = Params { entropy, contexts: 3, ..small(1 << 20, 1 << 18, 1 << 16) };
        let (mut sender, mut decoder) = (Sender::new(&params), params.decoder());
        let (a, b) = (text(1, 3000), noise(2, 3000));
        // Parts of both, far enough apart that no match spans them.
        let c = [
            &text(3, 80),
            &a[500..1500],
            &text(4, 80),
            &b[200..1200],
            &text(5, 80),
            &a[2000..3000],
            &text(6, 80),
        ]
        .concat();
        let (a, b, c) = (sender.encode(a, 0), sender.encode(b, 1), sender.encode(c, 2));
        let of_a = missing(&mut decoder, &c);
        assert_eq!(of_a, holes(&c.sources, &[]));
        assert_eq!(of_a.len(), 3, "{of_a:?}");
        assert_eq!(missing(&mut decoder, &c), of_a);
        assert_eq!((decoder.acknowledged(), decoder.held()), (0, &[][..]));

        assert!(matches!(decoder.decode(&b.frame), Ok(Decoded::Block { offset: 3000, .. })));
        assert_eq!((decoder.acknowledged(), decoder.held()), (0, &[3000..6000][..]));
        assert_eq!(missing(&mut decoder, &c), [of_a[0].clone(), of_a[1].clone()]);

        assert!(matches!(decoder.decode(&a.frame), Ok(Decoded::Block { offset: 0, .. })));
        let Ok(Decoded::Block { offset, content, .. }) = decoder.decode(&c.frame) else {
            panic!("nothing is missing")
        };
        assert_eq!((offset, content), (6000, &c.block[..]));
    }
}

#[test]
fn offsets_outside_the_span_are_refused_and_accepted_later() {
    let params = small(4000, 1000, 600);
    let (mut sender, mut decoder) = (Sender::new(&params), params.decoder());
    let sent: Vec<Sent> = (0..4).map(|i| sender.encode(noise(i, 400), 0)).collect();
    // 800..1200 ends above 0 + 1000.
    let outside = FrameError::Offset { offset: 800, low: 0, high: 1000 };
    assert_eq!(decoder.decode(&sent[2].frame).unwrap_err(), outside);
    assert!(matches!(decoder.decode(&sent[1].frame), Ok(Decoded::Block { offset: 400, .. })));
    // Already held, though not contiguous.
    let again = FrameError::Offset { offset: 400, low: 0, high: 1000 };
    assert_eq!(decoder.decode(&sent[1].frame).unwrap_err(), again);
    assert!(matches!(decoder.decode(&sent[0].frame), Ok(Decoded::Block { offset: 0, .. })));
    assert_eq!(decoder.acknowledged(), 800);
    assert!(matches!(decoder.decode(&sent[3].frame), Ok(Decoded::Block { offset: 1200, .. })));
    assert!(matches!(decoder.decode(&sent[2].frame), Ok(Decoded::Block { offset: 800, .. })));
    for sent in &sent {
        let below = FrameError::Offset { offset: sent.offset, low: 1600, high: 2600 };
        assert_eq!(decoder.decode(&sent.frame).unwrap_err(), below);
    }
}

#[test]
fn without_a_span_only_the_next_offset_is_accepted() {
    let params = small(4000, 0, 600);
    let (mut sender, mut decoder) = (Sender::new(&params), params.decoder());
    let (first, second) = (sender.encode(noise(1, 400), 0), sender.encode(noise(2, 400), 0));
    assert!(matches!(
        decoder.decode(&second.frame),
        Err(FrameError::Offset { offset: 400, low: 0, high: 0 })
    ));
    for sent in [&first, &second] {
        assert!(matches!(decoder.decode(&sent.frame), Ok(Decoded::Block { .. })));
    }
}

/// The block that starts a generation lies where the next block of its size would go, even while
/// the end of the previous generation is missing. That does not make it the next block: it would
/// overwrite content that the missing one may reference.
#[test]
fn the_start_of_a_generation_is_not_accepted_over_a_hole_beyond_the_span() {
    let params = small(1000, 250, 600);
    let (mut sender, mut decoder) = (Sender::new(&params), params.decoder());
    let first = sender.encode(text(1, 600), 0);
    let fills_the_generation = sender.encode([&text(1, 600)[300..], &noise(2, 100)].concat(), 0);
    let starts_a_generation = sender.encode(noise(3, 500), 1);
    assert_eq!(
        (fills_the_generation.end(), starts_a_generation.offset, starts_a_generation.padding),
        (1000, 1000, 0)
    );
    assert_eq!(fills_the_generation.sources, [300..600]);

    assert!(matches!(decoder.decode(&first.frame), Ok(Decoded::Block { .. })));
    let outside = FrameError::Offset { offset: 1000, low: 600, high: 850 };
    assert_eq!(decoder.decode(&starts_a_generation.frame).unwrap_err(), outside);
    for sent in [&fills_the_generation, &starts_a_generation] {
        let Ok(Decoded::Block { content, .. }) = decoder.decode(&sent.frame) else {
            panic!("nothing is missing")
        };
        assert_eq!(content, sent.block);
    }
}

/// A decoder holds as much content ahead as the span allows, and frames without an offset still go
/// where the contiguous content ends.
#[test]
fn frames_without_an_offset_fill_the_hole() {
    let params = small(4000, 1000, 600);
    let implicit = Params { explicit: false, ..params.clone() };
    let (mut sender, mut decoder) = (Sender::new(&params), params.decoder());
    let mut plain = implicit.encoder();
    let (first, second, third) = (noise(1, 400), noise(2, 400), noise(3, 300));
    let mut frame = Vec::new();
    plain.encode(&first, &mut frame).unwrap();
    sender.encode(first, 0);
    let ahead = sender.encode(second, 0);
    assert!(matches!(decoder.decode(&ahead.frame), Ok(Decoded::Block { offset: 400, .. })));
    assert!(matches!(decoder.decode(&frame), Ok(Decoded::Block { offset: 0, .. })));
    assert_eq!(decoder.acknowledged(), 800);
    // Too large for the hole: it would overlap content already held.
    let later = sender.encode(third.clone(), 0);
    assert!(matches!(decoder.decode(&later.frame), Ok(Decoded::Block { offset: 800, .. })));
    assert_eq!(decoder.acknowledged(), 1100);
}

/// The number of ranges that a decoder tracks is bounded. That must not keep it from decoding the
/// lowest frame, which reduces their number.
#[test]
fn however_many_ranges_are_held_the_lowest_frame_decodes() {
    let params = small(1 << 20, 1 << 18, 1);
    let (mut sender, mut decoder) = (Sender::new(&params), params.decoder());
    let sent: Vec<Sent> = (0..1u64 << 18).map(|i| sender.encode(vec![i as u8], 0)).collect();
    let accepted = sent
        .iter()
        .skip(1)
        .step_by(2)
        .take_while(|sent| decoder.decode(&sent.frame).is_ok())
        .count();
    assert!(accepted >= 1 << 15, "{accepted}");
    assert!(decoder.memory().total() <= params.decoder_bound());
    for sent in [&sent[0], &sent[2], &sent[4]] {
        assert!(
            matches!(decoder.decode(&sent.frame), Ok(Decoded::Block { .. })),
            "block {} is refused",
            sent.offset
        );
    }
    assert_eq!(decoder.acknowledged(), 6);
}
