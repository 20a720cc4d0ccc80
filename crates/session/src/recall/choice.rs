//! Whether to read content from disk, or to send it.
//!
//! Both are measured: how long new content takes ([`super::link`]), how long a look at the
//! disk takes until both ends have what was found, and how long a flow takes from one look to the
//! next, with everything that is to be done for that. Where sending is faster, content is sent, and
//! read now and then without waiting for that, to find out whether the disk is faster by now. The
//! first read is waited for as long as sending would take: that costs at most twice the time of the
//! better way, whichever that is (as for renting skis, Karlin et al., 1988).

use super::link::{Link, Sent};
use std::time::{Duration, Instant};

/// What reading content back from disk is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreFor {
    /// Saving bytes where that takes no longer than to send them.
    #[default]
    Time,
    /// Saving bytes, however long that takes.
    Bytes,
}

/// Content of a look, in bytes.
const LOOK: u64 = super::LOOK as u64;
/// Once content is sent, the disk has to be so much faster than the link: it may be slower once
/// more is read.
const CLEARLY: f64 = 0.7;
/// Looks count for no more than so many times what sending takes: one that hangs is no slow disk.
const OUTLIER: u32 = 4;
/// How often the disk is tried while it is slower: at first, and after it was so again and again.
const SOON: Duration = Duration::from_millis(250);
const LATER: Duration = Duration::from_secs(8);
/// A flow that reads from disk may take so much longer than one that sends, on average.
const SLOWER: f64 = 1.05;
/// No single time counts as more.
const OUTLYING: f64 = 2.0;
/// The first looks after content was sent wait for that, too.
const FIRST: u32 = 2;
/// Looks in a row with which a disk has shown that it is faster.
const FAITHFUL: u32 = 64;
/// A rate of the link is relied on for so long. Then some content is sent that the disk has, once
/// flows have waited for the disk for [`WAITED`], and so many times what that takes.
const BELIEVED: Duration = Duration::from_secs(60);
const WAITED: Duration = Duration::from_millis(100);
const SHARE: u32 = 20;
/// A disk that takes no longer for a look is not compared with a link that nothing is known of.
const QUICK: Duration = Duration::from_micros(500);
/// Most content that is sent for that, in bytes.
const MOST_TRIAL: u64 = 2 << 20;

/// What to do with content that the disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Read it. If it is not there by then, send it.
    Recall(Option<Instant>),
    /// Send it.
    Send,
    /// Send it, and read it to know how long that takes.
    Try,
}

#[derive(Debug)]
pub(crate) struct Choice {
    goal: StoreFor,
    link: Link,
    /// How long a look takes, smoothed.
    takes: Option<Duration>,
    /// How long a flow took from look to look, in parts of what sending would have taken, smoothed.
    share: Option<f64>,
    /// The last content was sent.
    sends: bool,
    /// Looks in a row that were not.
    recalled: u32,
    /// When the disk was tried last, and how long after that it is tried again.
    tried: Option<Instant>,
    pause: Duration,
    /// Until when content is sent because flows that read it were slower, and how long the next time.
    rests: Option<Instant>,
    rest: Duration,
    /// How long flows waited since the link was measured, or tried.
    waited: Duration,
    patience: Duration,
    /// Content that is sent to measure the link: what is left of that, and how much the next time.
    left: u64,
    trial: u64,
}

impl Choice {
    pub(super) fn new(goal: StoreFor) -> Choice {
        Choice {
            goal,
            link: Link::default(),
            takes: None,
            share: None,
            sends: false,
            recalled: 0,
            tried: None,
            pause: SOON,
            rests: None,
            rest: SOON,
            waited: Duration::ZERO,
            patience: WAITED,
            left: 0,
            trial: LOOK,
        }
    }

    pub(super) fn goal(&self) -> StoreFor {
        self.goal
    }

    /// A block of content was written that ends in the log at `end`.
    pub(crate) fn wrote(&mut self, end: u64, block: Sent, now: Instant) {
        self.link.wrote(end, block, now);
    }

    /// There is nothing more to send now.
    pub(crate) fn drained(&mut self) {
        self.link.drained();
    }

    /// The peer has everything below `offset` of the log.
    pub(crate) fn acknowledged(&mut self, offset: u64, rtt: Duration, now: Instant) {
        let before = self.link.measured();
        self.link.acknowledged(offset, rtt, now);
        if self.link.measured() != before {
            (self.left, self.trial) = (0, LOOK);
            (self.waited, self.patience) = (Duration::ZERO, WAITED);
        }
    }

    /// A flow has content to send, and no credit.
    pub(crate) fn stalled(&mut self, now: Instant) {
        self.link.stalled(now);
    }

    /// What was written is not in this log, or did not arrive.
    pub(crate) fn forget_blocks(&mut self) {
        self.link.forget_blocks();
    }

    /// `len` bytes of a flow's content lie on disk, and so many bytes of other flows would be sent in
    /// turn with them.
    pub(super) fn choose(&mut self, len: u64, others: u64, now: Instant) -> Way {
        if self.goal == StoreFor::Bytes {
            return Way::Recall(None);
        }
        if self.left > 0 || self.wants_trial(now) {
            self.left = self.left.saturating_sub(len);
            return Way::Send;
        }
        let Some(sending) = self.link.time(len + others) else { return Way::Recall(None) };
        let Some(takes) = self.takes else { return Way::Recall(Some(now + sending)) };
        let limit = if self.sends { sending.mul_f64(CLEARLY) } else { sending };
        if takes <= limit && self.share.is_some_and(|share| share > SLOWER) {
            self.rests = Some(now + self.rest);
            self.rest = (self.rest * 2).min(LATER);
        }
        if takes <= limit && self.rests.is_none_or(|until| until <= now) {
            self.sends = false;
            self.recalled += 1;
            if self.recalled >= FAITHFUL {
                (self.pause, self.rest) = (SOON, SOON);
            }
            // It is faster as a rule.
            return Way::Recall(Some(now + sending * 2));
        }
        if !std::mem::replace(&mut self.sends, true) {
            // It was faster for a moment only.
            self.pause = if self.recalled < FAITHFUL { self.longer() } else { SOON };
            self.tried = Some(now);
        }
        (self.recalled, self.share) = (0, None);
        if self.tried.is_some_and(|tried| now < tried + self.pause) {
            return Way::Send;
        }
        self.tried = Some(now);
        Way::Try
    }

    fn longer(&self) -> Duration {
        (self.pause * 2).min(LATER)
    }

    /// A look took so long. Flows have waited for that, or it was a try.
    pub(super) fn took(&mut self, took: Duration, is_try: bool) {
        let sending = self.link.time(LOOK);
        let took = sending.map_or(took, |sending| took.min(sending * OUTLIER));
        let gain = if is_try { 2 } else { 8 };
        let takes = self.takes.map_or(took, |takes| (takes * (gain - 1) + took) / gain);
        self.takes = Some(takes);
        if is_try {
            let is_slow = sending.is_none_or(|sending| took > sending.mul_f64(CLEARLY));
            self.pause = if is_slow { self.longer() } else { SOON };
        } else {
            self.waited += took;
        }
    }

    /// A flow had read content, `len` bytes were looked up, and the next are so long after that. So
    /// many bytes of other flows would have been sent in turn with them.
    pub(super) fn went_on(&mut self, len: u64, others: u64, took: Duration) {
        let Some(sending) = self.link.time(len + others).filter(|_| self.recalled > FIRST) else {
            return;
        };
        let share = took.as_secs_f64() / sending.as_secs_f64().max(1e-9);
        let share = share.min(OUTLYING);
        self.share = Some(self.share.map_or(share, |before| (before * 7.0 + share) / 8.0));
    }

    /// A flow has waited for the disk as long as it does.
    pub(super) fn is_late(&mut self) {
        if let Some(sending) = self.link.time(LOOK) {
            self.took(sending * OUTLIER, false);
        }
    }

    /// Whether content is to be sent because not enough is known of the link. Begins that.
    fn wants_trial(&mut self, now: Instant) -> bool {
        let is_known =
            self.link.measured().is_some_and(|at| now.saturating_duration_since(at) < BELIEVED);
        let is_slow = self.takes.is_some_and(|takes| takes > QUICK);
        // A trial takes a small part of the time.
        let costs = self.link.time(self.trial).unwrap_or_default();
        if is_known || !is_slow || self.waited < self.patience.max(costs * SHARE) {
            return false;
        }
        (self.left, self.waited) = (self.trial, Duration::ZERO);
        self.trial = (self.trial * 2).min(MOST_TRIAL);
        self.patience = (self.patience * 2).min(BELIEVED);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_codec::DEFAULT_BLOCK;

    const MS: Duration = Duration::from_millis(1);
    const BLOCK: u64 = DEFAULT_BLOCK as u64;

    /// A choice where the link was measured: so many milliseconds for a look.
    fn known(ms: u32, now: &mut Instant) -> Choice {
        let mut choice = Choice::new(StoreFor::Time);
        send(&mut choice, ms, now);
        choice
    }

    fn send(choice: &mut Choice, ms: u32, now: &mut Instant) {
        let start = choice.link.measured();
        let block = Sent { content: BLOCK, new: BLOCK, wire: BLOCK };
        choice.wrote(BLOCK, block, *now);
        for nth in 1.. {
            choice.wrote((nth + 1) * BLOCK, block, *now);
            *now += MS * ms / 2;
            choice.acknowledged(nth * BLOCK, MS, *now);
            if choice.link.measured() != start {
                break;
            }
        }
        choice.forget_blocks();
    }

    #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn nothing_is_sent_where_bytes_count_or_the_link_is_slow_or_unknown() {
        let mut now = start();
        let mut choice = Choice::new(StoreFor::Bytes);
        for choice in [&mut choice, &mut Choice::new(StoreFor::Time)] {
            assert_eq!(choice.choose(LOOK, 0, now), Way::Recall(None));
        }
        send(&mut choice, 2, &mut now);
        choice.took(MS * 200, false);
        assert_eq!(choice.choose(LOOK, 0, now), Way::Recall(None));
        let mut choice = known(400, &mut now);
        for nth in 0..1000u32 {
            let Way::Recall(Some(until)) = choice.choose(LOOK, 0, now) else { panic!("{nth}") };
            assert!(until >= now + MS * 300, "{nth}");
            choice.took(MS * (nth % 250), false);
            now += MS * 50;
        }
    }

    #[test]
    fn what_is_known_of_neither_costs_at_most_as_much_again() {
        let mut now = start();
        let mut choice = known(10, &mut now);
        let Way::Recall(Some(until)) = choice.choose(LOOK, 0, now) else { panic!() };
        assert!((MS * 8..MS * 12).contains(&(until - now)), "{:?}", until - now);
        let Way::Recall(Some(later)) = choice.choose(LOOK, LOOK, now) else { panic!() };
        assert!((MS * 16..MS * 24).contains(&(later - now)), "others send, too");
        choice.took(MS * 100, false);
        assert_eq!(choice.choose(LOOK, 0, now), Way::Send);
        now += LATER;
        assert_eq!(choice.choose(LOOK, 0, now), Way::Try);
        assert_eq!(choice.choose(LOOK, 0, now), Way::Send);
    }

    #[test]
    fn a_slow_disk_is_tried_rarely_and_a_fast_one_used_soon() {
        let mut now = start();
        let mut choice = known(10, &mut now);
        choice.took(MS * 100, false);
        let mut tries = 0;
        for _ in 0..6000 {
            match choice.choose(LOOK, 0, now) {
                Way::Try => {
                    tries += 1;
                    choice.took(MS * 100, true);
                }
                way => assert_eq!(way, Way::Send),
            }
            now += MS * 10;
        }
        assert!((7..16).contains(&tries), "{tries} in a minute");
        let fast = now;
        while let Way::Send | Way::Try = choice.choose(LOOK, 0, now) {
            if choice.tried == Some(now) {
                choice.took(MS, true);
            }
            now += MS * 10;
            assert!(now - fast < LATER + Duration::from_secs(1), "it is not used again");
        }
    }

    #[test]
    fn a_read_that_hangs_is_no_slow_disk() {
        let mut now = start();
        let mut choice = known(10, &mut now);
        for nth in 1..1000 {
            assert!(matches!(choice.choose(LOOK, 0, now), Way::Recall(_)), "{nth}");
            choice.took(if nth % 50 == 0 { MS * 250 } else { MS }, false);
            now += MS;
        }
    }

    /// Encoding what was read, and everything else that is done for it, takes longer than sending.
    #[test]
    fn a_disk_that_is_fast_and_a_flow_that_is_slow_do_not_go_together() {
        let mut now = start();
        let mut choice = known(10, &mut now);
        choice.took(MS, false);
        let (mut read, mut sent) = (0, 0);
        for _ in 0..6000 {
            match choice.choose(LOOK, 0, now) {
                Way::Recall(_) => {
                    read += 1;
                    choice.took(MS, false);
                    choice.went_on(LOOK, 0, MS * 14);
                    now += MS * 14;
                }
                way => {
                    sent += 1;
                    choice.took(MS, way == Way::Try);
                    now += MS * 10;
                }
            }
        }
        assert!(sent > 5900 && read > 10, "{sent} sent, {read} read");
        let mut choice = known(10, &mut now);
        choice.took(MS, false);
        for nth in 0..1000 {
            assert!(matches!(choice.choose(LOOK, 0, now), Way::Recall(_)), "{nth}");
            choice.went_on(LOOK, 0, MS * if nth % 50 == 0 { 200 } else { 8 });
        }
    }

    /// After a restart, when everything that is sent lies on disk.
    #[test]
    fn a_link_that_is_not_known_is_tried_in_a_small_part_of_the_time() {
        let mut now = start();
        let mut choice = Choice::new(StoreFor::Time);
        let (mut sent, mut waited) = (0, Duration::ZERO);
        while waited < Duration::from_secs(100) {
            match choice.choose(LOOK, 0, now) {
                Way::Recall(None) => {
                    choice.took(MS * 20, false);
                    (now, waited) = (now + MS * 20, waited + MS * 20);
                }
                way => {
                    assert_eq!(way, Way::Send);
                    sent += LOOK;
                }
            }
        }
        assert!((LOOK..32 << 20).contains(&sent), "{sent} bytes of 640 MB, and nothing was told");
        // It is slow: a burst says so.
        let block = Sent { content: LOOK, new: LOOK, wire: LOOK };
        choice.wrote(LOOK, block, now);
        choice.drained();
        now += Duration::from_secs(4);
        choice.acknowledged(LOOK, MS, now);
        choice.left = 0;
        assert!(matches!(choice.choose(LOOK, 0, now), Way::Recall(Some(_))));
        // Or fast.
        send(&mut choice, 1, &mut now);
        assert!(matches!(choice.choose(LOOK, 0, now), Way::Send | Way::Try));
    }
}
