//! Kinds of worlds: what may go wrong in them, and what is expected.

use crate::dice::Dice;
use oncewire_session::Ended;

/// Kinds of worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Nothing fails.
    Clean,
    /// Transports are lost or stall now and then.
    Lossy,
    /// Transports hardly ever last.
    Storm,
    /// Logs of 1 MiB under content many times larger, with losses.
    TinyLog,
    /// Frames are corrupted and repeated in flight.
    Corrupt,
    /// Log limits change, and transports are lost.
    Shrink,
    /// One end or the other restarts and loses its logs.
    Restart,
    /// One end or the other restarts, and sometimes keeps its logs.
    RestartWarm,
    /// The same, but the server never keeps its logs.
    RestartHalfWarm,
    /// Three sessions, one after the other, each with the logs of the one before.
    Generations,
    /// Ends with disks are killed, one or both.
    Crash,
    /// The same, with logs of 1 MiB under content many times larger.
    CrashTinyLog,
    /// The same, with disks that keep far more than memory: they are slow, fail and hang.
    Disks,
    /// All faults at once.
    Everything,
}

impl Profile {
    pub(crate) fn tiny_log(self) -> bool {
        matches!(self, Profile::TinyLog | Profile::CrashTinyLog | Profile::Disks)
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
        matches!(
            self,
            Profile::Restart
                | Profile::RestartWarm
                | Profile::RestartHalfWarm
                | Profile::Crash
                | Profile::CrashTinyLog
                | Profile::Disks
                | Profile::Everything
        )
    }

    /// Ends are killed, and go on with what is on disk.
    pub(crate) fn crashes(self) -> bool {
        matches!(self, Profile::Crash | Profile::CrashTinyLog | Profile::Disks)
    }

    /// Bytes of each log that an end can read from its disk.
    pub(crate) fn stored(self) -> u64 {
        if self == Profile::Disks { 64 << 20 } else { 0 }
    }

    /// Ends may lose a frame to their disks.
    pub(crate) fn fails_frames(self) -> bool {
        self.corrupts() || self == Profile::Disks
    }

    /// Which ends have a store: both as a rule.
    pub(crate) fn stores(self, dice: &mut Dice) -> [bool; 2] {
        match self {
            Profile::Crash | Profile::CrashTinyLog | Profile::Disks => {
                [!dice.one_in(6), !dice.one_in(6)]
            }
            _ => [false; 2],
        }
    }

    pub(crate) fn keeps_logs(self, end: usize) -> bool {
        match self {
            Profile::RestartWarm
            | Profile::Generations
            | Profile::Crash
            | Profile::Disks
            | Profile::Everything => true,
            Profile::RestartHalfWarm => end == 0,
            _ => false,
        }
    }

    /// How many sessions carry the flows, one after the other.
    pub(crate) fn generations(self) -> usize {
        if self == Profile::Generations { 3 } else { 1 }
    }

    /// Whether every session after the first must continue the logs of the one before.
    pub(crate) fn warm_for_sure(self) -> bool {
        self == Profile::Generations
    }

    /// Milliseconds until the next fault.
    pub(crate) fn fault_gap(self, dice: &mut Dice) -> u64 {
        match self {
            Profile::Storm => dice.within(1..300),
            _ if self.restarts() => dice.within(300..3000),
            _ => dice.within(50..2000),
        }
    }

    /// Whether a session may end for this reason.
    pub(crate) fn may_end(self, why: &Ended, _generation: usize) -> bool {
        match why {
            Ended::Closed => self.restarts() || self == Profile::Generations,
            Ended::Unknown => self.restarts() || self == Profile::Storm || self.corrupts(),
            // A lane may be down for the whole grace time.
            Ended::GraceOver(_) => self.restarts() || self == Profile::Storm,
            // After a corrupted length, the decoder reads messages from the middle of others.
            Ended::Violation(_) | Ended::Accused(_) | Ended::TooManyFailures(_) => self.corrupts(),
            _ => false,
        }
    }
}
