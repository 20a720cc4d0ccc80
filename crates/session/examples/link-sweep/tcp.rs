//! TCP as far as a link matters to it: congestion control of NewReno (RFC 6582, RFC 5681), selective
//! acknowledgments (RFC 2018), losses told by time and tail loss probes (RACK-TLP, RFC 8985, without its
//! reordering timer), timeouts as in RFC 6298. Both ends of a connection are one struct; what passes between them are headers.

use crate::path::SEGMENT;
use oncewire_session::link::Fields;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

const HEADER_LEN: usize = 52;
/// Segments of a run, as TCP segmentation offload makes them.
const RUN: u64 = 10 * MSS;
const MSS: u64 = SEGMENT as u64;
const LEAST_TIMEOUT: f64 = 0.2;

/// Where the headers of these flows have their fields.
pub(crate) fn layout(_: &[u8]) -> Fields {
    Fields {
        addresses: (0, 2),
        ports: (2, 4),
        sequence: Some(4),
        acknowledgment: Some(8),
        timestamps: Some(12),
        ..Fields::default()
    }
}

/// The ranges that a receiver has beyond what it acknowledges.
pub(crate) type Sacks = Vec<Range<u64>>;

/// The header of a packet of a flow: of data, or from the receiver.
pub(crate) fn header(
    flow: u8,
    from: u8,
    sequence: u64,
    next: u64,
    sacks: &Sacks,
) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&[from, 1 - from, flow, flow]);
    header[4..8].copy_from_slice(&(sequence as u32).to_be_bytes());
    header[8..12].copy_from_slice(&(next as u32).to_be_bytes());
    header[20] = sacks.len() as u8;
    for (nth, sack) in sacks.iter().enumerate() {
        let at = 24 + 8 * nth;
        header[at..at + 4].copy_from_slice(&(sack.start as u32).to_be_bytes());
        header[at + 4..at + 8].copy_from_slice(&(sack.end as u32).to_be_bytes());
    }
    header
}

/// What [`header`] was made from: flow, sequence number, acknowledgment and ranges. Flows are shorter
/// than 4 GiB.
pub(crate) fn parse(header: &[u8]) -> (u8, u64, u64, Sacks) {
    let number = |at: usize| {
        header[at..at + 4].iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let sacks = (0..usize::from(header[20]))
        .map(|nth| number(24 + 8 * nth)..number(28 + 8 * nth))
        .collect();
    (header[2], number(4), number(8), sacks)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    Received,
    Lost,
}

struct Segment {
    range: Range<u64>,
    at: Instant,
    state: State,
    is_repeat: bool,
}

impl Segment {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// A connection.
pub(crate) struct Flow {
    total: u64,
    /// No run goes across multiples of this.
    part: u64,
    next: u64,
    window: f64,
    threshold: f64,
    /// End of what was sent when the window was last reduced.
    recovery: u64,
    /// It was a timeout, after which the window grows again from one segment on.
    has_timed_out: bool,
    segments: VecDeque<Segment>,
    in_flight: u64,
    /// When the newest segment was sent that is known to have arrived.
    newest: Option<Instant>,
    round_trip: Option<(f64, f64)>,
    timeout_at: Option<Instant>,
    /// When the last segment is sent again to find out what was lost.
    probe_at: Option<Instant>,
    backoff: u32,
    /// The receiver's: what it expects next, and what it has beyond.
    expected: u64,
    early: BTreeMap<u64, u64>,
    pub(crate) sent: u64,
    pub(crate) repeated: u64,
    pub(crate) timeouts: u64,
    pub(crate) finished: Option<Instant>,
}

impl Flow {
    pub(crate) fn new(total: u64, part: u64) -> Flow {
        Flow {
            total,
            part,
            next: 0,
            window: 10.0 * MSS as f64,
            threshold: f64::MAX,
            recovery: 0,
            has_timed_out: false,
            segments: VecDeque::new(),
            in_flight: 0,
            newest: None,
            round_trip: None,
            timeout_at: None,
            probe_at: None,
            backoff: 0,
            expected: 0,
            early: BTreeMap::new(),
            sent: 0,
            repeated: 0,
            timeouts: 0,
            finished: None,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout_at.into_iter().chain(self.probe_at).min()
    }

    fn timeout(&self) -> Duration {
        let (smoothed, variation) = self.round_trip.unwrap_or((0.5, 0.25));
        let seconds = (smoothed + 4.0 * variation).max(LEAST_TIMEOUT);
        Duration::from_secs_f64(seconds * f64::from(1 << self.backoff.min(6)))
    }

    /// The next run to send, as far as the window admits one.
    pub(crate) fn run(&mut self, now: Instant) -> Option<Range<u64>> {
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.time_out();
        }
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            if let Some(range) = self.probe(now) {
                return Some(range);
            }
        }
        let room = (self.window as u64).saturating_sub(self.in_flight);
        if room < MSS && self.in_flight > 0 {
            return None;
        }
        let most = (room / MSS * MSS).clamp(MSS, RUN);
        let lost = self.segments.iter().position(|segment| segment.state == State::Lost);
        let run = match lost {
            Some(first) => self.repeat(first, most, now),
            None => self.new_run(most, now)?,
        };
        self.in_flight += run.end - run.start;
        self.timeout_at.get_or_insert(now + self.timeout());
        if let Some((smoothed, _)) = self.round_trip
            && self.backoff == 0
        {
            self.probe_at = Some(now + Duration::from_secs_f64(2.0 * smoothed));
        }
        Some(run)
    }

    /// Sends the newest segment in flight once more.
    fn probe(&mut self, now: Instant) -> Option<Range<u64>> {
        let is_in_flight = |segment: &&mut Segment| segment.state == State::InFlight;
        let segment = self.segments.iter_mut().rev().find(is_in_flight)?;
        (segment.at, segment.is_repeat) = (now, true);
        self.sent += 1;
        self.repeated += 1;
        Some(segment.range.clone())
    }

    fn repeat(&mut self, first: usize, most: u64, now: Instant) -> Range<u64> {
        let start = self.segments[first].range.start;
        let end_of_part = (start / self.part + 1) * self.part;
        let mut run = start..start;
        for segment in self.segments.range_mut(first..) {
            let fits = segment.range.end <= end_of_part && segment.range.end - start <= most;
            if segment.state != State::Lost || segment.range.start != run.end || !fits {
                break;
            }
            (segment.state, segment.at, segment.is_repeat) = (State::InFlight, now, true);
            run.end = segment.range.end;
            self.sent += 1;
            self.repeated += 1;
        }
        run
    }

    fn new_run(&mut self, most: u64, now: Instant) -> Option<Range<u64>> {
        let end_of_part = (self.next / self.part + 1) * self.part;
        let run = self.next..(self.next + most).min(self.total).min(end_of_part);
        if run.is_empty() {
            return None;
        }
        for start in run.clone().step_by(SEGMENT) {
            let range = start..(start + MSS).min(run.end);
            let state = State::InFlight;
            self.segments.push_back(Segment { range, at: now, state, is_repeat: false });
            self.sent += 1;
        }
        self.next = run.end;
        Some(run)
    }

    /// Everything that was not received counts as lost.
    fn time_out(&mut self) {
        self.timeouts += 1;
        self.backoff += 1;
        self.timeout_at = None;
        self.probe_at = None;
        self.threshold = (self.window / 2.0).max(2.0 * MSS as f64);
        self.window = MSS as f64;
        self.recovery = self.next;
        self.has_timed_out = true;
        self.in_flight = 0;
        for segment in &mut self.segments {
            if segment.state == State::InFlight {
                segment.state = State::Lost;
            }
        }
    }

    /// An acknowledgment has arrived.
    pub(crate) fn acknowledged(&mut self, next: u64, sacks: &Sacks, now: Instant) {
        let (mut arrived, mut is_new, mut sample) = (0, false, None);
        for segment in &mut self.segments {
            let is_in = segment.range.end <= next
                || sacks
                    .iter()
                    .any(|sack| sack.start <= segment.range.start && segment.range.end <= sack.end);
            if !is_in || segment.state == State::Received {
                continue;
            }
            if segment.state == State::InFlight {
                self.in_flight -= segment.len();
            }
            segment.state = State::Received;
            arrived += segment.len();
            is_new = true;
            // Of a repeat, it is not known which copy arrived (Karn and Partridge 1987).
            if !segment.is_repeat {
                sample = Some((now - segment.at).as_secs_f64());
                self.newest = self.newest.max(Some(segment.at));
            } else if self
                .round_trip
                .is_some_and(|(smoothed, _)| (now - segment.at).as_secs_f64() > 0.9 * smoothed)
            {
                self.newest = self.newest.max(Some(segment.at));
            }
        }
        while self.segments.front().is_some_and(|segment| segment.range.end <= next) {
            self.segments.pop_front();
        }
        if let Some(sample) = sample {
            self.round_trip = Some(match self.round_trip {
                None => (sample, sample / 2.0),
                Some((smoothed, variation)) => (
                    0.875 * smoothed + 0.125 * sample,
                    0.75 * variation + 0.25 * (smoothed - sample).abs(),
                ),
            });
        }
        self.find_losses();
        let unacknowledged = self.segments.front().map_or(self.next, |first| first.range.start);
        self.has_timed_out &= unacknowledged < self.recovery;
        if unacknowledged >= self.recovery || self.has_timed_out {
            let grown = if self.window < self.threshold {
                arrived as f64
            } else {
                MSS as f64 * arrived as f64 / self.window
            };
            self.window += grown;
        }
        if is_new {
            self.backoff = 0;
            self.timeout_at = (!self.segments.is_empty()).then(|| now + self.timeout());
            self.probe_at = self
                .timeout_at
                .and(self.round_trip)
                .map(|(smoothed, _)| now + Duration::from_secs_f64(2.0 * smoothed));
        }
        if next == self.total && self.finished.is_none() {
            self.finished = Some(now);
        }
    }

    /// What was sent a quarter of a round trip before something that has arrived is lost.
    fn find_losses(&mut self) {
        let (Some(newest), Some((smoothed, _))) = (self.newest, self.round_trip) else { return };
        let patience = Duration::from_secs_f64(smoothed / 4.0);
        let mut last = None;
        for segment in &mut self.segments {
            if segment.state == State::InFlight && segment.at + patience < newest {
                segment.state = State::Lost;
                self.in_flight -= segment.len();
                last = Some(segment.range.end);
            }
        }
        if last.is_some_and(|last| last > self.recovery) {
            self.threshold = (self.window / 2.0).max(2.0 * MSS as f64);
            self.window = self.threshold;
            self.recovery = self.next;
        }
    }

    /// Data has arrived at the receiver. Returns what it acknowledges: the range just received first.
    pub(crate) fn received(&mut self, data: Range<u64>) -> (u64, Sacks) {
        let mut new = data.start.max(self.expected)..data.end.max(self.expected);
        if !new.is_empty() {
            // Joins what overlaps or adjoins.
            while let Some((&start, &end)) =
                self.early.range(..=new.end).next_back().filter(|&(_, &end)| end >= new.start)
            {
                self.early.remove(&start);
                new = new.start.min(start)..new.end.max(end);
            }
            self.early.insert(new.start, new.end);
        }
        if let Some(end) = self.early.remove(&self.expected) {
            self.expected = end;
        }
        let newest = Some(new).filter(|new| new.start > self.expected);
        let others = self.early.iter().rev().map(|(&start, &end)| start..end);
        let others = others.filter(|range| Some(range) != newest.as_ref());
        let sacks = newest.iter().cloned().chain(others).take(3).collect();
        (self.expected, sacks)
    }
}
