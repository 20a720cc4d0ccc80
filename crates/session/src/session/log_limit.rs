//! The largest log that this end keeps in each direction, and whether the peer follows it.

use super::*;

/// What follows when the peer had time enough to begin a smaller log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitCheck {
    /// Nothing.
    Nothing,
    /// This end drops what it received, so that the peer must begin again.
    Discard,
    /// It had to be done before: the peer does not mean to follow.
    Violated,
}

/// A limit that the peer has yet to follow.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// When to check.
    at: Instant,
    /// The acknowledged offset when the limit was sent, and at the last check.
    sent_at: u64,
    progress: u64,
}

/// The limit now, and its past.
#[derive(Debug)]
pub(super) struct LogLimit {
    /// Largest log that this end accepts now, in bytes: see [`Session::set_log_limit`].
    now: u64,
    /// The largest limit that was ever set.
    largest: u64,
    /// LIMIT is to be sent.
    unsent: bool,
    /// The peer's log that has to go whatever its size.
    asked: Option<Epoch>,
    /// LIMIT of 0 is to be sent, which says that.
    asks: bool,
    /// Set while the peer has to begin a log within the limit.
    due: Option<Due>,
    /// The peer did not follow a limit in time, and lost its log.
    enforced: bool,
}

impl LogLimit {
    pub(super) fn new(log: u64) -> LogLimit {
        LogLimit {
            now: log,
            largest: log,
            unsent: false,
            asked: None,
            asks: false,
            due: None,
            enforced: false,
        }
    }

    /// The limit now, in bytes.
    pub(super) fn get(&self) -> u64 {
        self.now
    }

    /// The largest limit that was ever set.
    pub(super) fn largest(&self) -> u64 {
        self.largest
    }

    /// Sets the limit. Returns whether it changes.
    fn set(&mut self, log: u64) -> bool {
        self.largest = self.largest.max(log);
        std::mem::replace(&mut self.now, log) != log
    }

    /// LIMIT is to be sent.
    pub(super) fn announce(&mut self) {
        self.unsent = true;
    }

    /// The limit, if LIMIT is to be sent. It is sent then.
    pub(super) fn take_unsent(&mut self) -> Option<u64> {
        std::mem::take(&mut self.unsent).then_some(self.now)
    }

    /// The peer has to begin another log instead of this one.
    fn ask(&mut self, log: Epoch) {
        (self.asked, self.asks) = (Some(log), true);
    }

    /// Whether the peer has yet to begin another log.
    fn is_asked(&self, incoming: &Incoming) -> bool {
        self.asked == Some(incoming.epoch())
    }

    /// Whether LIMIT of 0 is to be sent. It is sent then.
    pub(super) fn take_ask(&mut self) -> bool {
        std::mem::take(&mut self.asks)
    }

    /// Whether the peer's log must give way to another one.
    fn objects(&self, incoming: &Incoming) -> bool {
        incoming.capacity() > self.now || self.is_asked(incoming)
    }

    /// When to [`check`](LogLimit::check).
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.map(|due| due.at)
    }

    /// The peer has `patience` to begin a log within the limit, if its log has to give way.
    pub(super) fn start_timer(&mut self, incoming: &Incoming, patience: Duration, now: Instant) {
        let acknowledged = incoming.acknowledged();
        let due = Due { at: now + patience, sent_at: acknowledged, progress: acknowledged };
        self.due = self.objects(incoming).then(|| self.due.unwrap_or(due));
    }

    /// A peer that got a smaller limit begins a log within it as soon as nothing of the old one is
    /// in flight. If it stands still, or sends more than a whole log after the limit, it does not
    /// mean to. Without a transport it has more time.
    fn check(
        &mut self,
        incoming: &Incoming,
        is_up: bool,
        patience: Duration,
        now: Instant,
    ) -> LimitCheck {
        let objects = self.objects(incoming);
        let Some(due) = self.due.as_mut().filter(|due| now >= due.at) else {
            return LimitCheck::Nothing;
        };
        let (acknowledged, capacity) = (incoming.acknowledged(), incoming.capacity());
        let is_empty = incoming.filled() == 0;
        let progress =
            acknowledged > due.progress && acknowledged - due.sent_at.min(acknowledged) <= capacity;
        if !objects || is_empty {
            self.due = None;
            LimitCheck::Nothing
        } else if !is_up || progress {
            (due.progress, due.at) = (acknowledged, now + patience);
            LimitCheck::Nothing
        } else if std::mem::replace(&mut self.enforced, true) {
            // Once may be a lane that was lost at the wrong moment; twice is not.
            LimitCheck::Violated
        } else {
            self.due = None;
            LimitCheck::Discard
        }
    }
}

impl Session {
    /// Sets the largest log that this end keeps in each direction from now on, in bytes. A log that
    /// is larger begins again, empty, as soon as nothing of it is in flight. So does a log that is
    /// full, if it may then be at least twice as large. Other logs stay as they are. A log that both
    /// ends store goes on, with empty memory: what is stored stays.
    ///
    /// # Errors
    /// [`ConfigError::Log`] unless `log` is [`SMALLEST_LOG`] to
    /// [`LARGEST_LOG`](crate::LARGEST_LOG).
    pub fn set_log_limit(&mut self, log: u64, now: Instant) -> Result<(), ConfigError> {
        check_log(log)?;
        if self.ended.is_none() && self.log_limit.set(log) {
            self.incoming.raise_limit(log);
            // Even before the handshake is complete: the HELLO that was sent may have named another
            // limit.
            self.log_limit.announce();
            self.start_limit_timer(now);
            self.note_memory();
            self.wake_where(|_| true);
        }
        Ok(())
    }

    /// Gives up the logs of both directions, and their memory, if nothing that this end sent is in
    /// flight: its own at once, and that of the peer when the peer has begun an empty one, which it
    /// does as soon as nothing of the old one is in flight. Logs that both ends store go on later,
    /// with empty memory: what is stored stays. Returns whether it did. The limit stays as it is.
    pub fn release_logs(&mut self, now: Instant) -> bool {
        let is_quiet = self.can_release_logs();
        if is_quiet {
            self.outgoing.release();
            if self.incoming.is_used() && !self.is_releasing() {
                self.log_limit.ask(self.incoming.epoch());
                self.start_limit_timer(now);
                self.wake_where(|_| true);
            }
            self.note_memory();
        }
        is_quiet
    }

    /// Whether [`Session::release_logs`] would do so now.
    pub fn can_release_logs(&self) -> bool {
        self.agreed.is_some()
            && self.ended.is_none()
            && !self.outgoing.has_unacknowledged()
            && self.is_acknowledged()
    }

    /// Whether the peer has yet to begin another log: see [`Session::release_logs`].
    pub fn is_releasing(&self) -> bool {
        self.log_limit.is_asked(&self.incoming)
    }

    /// The peer has `dead_after` to begin a log within the limit, if its log is larger.
    pub(super) fn start_limit_timer(&mut self, now: Instant) {
        self.log_limit.start_timer(&self.incoming, self.config.dead_after, now);
    }

    /// Does what is due if the peer has not followed a limit in time.
    pub(super) fn enforce_limit(&mut self, now: Instant) {
        let is_up = self.lanes.iter().any(Lane::is_up);
        match self.log_limit.check(&self.incoming, is_up, self.config.dead_after, now) {
            LimitCheck::Nothing => {}
            LimitCheck::Violated => self.violation(Violation::Bounds {
                what: "a log",
                value: self.incoming.capacity(),
                limit: self.log_limit.get(),
            }),
            LimitCheck::Discard => {
                self.incoming.discard();
                self.drop_all(close::LOG_LOST, "the log is larger than the limit");
                self.note_memory();
            }
        }
    }
}
