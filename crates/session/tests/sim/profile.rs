//! What goes wrong in a world.

use crate::rng::Rng;
use oncewire_session::Ended;

/// Kinds of worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Nothing fails.
    Clean,
    /// Transports are lost, or half dead, now and then.
    Lossy,
    /// They hardly ever stay.
    Storm,
    /// Logs of 1 MiB under content many times larger, with losses.
    TinyLog,
    /// Frames are harmed and repeated on the way.
    Corrupt,
    /// Logs are shrunk while all goes on, and transports are lost.
    Shrink,
    /// One end or the other is restarted, its logs gone.
    Restart,
    /// Sessions end, and begin again with the logs of both ends.
    RestartWarm,
    /// The same, and one end never keeps its logs.
    RestartHalfWarm,
    /// Session after session in order, with the logs of both ends: every one starts warm.
    Generations,
    /// All of these at once.
    Everything,
}

impl Profile {
    pub(crate) const ALL: [Profile; 11] = [
        Profile::Clean,
        Profile::Lossy,
        Profile::Storm,
        Profile::TinyLog,
        Profile::Corrupt,
        Profile::Shrink,
        Profile::Restart,
        Profile::RestartWarm,
        Profile::RestartHalfWarm,
        Profile::Generations,
        Profile::Everything,
    ];

    pub(crate) fn named(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| format!("{profile:?}").eq_ignore_ascii_case(name))
    }

    pub(crate) fn tiny_log(self) -> bool {
        self == Profile::TinyLog
    }

    pub(crate) fn has_faults(self) -> bool {
        !matches!(self, Profile::Clean)
    }

    pub(crate) fn loses_lanes(self) -> bool {
        !matches!(self, Profile::Clean | Profile::Generations)
    }

    pub(crate) fn corrupts(self) -> bool {
        matches!(self, Profile::Corrupt | Profile::Everything)
    }

    pub(crate) fn shrinks(self) -> bool {
        matches!(self, Profile::Shrink | Profile::Storm | Profile::Everything)
    }

    pub(crate) fn restarts(self) -> bool {
        matches!(self, Profile::Restart | Profile::RestartWarm | Profile::RestartHalfWarm | Profile::Everything)
    }

    pub(crate) fn keeps_logs(self, end: usize) -> bool {
        match self {
            Profile::RestartWarm | Profile::Generations | Profile::Everything => true,
            Profile::RestartHalfWarm => end == 0,
            _ => false,
        }
    }

    /// Sessions that are played through.
    pub(crate) fn generations(self) -> usize {
        if self == Profile::Generations { 3 } else { 1 }
    }

    /// Every session after the first starts with the logs of the one before.
    pub(crate) fn warm_for_sure(self) -> bool {
        self == Profile::Generations
    }

    /// Milliseconds until the next fault.
    pub(crate) fn fault_gap(self, rng: &mut Rng) -> u64 {
        match self {
            Profile::Storm => rng.within(1..300),
            _ if self.restarts() => rng.within(300..3000),
            _ => rng.within(50..2000),
        }
    }

    /// Whether a session may end so.
    pub(crate) fn may_end(self, why: &Ended, _generation: usize) -> bool {
        match why {
            Ended::Closed => self.restarts() || self == Profile::Generations,
            Ended::Unknown => self.restarts() || self == Profile::Storm || self.corrupts(),
            // A lane may be down for all of the grace time.
            Ended::GraceOver(_) => self.restarts() || self == Profile::Storm,
            // A harmed length swallows messages, and what follows is read from the middle.
            Ended::Violation(_) | Ended::Accused(_) | Ended::TooManyFailures(_) => self.corrupts(),
            _ => false,
        }
    }
}
