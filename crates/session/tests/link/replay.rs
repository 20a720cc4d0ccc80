//! What the receivers of worlds process is recorded, and played again to a second receiver, which was
//! written from `docs/LINK.md` alone: it must deliver, acknowledge and reject the same.

use super::vectors::hash;
use super::{Delivered, Fields, Implied, LogOffer, layout};
use oncewire_second::link::{self as second, Answer, Delivery, Places, Rejected, Restored};
use std::collections::BTreeSet;

/// What an end does, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A message arrives, and is answered; or it breaks a rule.
    Control { message: Vec<u8>, answer: Result<Option<Vec<u8>>, ()> },
    /// A datagram arrives that opens, at an end that has sent the counters below `sent`. Is it taken, or
    /// does it break a rule?
    Datagram { now: u64, counter: u64, plain: Vec<u8>, sent: u64, is_valid: bool },
    /// Time for frames that have waited.
    Expire { now: u64 },
    /// What the datagrams since the last such event deliver.
    Deliver(Vec<Delivery>),
    /// The same, from a file: how many, and their hash.
    DeliverHash(usize, u64),
    /// A datagram leaves; it may carry feedback.
    Send { plain: Vec<u8> },
}

/// One association, as one end sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recording {
    /// Log capacity and reorder window that the end offers.
    pub(super) offer: (u64, u64),
    pub(super) events: Vec<Event>,
}

impl Recording {
    /// Of an end that keeps a log of this size.
    pub(super) fn of(log: u64) -> Recording {
        let offer = LogOffer::of(log);
        Recording { offer: (offer.capacity, offer.reorder), events: Vec::new() }
    }
}

/// How long frames wait without a known round-trip time, in microseconds.
const LONGEST_WAIT: u64 = 5_000;

/// Deliveries of the first receiver, each segment of a run for itself.
pub(super) fn delivered(out: &mut Delivered, room: usize) -> Vec<Delivery> {
    let mut all = Vec::new();
    for (delivery, bytes) in out.packets_mut() {
        let (header, payload) = bytes[room..].split_at(delivery.header);
        let form = match delivery.implied {
            Implied::Nothing => 0,
            Implied::Lengths => 1,
            Implied::LengthsAndChecksum => 2,
        };
        let mut add = |segment, payload: &[u8]| {
            all.push(Delivery {
                header: Restored { form, bytes: header.to_vec() },
                is_open: delivery.open_checksum,
                segment,
                payload: payload.to_vec(),
            });
        };
        let Some(segments) = delivery.segments else {
            add(None, payload);
            continue;
        };
        let size = segments.size.get();
        let mut rest = payload;
        for at in 0..segments.count {
            let is_last = segments.ends && at + 1 == segments.count;
            let (segment, after) = rest.split_at(if is_last { rest.len() } else { size.into() });
            rest = after;
            add(Some((u64::from(segments.first + at), size.into(), is_last)), segment);
        }
    }
    all
}

/// The layout of the worlds' invented headers.
fn invented(header: &[u8]) -> Places {
    let Fields {
        sequence,
        acknowledgment,
        window,
        flags,
        identification,
        timestamps,
        checksum,
        ..
    } = layout(header);
    let place = |at: Option<u8>| at.map(usize::from);
    Places {
        sequence: place(sequence),
        acknowledgment: place(acknowledgment),
        window: place(window),
        flags: place(flags),
        identification: place(identification),
        timestamps: place(timestamps),
        checksum: place(checksum),
    }
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    pub(super) datagrams: u64,
    pub(super) dropped: u64,
    pub(super) delivered: u64,
    pub(super) waited: u64,
    pub(super) acknowledgments: u64,
    pub(super) rejections: u64,
    pub(super) logs: u64,
    pub(super) contexts: u64,
    /// Messages that break a rule.
    pub(super) refused: u64,
    pub(super) pieces: u64,
    /// Recordings that were not played to their end.
    pub(super) contradicted: u64,
}

impl std::ops::AddAssign for Compared {
    fn add_assign(&mut self, other: Compared) {
        self.datagrams += other.datagrams;
        self.dropped += other.dropped;
        self.delivered += other.delivered;
        self.waited += other.waited;
        self.acknowledgments += other.acknowledgments;
        self.rejections += other.rejections;
        self.logs += other.logs;
        self.contexts += other.contexts;
        self.refused += other.refused;
        self.pieces += other.pieces;
        self.contradicted += other.contradicted;
    }
}

/// Plays a recording to a second receiver. Panics where the two differ.
pub(super) fn replay(recording: &Recording) -> Compared {
    let mut second = second::Receiver::new(recording.offer.0, recording.offer.1, invented);
    let mut compared = Compared::default();
    // What was acknowledged at the end of each batch since the one that was last sent. Batches with
    // nothing but feedback are not acknowledged by themselves.
    let mut batches = vec![Vec::new()];
    let mut reported = Reported::default();
    for (at, event) in recording.events.iter().enumerate() {
        if second.is_contradicted {
            compared.contradicted += 1;
            break;
        }
        match event {
            Event::Control { message, answer } => {
                let own = second::message(&mut &message[..]).and_then(|whole| {
                    let (kind, body) = whole.ok_or("a message that is cut")?;
                    second.control(kind, body)
                });
                compared.logs += u64::from(matches!(own, Ok(Some(Answer::LogReady { .. }))));
                compared.contexts +=
                    u64::from(matches!(own, Ok(Some(Answer::ContextReady { is_taken: true, .. }))));
                compared.refused += u64::from(answer.is_err());
                let bytes = own.map(|own| own.map(|own| own.bytes()));
                assert_eq!(
                    bytes.map_err(|_| ()),
                    *answer,
                    "event {at}: {own:?}, {:02x?}",
                    &message[..message.len().min(100)]
                );
            }
            Event::Datagram { now, counter, plain, sent, is_valid } => {
                let dropped = second.dropped.len();
                let verdict = second.datagram(*now, *counter, plain, *sent);
                let own: Vec<_> =
                    second.dropped[dropped..].iter().filter(|own| own.0 == *counter).collect();
                compared.datagrams += 1;
                compared.dropped += u64::from(!is_valid);
                let is_own_valid = verdict == second::Verdict::Processed && own.is_empty();
                assert_eq!(
                    is_own_valid,
                    *is_valid,
                    "event {at}, counter {counter}: {verdict:?}, {own:?}, {:02x?}",
                    &plain[..plain.len().min(300)]
                );
            }
            Event::Expire { now } => second.expire(*now, LONGEST_WAIT),
            Event::Deliver(first) => {
                let mut own = std::mem::take(&mut second.delivered);
                let mut first = first.clone();
                compared.delivered += own.len() as u64;
                own.sort_unstable();
                first.sort_unstable();
                if own != first {
                    let lacks: Vec<_> = first.iter().filter(|one| !own.contains(one)).collect();
                    let extra: Vec<_> = own.iter().filter(|one| !first.contains(one)).collect();
                    panic!(
                        "event {at}: not delivered {lacks:?}, delivered {extra:?}, given up {:?}",
                        second.given_up.last()
                    );
                }
                settle(&mut second, &mut reported, &mut batches);
            }
            Event::DeliverHash(count, first) => {
                let own = std::mem::take(&mut second.delivered);
                compared.delivered += own.len() as u64;
                assert_eq!((own.len(), hash(&own)), (*count, *first), "event {at}");
                settle(&mut second, &mut reported, &mut batches);
            }
            Event::Send { plain } => {
                for record in second::records(plain, u64::MAX).expect("a datagram of a correct end")
                {
                    match record {
                        second::Record::Acknowledgment(first) => {
                            let own = batches.iter().rposition(|own| is_newest(&first, own));
                            let Some(own) = own else {
                                let newest = batches.last().expect("at least one");
                                differs(recording, at, &first, newest)
                            };
                            batches.drain(..own);
                            compared.acknowledgments += 1;
                        }
                        second::Record::Rejection(first) => {
                            compared.rejections += 1;
                            let own = second.rejected.iter().position(|own| is_same(own, &first));
                            let own = own.unwrap_or_else(|| {
                                panic!("event {at}: {first:?} of {:?}", second.rejected)
                            });
                            second.rejected.remove(own);
                        }
                        second::Record::Piece(_) => compared.pieces += 1,
                        _ => {}
                    }
                }
            }
        }
    }
    compared.waited = second.waited;
    compared
}

/// A batch has arrived.
fn settle(
    second: &mut second::Receiver,
    reported: &mut Reported,
    batches: &mut Vec<Vec<(u64, u64)>>,
) {
    for counter in second.acknowledged.drain(..) {
        reported.add(counter);
    }
    batches.push(reported.ranges());
}

/// What acknowledgments report: section 4.2, "A receiver here".
#[derive(Default)]
struct Reported(BTreeSet<u64>);

impl Reported {
    fn add(&mut self, counter: u64) {
        self.0.insert(counter);
        let ranges = self.ranges();
        let oldest = ranges[0].1.saturating_sub(511);
        let lowest = ranges.iter().take(32).rfind(|range| range.1 >= oldest).expect("the newest").0;
        self.0 = self.0.split_off(&lowest);
    }

    /// First and last counter of each range, the highest first.
    fn ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for &counter in self.0.iter().rev() {
            match ranges.last_mut() {
                Some(range) if range.0 == counter + 1 => range.0 = counter,
                _ => ranges.push((counter, counter)),
            }
        }
        ranges
    }
}

/// Does an acknowledgment state these ranges, or as many of the newest as had room?
fn is_newest(first: &second::Acknowledgment, own: &[(u64, u64)]) -> bool {
    let Some(&(_, largest)) = own.first() else { return false };
    let Ok(first) = first.counters(largest + 1) else { return false };
    own.starts_with(&first)
}

/// Names the datagrams of which only one receiver acknowledges each.
fn differs(
    recording: &Recording,
    at: usize,
    first: &second::Acknowledgment,
    own: &[(u64, u64)],
) -> ! {
    let first = first.counters(own.first().map_or(1, |range| range.1 + 1));
    let has = |ranges: &[(u64, u64)], counter: u64| {
        ranges.iter().any(|range| (range.0..=range.1).contains(&counter))
    };
    for (event, it) in recording.events[..at].iter().enumerate() {
        if let (Event::Datagram { counter, plain, .. }, Ok(first)) = (it, &first)
            && has(first, *counter) != has(own, *counter)
        {
            let plain = &plain[..plain.len().min(300)];
            eprintln!("event {event}, counter {counter}: {plain:02x?}");
        }
    }
    panic!("event {at}: the first receiver acknowledges {first:?}, the second {own:?}");
}

fn is_same(own: &Rejected, first: &second::Rejection) -> bool {
    own.counter as u32 == first.counter_low
        && own.records_before == first.records_before
        && own.reason == first.reason
        && (own.ranges == first.ranges || own.lacks_many)
}
