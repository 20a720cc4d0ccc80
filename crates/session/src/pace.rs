//! Whether this end is slower than its link.
//!
//! The literal coder's level 3 takes some 6 % fewer bytes than level 1, in 1.4 times the time. That
//! is right where something else limits the session: the link, or the application. Where a session
//! spends most of its time encoding, it holds content up itself, and level 1 is right. So what
//! counts is the share of its time that a session encodes, while it has content.
//!
//! At a hub, sessions share threads, and each of them encodes a small share of its time: it waits
//! for the others. There, what counts is the share of their time that all of one thread encode,
//! unless the session's own link makes it wait, which shows when its transport is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Content between two judgements, in bytes.
const WINDOW: u64 = 512 << 10;
/// A longer time without a block to encode is a pause: what came before counts no more.
const PAUSE: Duration = Duration::from_millis(100);
/// From this share on, of a hundred, a session hurries, and below the other it stops. Between them
/// neither would last: at the lower level, encoding takes 0.7 of the time.
const HURRIES: u32 = 50;
const RESTS: u32 = 30;

/// Time that sessions which share a thread have spent encoding, together, whether on that thread or,
/// where frames are written apart, beside it.
#[derive(Clone, Debug, Default)]
pub struct ThreadLoad(Arc<AtomicU64>);

impl ThreadLoad {
    fn add(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Decides for each block whether to hurry. It has no clock: times are those of the session's
/// caller.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    hurries: bool,
    /// Since the last judgement: content, blocks, after how many of them the transport was full, time,
    /// and of it, the time that encoding took.
    content: u64,
    blocks: u32,
    full: u32,
    time: Duration,
    encoding: Duration,
    /// What the thread encodes, and how much that was at the last judgement.
    thread: ThreadLoad,
    judged: Duration,
    /// When the last one was taken or encoded, and what the thread had encoded then.
    last: Option<(Instant, Duration)>,
}

impl Pace {
    /// The session shares its thread with those that have this load.
    pub(crate) fn share(&mut self, thread: ThreadLoad) {
        self.thread = thread;
        self.restart();
    }

    /// A transport takes no more for now.
    pub(crate) fn full(&mut self) {
        self.full += 1;
    }

    /// Whether this end holds content up itself.
    pub(crate) fn is_behind(&self) -> bool {
        self.hurries
    }

    /// A block is taken: whether to hurry with it. `is_writing` says whether frames of others are
    /// being written.
    pub(crate) fn take(&mut self, is_writing: bool, now: Instant) -> bool {
        if is_writing {
            self.encode(now);
        } else if let Some((last, load)) = self.last {
            let pause = now.saturating_duration_since(last);
            let others = self.thread.get().saturating_sub(load);
            // Otherwise, it had to wait for the others.
            if pause > PAUSE && others * 100 < pause * HURRIES {
                self.restart();
                self.hurries = false;
            }
            self.time += pause;
        }
        self.last = Some((now, self.thread.get()));
        self.hurries
    }

    /// Some block was being encoded since a block was last taken or encoded.
    fn encode(&mut self, now: Instant) {
        let Some((last, _)) = self.last else { return };
        let took = now.saturating_duration_since(last);
        self.thread.add(took);
        self.time += took;
        self.encoding += took;
        self.last = Some((now, self.thread.get()));
    }

    /// A block that was taken is encoded: `len` bytes.
    pub(crate) fn encoded(&mut self, len: usize, now: Instant) {
        if self.last.is_none() {
            return;
        }
        self.encode(now);
        let load = self.thread.get();
        self.content += len as u64;
        self.blocks += 1;
        if self.content >= WINDOW {
            let share = self.time * if self.hurries { RESTS } else { HURRIES };
            let by_itself = self.encoding * 100 >= share;
            let by_others = load.saturating_sub(self.judged) * 100 >= share;
            let has_room = self.full * 2 < self.blocks;
            self.hurries = (by_itself || by_others && has_room) && !self.time.is_zero();
            self.restart();
        }
    }

    fn restart(&mut self) {
        (self.content, self.blocks, self.full) = (0, 0, 0);
        (self.time, self.encoding) = (Duration::ZERO, Duration::ZERO);
        self.judged = self.thread.get();
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
            let hurries = pace.take(false, begun);
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

    /// Sessions of one thread send in turn. Returns how many of their blocks were hurried, each.
    fn share(
        sessions: usize,
        rounds: u32,
        encode: [u64; 2],
        full: &dyn Fn(usize) -> bool,
    ) -> Vec<u32> {
        let (_, mut now) = start();
        let thread = ThreadLoad::default();
        let mut paces: Vec<Pace> = (0..sessions).map(|_| Pace::default()).collect();
        paces.iter_mut().for_each(|pace| pace.share(thread.clone()));
        let mut hurried = vec![0; sessions];
        for _ in 0..rounds {
            for (nth, pace) in paces.iter_mut().enumerate() {
                hurried[nth] += send(pace, &mut now, 1, encode, 0);
                // What is not encoding: a fifth of the time.
                now += Duration::from_micros(65);
                if full(nth) {
                    pace.full();
                }
            }
        }
        hurried
    }

    #[test]
    fn sessions_that_wait_for_each_other_hurry() {
        for sessions in [1, 4, 40, 1_000] {
            let hurried = share(sessions, 40, [260, 180], &|_| false);
            assert!(hurried.iter().all(|&blocks| blocks >= 24), "{hurried:?}");
        }
    }

    #[test]
    fn a_session_whose_link_is_full_does_not_hurry_for_others() {
        let hurried = share(4, 100, [260, 180], &|nth| nth == 2);
        assert_eq!(hurried[2], 0);
        assert!([0, 1, 3].iter().all(|&nth| hurried[nth] > 80), "{hurried:?}");
    }

    #[test]
    fn a_thread_with_time_left_does_not_hurry() {
        let (_, mut now) = start();
        let thread = ThreadLoad::default();
        let mut paces: Vec<Pace> = (0..8).map(|_| Pace::default()).collect();
        paces.iter_mut().for_each(|pace| pace.share(thread.clone()));
        let mut hurried = 0;
        for _ in 0..100 {
            hurried +=
                paces.iter_mut().map(|pace| send(pace, &mut now, 1, [260, 180], 600)).sum::<u32>();
        }
        assert_eq!(hurried, 0);
    }

    #[test]
    fn without_a_clock_that_goes_on_it_never_hurries() {
        let (mut pace, mut now) = start();
        assert_eq!(send(&mut pace, &mut now, 100, [0, 0], 0), 0);
    }
}
