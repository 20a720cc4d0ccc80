//! Whether this end is slower than its link.
//!
//! The literal coder's level 3 takes some 6 % fewer bytes than level 1, in 1.4 times the time. That
//! is right where something else limits the session: the link, or the application. Where a session
//! spends most of its time encoding, it holds content up itself, and level 1 is right. So what
//! counts is the share of its time that a session encodes, while it has content.

use std::time::{Duration, Instant};

/// Content between two judgements, in bytes.
const WINDOW: u64 = 512 << 10;
/// A longer time without a block to encode is a pause: what came before counts no more.
const PAUSE: Duration = Duration::from_millis(100);
/// From this share on, of a hundred, a session hurries, and below the other it stops. Between them
/// neither would last: at the lower level, encoding takes 0.7 of the time.
const HURRIES: u32 = 50;
const RESTS: u32 = 30;

/// Decides for each block whether to hurry. It has no clock: times are those of the session's
/// caller.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    hurries: bool,
    /// Since the last judgement: content, time, and of it, the time that encoding took.
    content: u64,
    time: Duration,
    encoding: Duration,
    /// When the last block was taken, and when one was encoded.
    taken: Option<Instant>,
    encoded: Option<Instant>,
}

impl Pace {
    /// A block is taken: whether to hurry with it.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        if let Some(encoded) = self.encoded.take() {
            let pause = now.saturating_duration_since(encoded);
            if pause > PAUSE {
                self.restart();
                self.hurries = false;
            }
            self.time += pause;
        }
        self.taken = Some(now);
        self.hurries
    }

    /// The block that was taken last is encoded: `len` bytes.
    pub(crate) fn encoded(&mut self, len: usize, now: Instant) {
        let Some(taken) = self.taken.take() else { return };
        let took = now.saturating_duration_since(taken);
        self.encoded = Some(now);
        self.content += len as u64;
        self.time += took;
        self.encoding += took;
        if self.content >= WINDOW {
            let share = if self.hurries { RESTS } else { HURRIES };
            self.hurries = self.encoding * 100 >= self.time * share && !self.time.is_zero();
            self.restart();
        }
    }

    fn restart(&mut self) {
        (self.content, self.time, self.encoding) = (0, Duration::ZERO, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 64 << 10;

    /// Sends blocks that take this many microseconds to encode, or as many hurrying, and then wait
    /// for what is left of the time that a block takes on the link. Returns how many were hurried.
    fn send(pace: &mut Pace, now: &mut Instant, blocks: u32, encode: [u64; 2], link: u64) -> u32 {
        let mut hurried = 0;
        for _ in 0..blocks {
            let begun = *now;
            let hurries = pace.take(begun);
            hurried += u32::from(hurries);
            *now = begun + Duration::from_micros(encode[usize::from(hurries)]);
            pace.encoded(BLOCK, *now);
            *now = (*now).max(begun + Duration::from_micros(link));
        }
        hurried
    }

    #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
    fn start() -> (Pace, Instant) {
        (Pace::default(), Instant::now())
    }

    #[test]
    fn a_session_that_holds_content_up_hurries_after_a_window() {
        let (mut pace, mut now) = start();
        assert_eq!(send(&mut pace, &mut now, 100, [260, 180], 0), 92);
    }

    #[test]
    fn a_slow_link_or_application_never_makes_it_hurry() {
        for link in [600, 5_000, 50_000] {
            let (mut pace, mut now) = start();
            assert_eq!(send(&mut pace, &mut now, 1_000, [260, 180], link), 0, "{link}");
        }
    }

    #[test]
    fn it_rests_when_the_link_slows_down_and_hurries_again() {
        let (mut pace, mut now) = start();
        send(&mut pace, &mut now, 100, [260, 180], 0);
        let after = send(&mut pace, &mut now, 100, [260, 180], 2_000);
        assert!((1..=8).contains(&after), "{after}");
        assert_eq!(send(&mut pace, &mut now, 100, [260, 180], 0), 92);
    }

    #[test]
    fn on_a_link_as_fast_as_either_level_it_does_not_alternate() {
        for link in (100..1_000).step_by(10) {
            let (mut pace, mut now) = start();
            let mut changes = 0;
            let mut last = 0;
            for _ in 0..100 {
                let hurried = u32::from(send(&mut pace, &mut now, 8, [260, 180], link) > 4);
                changes += u32::from(hurried != last);
                last = hurried;
            }
            assert!(changes <= 1, "{link}: {changes}");
        }
    }

    #[test]
    fn after_a_pause_it_does_not_hurry() {
        let (mut pace, mut now) = start();
        send(&mut pace, &mut now, 100, [260, 180], 0);
        now += Duration::from_secs(1);
        assert_eq!(send(&mut pace, &mut now, 8, [260, 180], 0), 0);
    }

    #[test]
    fn without_a_clock_that_goes_on_it_never_hurries() {
        let (mut pace, mut now) = start();
        assert_eq!(send(&mut pace, &mut now, 100, [0, 0], 0), 0);
    }
}
