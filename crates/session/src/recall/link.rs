//! How fast content gets to the peer that is new to it.
//!
//! What counts are bytes on the wire between two acknowledgments, and the time between these, while
//! there was always more to send. That includes whatever limits a flow of new content: the link,
//! encoding, the peer. Buffers on the way do not matter, because their content is not acknowledged.

use std::collections::VecDeque;
use std::ops::Sub;
use std::time::{Duration, Instant};

/// Bytes on the wire, and their time, that tell a rate: where there was more to send throughout;
/// and where the last of it was on its way, whose acknowledgment may be late by tens of milliseconds.
const SAMPLE: (u64, Duration) = (256 << 10, Duration::from_millis(10));
const LONG_SAMPLE: (u64, Duration) = (16 << 10, Duration::from_millis(200));
/// Of so many samples the median counts.
const SAMPLES: usize = 5;
/// Bytes on the wire of a burst that tells a rate, if nothing else does.
const BURST: u64 = 64 << 10;
/// Bursts that take no longer, without the round trip, may have waited for their acknowledgment.
const LATE: Duration = Duration::from_millis(40);
/// A flow that waits for credit no longer than this has more to send: what limits it is on the way.
const CREDIT: Duration = Duration::from_millis(100);
/// Of the last so many bytes that were new, the ratio of bytes on the wire counts.
const RECENT: u64 = 1 << 20;
/// Blocks without an acknowledgment that are told apart.
const MOST: usize = 4096;

/// Counts of blocks, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) content: u64,
    /// Of it, what the log did not have.
    pub(crate) new: u64,
    pub(crate) wire: u64,
}

impl Sent {
    fn plus(self, other: Sent) -> Sent {
        Sent {
            content: self.content + other.content,
            new: self.new + other.new,
            wire: self.wire + other.wire,
        }
    }

    /// Whether most of it was new: what repeats takes time, and next to no bytes.
    fn is_new(self) -> bool {
        self.new * 2 >= self.content
    }
}

impl Sub for Sent {
    type Output = Sent;

    fn sub(self, other: Sent) -> Sent {
        Sent {
            content: self.content - other.content,
            new: self.new - other.new,
            wire: self.wire - other.wire,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Link {
    /// Blocks without an acknowledgment: where each ends in the log, and everything up to there.
    blocks: VecDeque<(u64, Sent)>,
    written: Sent,
    acknowledged: Sent,
    /// Bytes written when there was nothing more to send: the first and the last time since all that
    /// was acknowledged.
    idle: Option<(u64, u64)>,
    /// When a flow ran out of credit, if nothing was written since.
    stalled: Option<Instant>,
    /// Since when there is more to send than was acknowledged.
    since: Option<(Instant, Sent)>,
    /// When the first of what is on its way was written.
    burst: Option<(Instant, Sent)>,
    /// Bytes on the wire per second, the last ones; when the last was measured.
    rates: VecDeque<f64>,
    measured: Option<Instant>,
    /// The rate of the last burst, where there is nothing better.
    guess: Option<f64>,
    /// Bytes of new content, and on the wire for it.
    ratio: (u64, u64),
}

impl Link {
    /// A block was written that ends in the log at `end`.
    pub(super) fn wrote(&mut self, end: u64, block: Sent, now: Instant) {
        // The application at the other end is slow, or there was nothing to send.
        if self.stalled.take().is_some_and(|at| now.saturating_duration_since(at) >= CREDIT) {
            self.drained();
        }
        self.burst.get_or_insert((now, self.written));
        self.written = self.written.plus(block);
        if self.blocks.len() >= MOST {
            self.blocks.pop_back();
        }
        self.blocks.push_back((end, self.written));
        if block.is_new() {
            if self.ratio.0 > RECENT {
                self.ratio = (self.ratio.0 / 2, self.ratio.1 / 2);
            }
            self.ratio = (self.ratio.0 + block.new, self.ratio.1 + block.wire);
        }
    }

    /// A flow has content to send, and no credit.
    pub(super) fn stalled(&mut self, now: Instant) {
        self.stalled = Some(now);
    }

    /// There is nothing more to send now.
    pub(super) fn drained(&mut self) {
        if self.stalled.is_some() {
            return;
        }
        let written = self.written.wire;
        match &mut self.idle {
            _ if self.blocks.is_empty() => self.forget_blocks(),
            Some((_, last)) => *last = written,
            idle => *idle = Some((written, written)),
        }
    }

    /// The peer has everything below `offset` of the log.
    pub(super) fn acknowledged(&mut self, offset: u64, rtt: Duration, now: Instant) {
        let before = self.acknowledged;
        while let Some((_, all)) = self.blocks.front().filter(|(end, _)| *end <= offset) {
            self.acknowledged = *all;
            self.blocks.pop_front();
        }
        if self.acknowledged == before {
            return;
        }
        match (self.idle, self.since) {
            // Some of it was written later.
            (Some((first, last)), _) if self.acknowledged.wire > first => {
                let is_past = self.acknowledged.wire > last;
                self.since = is_past.then_some((now, self.acknowledged));
                self.idle = self.idle.filter(|_| !is_past);
            }
            (_, None) => self.since = Some((now, self.acknowledged)),
            (idle, Some((since, before))) => {
                let (sent, took) =
                    (self.acknowledged - before, now.saturating_duration_since(since));
                let is_enough = |(bytes, time)| sent.wire >= bytes && took >= time;
                if (idle.is_none() && is_enough(SAMPLE)) || is_enough(LONG_SAMPLE) {
                    self.since = Some((now, self.acknowledged));
                    if sent.is_new() {
                        self.measure(sent.wire as f64 / took.as_secs_f64(), now);
                    }
                }
            }
        }
        if self.blocks.is_empty() {
            self.end_burst(rtt, now);
        }
    }

    fn measure(&mut self, rate: f64, now: Instant) {
        if self.rates.len() == SAMPLES {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        self.measured = Some(now);
    }

    /// Everything that was written is there.
    fn end_burst(&mut self, rtt: Duration, now: Instant) {
        if let Some((since, before)) = self.burst.take() {
            let sent = self.acknowledged - before;
            let took = now.saturating_duration_since(since).saturating_sub(rtt);
            if took > LATE && sent.wire >= BURST && sent.is_new() {
                self.guess = Some(sent.wire as f64 / (took - LATE / 2).as_secs_f64());
            }
        }
        if self.idle.is_some() {
            self.forget_blocks();
        }
    }

    /// What is on its way tells nothing: another log begins, or a transport was lost.
    pub(super) fn forget_blocks(&mut self) {
        self.blocks.clear();
        self.acknowledged = self.written;
        (self.idle, self.since, self.burst, self.stalled) = (None, None, None, None);
    }

    /// How long so many bytes of new content take. `None` if nothing is known.
    pub(super) fn time(&self, content: u64) -> Option<Duration> {
        let mut rates: Vec<f64> = self.rates.iter().copied().collect();
        rates.sort_by(f64::total_cmp);
        let rate = rates.get(rates.len() / 2).copied().or(self.guess)?;
        let ratio = if self.ratio.0 > 0 { self.ratio.1 as f64 / self.ratio.0 as f64 } else { 1.0 };
        // A day is as good as forever.
        let seconds = (content as f64 * ratio / rate.max(1.0)).min(86_400.0);
        Some(Duration::from_secs_f64(seconds))
    }

    /// When the rate was measured.
    pub(super) fn measured(&self) -> Option<Instant> {
        self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const BLOCK: u64 = 64 << 10;

    fn new(len: u64) -> Sent {
        Sent { content: len, new: len, wire: len }
    }

    /// A link of so many bytes per millisecond takes blocks into a buffer, and acknowledges them.
    struct Path {
        link: Link,
        now: Instant,
        end: u64,
        done: u64,
        rate: u64,
    }

    impl Path {
        fn new(rate: u64) -> Path {
            #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
            let now = Instant::now();
            Path { link: Link::default(), now, end: 0, done: 0, rate }
        }

        fn send(&mut self, block: Sent) {
            self.end += BLOCK;
            self.link.wrote(self.end, block, self.now);
        }

        /// So much time passes, with an acknowledgment at its end.
        fn pass(&mut self, ms: u32) {
            self.now += MS * ms;
            self.done = self.end.min(self.done + self.rate * u64::from(ms));
            self.link.acknowledged(self.done / BLOCK * BLOCK, MS, self.now);
        }
    }

    fn is_about(time: Option<Duration>, ms: u64) -> bool {
        time.is_some_and(|time| (ms * 9 / 10..=ms * 11 / 10).contains(&(time.as_millis() as u64)))
    }

    #[test]
    fn a_buffer_that_takes_everything_at_once_hides_no_slow_link() {
        let mut path = Path::new(1000);
        (0..40).for_each(|_| path.send(new(BLOCK)));
        path.link.drained();
        assert_eq!(path.link.time(1_000_000), None);
        (0..30).for_each(|_| path.pass(20));
        assert!(is_about(path.link.time(1_000_000), 1000), "{:?}", path.link.time(1_000_000));
        assert!(path.link.measured().is_some());
    }

    #[test]
    fn pauses_of_the_application_are_no_slow_link() {
        let mut path = Path::new(20_000);
        for _ in 0..100 {
            path.send(new(BLOCK));
            path.link.drained();
            path.pass(10);
        }
        assert_eq!(path.link.time(1), None);
        // Nor is what is written before the last of it has arrived.
        for _ in 0..100 {
            path.send(new(BLOCK));
            path.link.drained();
            path.pass(1);
            path.now += MS * 2;
        }
        assert_eq!(path.link.measured(), None);
        // Nor is a flow without credit whose application reads nothing for a while.
        for _ in 0..100 {
            path.send(new(BLOCK));
            path.link.stalled(path.now);
            path.link.drained();
            path.pass(10);
            path.now += CREDIT;
        }
        assert_eq!(path.link.measured(), None);
        // As soon as there is always more to send, it is known.
        for _ in 0..100 {
            (0..4).for_each(|_| path.send(new(BLOCK)));
            path.pass(10);
        }
        assert!(is_about(path.link.time(20_000_000), 1000), "{:?}", path.link.time(20_000_000));
    }

    #[test]
    fn a_burst_tells_a_rate_if_nothing_else_does_and_only_if_it_takes_long() {
        for (took, known) in [(1500, true), (30, false)] {
            let mut path = Path::new(2 * BLOCK / took + 1);
            path.send(new(BLOCK));
            path.send(new(BLOCK));
            path.link.drained();
            path.pass(took as u32 + 1);
            assert_eq!(path.link.time(1).is_some(), known);
            assert_eq!(path.link.measured(), None);
        }
        // What repeats says nothing of the link.
        let mut path = Path::new(100);
        path.send(Sent { content: BLOCK, new: BLOCK / 4, wire: BLOCK });
        path.link.drained();
        path.pass(3000);
        assert_eq!(path.link.time(1), None);
    }

    #[test]
    fn content_that_compresses_takes_less_time() {
        let mut path = Path::new(1000);
        for _ in 0..100 {
            path.send(Sent { content: BLOCK, new: BLOCK, wire: BLOCK / 4 });
            path.pass(BLOCK as u32 / 1000);
        }
        // The wire had a quarter of these bytes.
        assert!(is_about(path.link.time(1_000_000), 1000), "{:?}", path.link.time(1_000_000));
        path.link.forget_blocks();
        assert!(path.link.time(1).is_some());
    }
}
