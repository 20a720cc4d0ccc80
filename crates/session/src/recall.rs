//! Content that lies only on disk, on its way back: what an encoder looks for, and what both ends
//! wait for. There is no I/O here.
//!
//! A driver's store may keep more of a log than memory does ([`Config::stored`](crate::Config)).
//! Such content is found by [`Hooks`]; both ends read it, and append it to the log again, without
//! sending it. From there on it is content like any other.

mod choice;
pub(crate) mod examined;
mod latency;
mod link;
mod prepared;
mod ready;

pub use choice::StoreFor;
pub(crate) use link::Sent;
pub(crate) use prepared::{Answer, Prepared, Preparing, Restoring, is_told};
pub(crate) use ready::Ready;

use crate::flow::FlowId;
use crate::outgoing::log::BlockId;
use crate::store::{Side, UNREPEATED};
use choice::{Choice, Way};
use examined::{Examined, Markers, Part};
use latency::Latency;
use oncewire_codec::hooks::{Hooks, markers};
use oncewire_codec::{DEFAULT_BLOCK, Domain, Geometry};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Identifies a request of [`Event::Fetch`](crate::Event::Fetch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(pub(crate) Side, pub(crate) u64);

/// The flow of blocks that belong to none: content that was read from disk.
pub(crate) const NO_FLOW: FlowId = FlowId((1 << 62) - 1);
/// Stretches of one disk that may be outstanding at once, each of a block at most.
const MOST: usize = 64;
/// Stretches that one look may ask for.
const MOST_OF_ONE: usize = 32;
/// How long a flow waits for this end's disk, and the receiving end for its own.
pub(crate) const FLOW_PATIENCE: Duration = Duration::from_millis(250);
pub(crate) const LANE_PATIENCE: Duration = Duration::from_millis(500);
/// How long a flow waits for what the receiving end says of its disk, besides two round trips.
const PEER_PATIENCE: Duration = Duration::from_millis(600);
/// Stretches that could not be read that are remembered.
const MOST_REFUSED: usize = 1024;
/// Stretches of content of one domain that are remembered.
const MOST_RUNS: usize = 1 << 16;
/// Bytes of a flow that are looked up at once.
pub(crate) const LOOK: usize = 2 * DEFAULT_BLOCK;
/// Content that is looked up enters the log so many times before the next is: it is read, and then
/// sent. What the ring overwrites meanwhile is found anew.
const ENTERS: u64 = 2;
/// Looks of a flow that may be under way, and bytes of the log in memory for each: what is read must
/// still be there when it is sent.
pub(crate) const MOST_LOOKS: usize = 8;
const PER_LOOK: u64 = 8 * LOOK as u64;

/// A stretch that this end reads, for a flow.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) flow: FlowId,
    pub(crate) lane: usize,
    pub(crate) log: u64,
    pub(crate) domain: Domain,
    pub(crate) range: Range<u64>,
    /// Where in the flow it is probably sent next.
    pub(crate) at: u64,
    /// Number of the look that found it.
    pub(crate) look: u64,
}

/// What is around content that is looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// Bytes of the flow before it that were looked up and are not sent. If there are any, it is
    /// looked up ahead.
    pub(crate) before: u64,
    /// Bytes of other flows that would be sent in turn with it.
    pub(crate) others: u64,
    /// The flow has more behind it.
    pub(crate) has_more: bool,
}

/// A stretch that both ends read.
#[derive(Debug)]
struct Fetch {
    stretch: Stretch,
    since: Instant,
    /// Looks that waited for a disk when it was looked up: it takes its time beside these.
    beside: u32,
    /// The flow waits for it, until then at most.
    waits: bool,
    until: Option<Instant>,
    /// It is read to know how long that takes.
    is_try: bool,
    /// Nothing was known of the peer's disk, so it waits for an answer, as later ones do not.
    is_first: bool,
    /// `None` until this end has it.
    bytes: Option<Vec<u8>>,
    /// How long that took.
    took: Duration,
    /// The peer has said that it has it.
    is_prepared: bool,
}

/// What has become of a stretch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Nothing new.
    Waits,
    /// Both ends have it: this lane has something to send.
    Ready(usize),
    /// It is not recalled. This look of a flow waited for it.
    Lost(Option<(FlowId, u64)>),
    /// This look of a flow has waited for it long enough, and the flow sends it.
    Late(FlowId, u64),
}

/// What was found on disk.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// What to read, and whether the peer is to say at once when it has that.
    pub(crate) found: Vec<(FetchId, bool, Range<u64>)>,
    /// Stretches that are sent, because that is faster.
    pub(crate) sent: usize,
}

/// What of a sending log lies on disk.
#[derive(Debug)]
pub(crate) struct Recall {
    hooks: Hooks,
    /// Bytes of the log that this end's disk keeps, and the peer's.
    stored: u64,
    pub(crate) peer: u64,
    /// Whose content is where: from an offset to the next one's.
    runs: VecDeque<(u64, Domain)>,
    end: u64,
    /// Nothing below is in memory.
    begin: u64,
    /// Content of an earlier process lies below, and has no hooks yet.
    hooked: u64,
    /// What could not be read, at either end.
    refused: VecDeque<Range<u64>>,
    fetches: BTreeMap<u64, Fetch>,
    next: u64,
    looks: u64,
    latency: Latency,
    pub(crate) choice: Choice,
    pub(crate) ready: ready::Queue,
    /// Blocks of the log that the peer reads, until they are acknowledged.
    sent: VecDeque<(BlockId, Range<u64>)>,
}

impl Recall {
    pub(crate) fn new(stored: u64, goal: StoreFor) -> Recall {
        Recall {
            hooks: Hooks::new(stored),
            stored,
            peer: 0,
            runs: VecDeque::new(),
            end: 0,
            begin: 0,
            hooked: 0,
            refused: VecDeque::new(),
            fetches: BTreeMap::new(),
            next: 0,
            looks: 0,
            latency: Latency::default(),
            choice: Choice::new(goal),
            ready: ready::Queue::default(),
            sent: VecDeque::new(),
        }
    }

    /// An empty log begins.
    pub(crate) fn clear(&mut self) {
        let Recall { stored, peer, next, looks, .. } = *self;
        let goal = self.choice.goal();
        let mut choice = std::mem::replace(&mut self.choice, Choice::new(goal));
        choice.forget_blocks();
        *self = Recall { peer, next, looks, choice, ..Recall::new(stored, goal) };
    }

    /// Another session begins.
    pub(crate) fn settle(&mut self, goal: StoreFor) {
        self.peer = 0;
        self.latency = Latency::default();
        self.choice = Choice::new(goal);
        self.fetches.clear();
        self.ready.clear();
        self.sent.clear();
    }

    /// The log goes on at `offset` with an empty ring.
    pub(crate) fn begin_at(&mut self, offset: u64) {
        self.rewind(offset);
        self.begin = offset;
    }

    /// The log ends at `offset` now.
    pub(crate) fn rewind(&mut self, offset: u64) {
        self.choice.forget_blocks();
        while self.runs.back().is_some_and(|(start, _)| *start >= offset) {
            self.runs.pop_back();
        }
        self.end = self.end.min(offset);
        self.hooked = self.hooked.min(offset);
    }

    /// A log that an earlier process stored goes on at `end`. What lies below `begin` is not in
    /// memory, and has no hooks.
    pub(crate) fn found(&mut self, begin: u64, end: u64) {
        (self.begin, self.hooked, self.end) = (begin, begin, end);
    }

    /// Content that an earlier process stored, and that nothing leads to.
    pub(crate) fn unhooked(&self) -> Option<Range<u64>> {
        let range = self.end.saturating_sub(self.stored)..self.hooked;
        (!range.is_empty() && self.runs.len() < MOST_RUNS).then_some(range)
    }

    /// Content that an earlier process stored: from `offset` up to where [`Recall::unhooked`] ends,
    /// of these domains.
    pub(crate) fn note_found(
        &mut self,
        key: u64,
        offset: u64,
        content: &[u8],
        owners: &[(u64, Domain)],
    ) {
        let end = offset + content.len() as u64;
        for (nth, &(start, domain)) in owners.iter().enumerate().rev() {
            let start = start.max(offset);
            let end = owners.get(nth + 1).map_or(end, |(next, _)| (*next).min(end));
            if start >= end {
                continue;
            }
            match self.runs.front_mut().filter(|(_, first)| *first == domain) {
                Some(first) => first.0 = start,
                None => self.runs.push_front((start, domain)),
            }
            if domain.0 < UNREPEATED {
                let content = &content[(start - offset) as usize..(end - offset) as usize];
                self.hooks.note(&markers(content, domain, key), start);
            }
        }
        self.hooked = offset;
    }

    /// What lies between `offset` and the end of [`Recall::unhooked`] gets no hooks.
    pub(crate) fn skip_found(&mut self, offset: u64) {
        self.hooked = offset;
        // Its neighbors must not seem to reach across.
        if self.runs.front().is_none_or(|(_, first)| *first != Domain::NOBODY) {
            self.runs.push_front((offset, Domain::NOBODY));
        }
    }

    /// Content of a domain was appended to the log at `offset`. Its markers, if they are known, are those
    /// of another log perhaps. All of it `repeats` what the log has, or not.
    #[expect(clippy::too_many_arguments, reason = "each caller has all of them by name")]
    pub(crate) fn note(
        &mut self,
        log: u64,
        domain: Domain,
        key: u64,
        offset: u64,
        content: &[u8],
        known: Option<Markers>,
        repeats: bool,
    ) {
        if self.runs.back().is_none_or(|(_, last)| *last != domain) {
            self.runs.push_back((offset, domain));
            if self.runs.len() > MOST_RUNS {
                self.runs.pop_front();
            }
        }
        self.end = offset + content.len() as u64;
        if domain.0 < UNREPEATED {
            let known = known.filter(|known| known.of == (log, domain));
            let found = known.map_or_else(|| markers(content, domain, key), |known| known.found);
            match repeats {
                true => self.hooks.note_again(&found, offset),
                false => self.hooks.note(&found, offset),
            }
        }
    }

    /// The part of `range` around its middle that is of one domain, if it is this one.
    fn owned(&self, range: Range<u64>, domain: Domain) -> Range<u64> {
        let middle = range.start + (range.end - range.start) / 2;
        let next = self.runs.partition_point(|(start, _)| *start <= middle);
        match next.checked_sub(1).map(|run| self.runs[run]) {
            Some((start, owner)) if owner == domain => {
                let end = self.runs.get(next).map_or(self.end, |(start, _)| *start);
                range.start.max(start)..range.end.min(end)
            }
            _ => 0..0,
        }
    }

    /// What of the disk to read before `content` of a flow is encoded. The log is that of `at`, as is
    /// the place in the flow, and has this geometry.
    #[expect(clippy::too_many_arguments, reason = "one caller, which has each of them by name")]
    pub(crate) fn look(
        &mut self,
        at: &Stretch,
        key: u64,
        geometry: Geometry,
        content: &[u8],
        around: Around,
        examined: &mut Examined,
        now: Instant,
    ) -> Looked {
        let Around { before, others, has_more } = around;
        if before == 0 {
            examined.parts.clear();
        }
        let Examined { parts, next, read } = examined;
        parts.push_back(Part { len: content.len(), ..Part::default() });
        let Some(part) = parts.back_mut() else { return Looked::default() };
        if let Some((since, len, others)) = read.take() {
            self.choice.went_on(len, others, now.saturating_duration_since(since));
        }
        // What is not there any more when the next blocks were encoded is not in memory.
        let margin = ENTERS * (before + LOOK as u64);
        let memory = geometry.floor(self.end + margin, 0).max(self.begin);
        let stored = self.end.saturating_sub(self.stored.min(self.peer))..memory;
        if stored.is_empty() || self.peer == 0 || at.domain.0 >= UNREPEATED {
            *next = None;
            return Looked::default();
        }
        part.markers = markers(content, at.domain, key);
        part.of = Some((at.log, at.domain));
        let mut ranges = Vec::new();
        let most = MOST.saturating_sub(self.fetches.len() + self.ready.len());
        let refused = |range: &Range<u64>| {
            self.refused.iter().any(|bad| bad.start < range.end && range.start < bad.end)
        };
        let is_readable = |place: u64| !refused(&(place..place + 1));
        let (hooks, len, most_ranges) = (&self.hooks, content.len(), MOST_OF_ONE);
        let found = hooks.look(&part.markers, len, &stored, next, most_ranges, is_readable);
        for (within, range) in found {
            // The flow has so many bytes less there than the log.
            let distance = range.start.wrapping_sub(at.at + within);
            let Range { mut start, end } = self.owned(range, at.domain);
            while start < end && ranges.len() < most {
                let generation = geometry.generation_start(start) + geometry.capacity();
                let range = start..end.min(start + DEFAULT_BLOCK as u64).min(generation);
                start = range.end;
                if refused(&range) {
                    continue;
                }
                ranges.push((range.start.wrapping_sub(distance), range));
            }
        }
        if ranges.is_empty() {
            return Looked::default();
        }
        let len = content.len() as u64;
        let found: u64 = ranges.iter().map(|(_, range)| range.end - range.start).sum();
        let (waits, until) = match self.choice.choose(found.min(len), before + others, now) {
            Way::Recall(until) => (true, until),
            Way::Try => (false, None),
            Way::Send => return Looked { sent: ranges.len(), ..Looked::default() },
        };
        let sent = if waits { 0 } else { ranges.len() };
        if waits && has_more {
            *read = Some((now, len, others));
        }
        self.looks += 1;
        (part.look, part.waits) = (self.looks, ranges.len() - sent);
        let found = self.begin(at, ranges, waits, until, now);
        Looked { found, sent }
    }

    /// These ranges are read, because a look has found them, for these places in the flow.
    fn begin(
        &mut self,
        at: &Stretch,
        ranges: Vec<(u64, Range<u64>)>,
        waits: bool,
        until: Option<Instant>,
        now: Instant,
    ) -> Vec<(FetchId, bool, Range<u64>)> {
        let mut found = Vec::new();
        let mut others: Vec<u64> = self.fetches.values().map(|other| other.stretch.look).collect();
        others.dedup();
        let beside = others.len() as u32;
        for (place, range) in ranges {
            self.next += 1;
            let (look, at) = (self.looks, Stretch { at: place, ..at.clone() });
            let fetch = Fetch {
                stretch: Stretch { range: range.clone(), look, ..at },
                since: now,
                beside,
                waits,
                until,
                is_try: !waits,
                is_first: self.latency.is_unknown(),
                bytes: None,
                took: Duration::ZERO,
                is_prepared: false,
            };
            self.fetches.insert(self.next, fetch);
            let wants = self.latency.wants_answer();
            if wants {
                self.latency.ask(self.next, now);
            }
            found.push((FetchId(Side::Sending, self.next), wants, range));
        }
        found
    }

    /// The driver has read a stretch, or failed to.
    pub(crate) fn supply(
        &mut self,
        id: u64,
        bytes: Option<Vec<u8>>,
        now: Instant,
        rtt: Duration,
    ) -> Came {
        let Some(fetch) = self.fetches.get_mut(&id) else { return Came::Waits };
        let len = fetch.stretch.range.end - fetch.stretch.range.start;
        fetch.bytes = bytes.filter(|bytes| bytes.len() as u64 == len);
        fetch.took = now.saturating_duration_since(fetch.since);
        if fetch.bytes.is_none() {
            return self.lose(id, true);
        }
        let took = fetch.took;
        let is_due = matches!(self.latency.due(fetch.since, rtt), Some(due) if due <= now);
        if fetch.is_prepared || is_due { self.go(id, took) } else { Came::Waits }
    }

    /// The peer has read a stretch in this time, or failed to.
    pub(crate) fn prepared(&mut self, id: u64, took: Option<Duration>, now: Instant) -> Came {
        let is_try = self.fetches.get(&id).is_some_and(|fetch| fetch.is_try);
        self.latency.answer(id, took, is_try);
        let Some(fetch) = self.fetches.get_mut(&id) else { return Came::Waits };
        fetch.is_prepared = took.is_some();
        let waited = now.saturating_duration_since(fetch.since);
        let (own, is_first) = (fetch.took, fetch.is_first || is_try);
        match (took, fetch.bytes.is_some()) {
            (Some(took), true) if is_first => self.go(id, own.max(took)),
            (Some(_), true) => self.go(id, waited),
            (Some(_), false) => Came::Waits,
            (None, _) => {
                let is_late = waited >= LANE_PATIENCE;
                self.give_up(id, is_late.then_some(waited))
            }
        }
    }

    /// How long it took to have a stretch tells how long a look takes, if it was the last one.
    fn measure(&mut self, fetch: &Fetch, took: Duration) {
        if self.fetches.values().all(|other| other.stretch.look != fetch.stretch.look) {
            // So many looks took that long.
            self.choice.took(took / (1 + fetch.beside), fetch.is_try);
        }
    }

    /// Both ends have a stretch, after this time: it is recalled next.
    fn go(&mut self, id: u64, took: Duration) -> Came {
        let fetch = self.fetches.remove(&id);
        fetch.iter().for_each(|fetch| self.measure(fetch, took));
        match fetch {
            Some(Fetch { stretch, bytes: Some(bytes), waits: true, .. }) => {
                let lane = stretch.lane;
                self.ready.push(stretch, bytes);
                Came::Ready(lane)
            }
            _ => Came::Waits,
        }
    }

    fn lose(&mut self, id: u64, is_bad: bool) -> Came {
        let Some(Fetch { stretch, waits, .. }) = self.fetches.remove(&id) else {
            return Came::Waits;
        };
        if is_bad {
            self.refuse(stretch.range);
        }
        Came::Lost(waits.then_some((stretch.flow, stretch.look)))
    }

    /// A stretch cannot be read; or not in time, if it was waited for so long. A slow disk may be
    /// faster later.
    fn give_up(&mut self, id: u64, waited: Option<Duration>) -> Came {
        let is_slow = waited.filter(|_| self.choice.goal() == StoreFor::Time);
        let is_try = self.fetches.get(&id).is_some_and(|fetch| fetch.is_try);
        is_slow.into_iter().for_each(|waited| self.choice.took(waited, is_try));
        self.lose(id, is_slow.is_none())
    }

    /// Until when a request is waited for, and whether its stretch is recalled then.
    fn due(&self, fetch: &Fetch, rtt: Duration) -> (Instant, bool) {
        let Fetch { since, .. } = *fetch;
        if fetch.bytes.is_none() {
            return (since + FLOW_PATIENCE, false);
        }
        let patience = since + PEER_PATIENCE + rtt * 2;
        match self.latency.due(since, rtt) {
            // The peer's answer takes a while longer to get here than what it has read to be there.
            Some(due) if due < patience => (due, true),
            _ => (patience, false),
        }
    }

    /// How many looks of a flow may be under way with a log of this size.
    pub(crate) fn looks(&self, capacity: u64) -> usize {
        let room = (capacity / PER_LOOK) as usize;
        if self.peer > 0 { room.clamp(1, MOST_LOOKS) } else { 1 }
    }

    /// Until when a request is waited for.
    pub(crate) fn deadline(&self, rtt: Duration) -> Option<Instant> {
        let due = self.fetches.values().map(|fetch| self.due(fetch, rtt).0);
        let until = self.fetches.values().filter(|fetch| fetch.waits).filter_map(|one| one.until);
        due.chain(until).min()
    }

    /// What becomes of a request that was waited for long enough, if there is one.
    pub(crate) fn overdue(&mut self, now: Instant, rtt: Duration) -> Option<Came> {
        let overdue = self.fetches.iter().find_map(|(id, fetch)| {
            let (due, is_ready) = self.due(fetch, rtt);
            let waited = now.saturating_duration_since(fetch.since);
            (due <= now).then_some((*id, is_ready, fetch.bytes.is_some(), waited))
        });
        match overdue {
            Some((id, true, _, waited)) => Some(self.go(id, waited)),
            Some((id, false, false, waited)) => Some(self.give_up(id, Some(waited))),
            // What the peer did not say may be read later.
            Some((id, false, true, _)) => Some(self.lose(id, false)),
            None => {
                let is_late = |fetch: &&mut Fetch| {
                    fetch.waits && fetch.until.is_some_and(|until| until <= now)
                };
                let late = self.fetches.values_mut().find(is_late)?;
                late.waits = false;
                let Stretch { flow, look, .. } = late.stretch;
                let waits = |other: &Fetch| other.stretch.look == look && other.waits;
                if !self.fetches.values().any(waits) {
                    self.choice.is_late();
                }
                Some(Came::Late(flow, look))
            }
        }
    }

    pub(crate) fn sent(&mut self, block: BlockId, range: Range<u64>) {
        self.sent.push_back((block, range));
    }

    /// The peer has read a block, or got it otherwise.
    pub(crate) fn acknowledge(&mut self, block: BlockId) {
        self.sent.retain(|(sent, _)| *sent != block);
    }

    /// A block has to be sent: the peer could not read it, or its transport was lost before.
    pub(crate) fn refused(&mut self, block: BlockId) {
        if let Some(at) = self.sent.iter().position(|(sent, _)| *sent == block)
            && let Some((_, range)) = self.sent.remove(at)
        {
            // It may be slower than it was, and is to say so.
            self.latency = Latency::default();
            // What is left of the same stretch was read with it.
            let rest = self.ready.take_after(&range);
            self.refuse(range);
            rest.into_iter().for_each(|rest| self.refuse(rest));
        }
    }

    /// A range cannot be read, at either end.
    pub(crate) fn refuse(&mut self, range: Range<u64>) {
        // An end says all of it again when a session begins.
        if self.refused.iter().any(|bad| bad.start <= range.start && range.end <= bad.end) {
            return;
        }
        self.ready.forget(&range);
        match self.refused.back_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => self.refused.push_back(range),
        }
        if self.refused.len() > MOST_REFUSED {
            self.refused.pop_front();
        }
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let read = self.fetches.values().filter_map(|fetch| fetch.bytes.as_ref());
        let ready = self.ready.bytes() + read.map(Vec::len).sum::<usize>();
        (self.hooks.memory() + self.runs.len() * size_of::<(u64, Domain)>() + ready) as u64
    }
}
