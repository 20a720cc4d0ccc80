//! What happens in a world: its sizes, its flows, and its faults with their times.

use crate::content::Pool;
use crate::dice::Dice;
use crate::profile::Profile;

/// Microseconds since the world began.
pub(crate) type Time = u64;

pub(crate) const MS: Time = 1000;
pub(crate) const SECOND: Time = 1000 * MS;

/// The indexes of the two ends.
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// Everything that a world is made from.
pub(crate) struct Script {
    /// How sessions may end, and what is expected of them.
    pub(crate) profile: Profile,
    /// Which ends store their logs.
    pub(crate) stores: [bool; 2],
    pub(crate) lanes: usize,
    /// Log limit of each end, in bytes.
    pub(crate) logs: [u64; 2],
    pub(crate) max_flows: u64,
    /// Flows are of this many isolation domains in turn; with one, content is shared.
    pub(crate) domains: usize,
    /// Entropy contexts of each lane, at each end.
    pub(crate) contexts: [usize; 2],
    /// One-way delay of each lane's transports.
    pub(crate) delays: Vec<Time>,
    /// Bytes that successive transports hold per direction; the dice decide for those beyond.
    pub(crate) windows: Vec<usize>,
    pub(crate) flows: Vec<FlowScript>,
    pub(crate) faults: Vec<(Time, Fault)>,
    /// One in this many writes is corrupted, if the profile corrupts.
    pub(crate) corruption_rate: usize,
    /// When faults are over. Everything must get done after that.
    pub(crate) calm_at: Time,
    /// For whatever the script leaves open.
    pub(crate) dice: Dice,
}

/// A flow.
pub(crate) struct FlowScript {
    pub(crate) opener: usize,
    /// When its application opens it.
    pub(crate) at: Time,
    /// By sending end.
    pub(crate) halves: [HalfScript; 2],
    /// The other end refuses it.
    pub(crate) refused: bool,
    /// An end resets it at a time.
    pub(crate) reset: Option<(Time, usize)>,
}

/// What one end of a flow sends, and how the other end reads it.
#[derive(Clone, Default)]
pub(crate) struct HalfScript {
    pub(crate) content: Vec<u8>,
    /// Bytes per write.
    pub(crate) piece: usize,
    pub(crate) write_gap: Time,
    pub(crate) read_gap: Time,
    /// Neither the writer nor the reader does anything before this.
    pub(crate) stalled_until: Time,
    /// The writer starts when the other half has ended.
    pub(crate) after: bool,
}

/// Something goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A lane's transport is cut: what is in flight is lost, and each end notices in its own time.
    Cut { lane: usize },
    /// One direction of a lane's transport silently delivers nothing more.
    Stall { lane: usize, sender: usize },
    /// The first frame that an end sends is corrupted, on each of its next transports.
    Corrupt { sender: usize, transports: usize },
    /// An end limits its logs.
    Limit { end: usize, log: u64 },
    /// An end gives up its logs, if nothing is in flight.
    Release { end: usize },
    /// An end is restarted; it may keep its logs.
    Restart { end: usize, keep_logs: bool },
    /// Ends are killed.
    Crash { ends: [bool; 2] },
    /// An end closes its session.
    Close { end: usize },
}

impl Script {
    /// A script from a profile and a seed.
    pub(crate) fn generate(profile: Profile, seed: u64) -> Script {
        let mut dice = Dice::new(seed ^ (profile as u64) << 56);
        let dice_ref = &mut dice;
        let lanes = if dice_ref.one_in(3) { 1 } else { 1 + dice_ref.below(4) };
        let tiny = profile.tiny_log();
        let mut log = || if tiny { 1 << 20 } else { (1u64 << 20) + dice_ref.within(0..3 << 20) };
        let logs = [log(), log()];
        let mut delay = |most| MS / 10 + dice_ref.within(0..most) * MS;
        let delays = [30, 300, 30, 10, 30, 300, 30, 30].into_iter().map(&mut delay).collect();
        let (documents, len) =
            (1 + dice_ref.below(4), 1 + dice_ref.below(if tiny { 400_000 } else { 120_000 }));
        let pool = Pool::new(dice_ref, documents, len);
        let many = dice_ref.one_in(12);
        let count = if many { 100 + dice_ref.below(300) } else { 1 + dice_ref.below(12) };
        let most = match (many, tiny) {
            (true, _) => 3000,
            (false, true) => 600_000,
            (false, false) => 150_000,
        };
        let spread = 1 + dice_ref.within(0..8) * SECOND;
        let calm_at = spread + 2 * SECOND;
        let max_flows = if dice_ref.one_in(4) { 4 + dice_ref.within(0..40) } else { 1000 };
        let domains = [1, 1, 2, 5][dice_ref.below(4)];
        let contexts = [1 + dice_ref.below(4), 1 + dice_ref.below(4)];
        let corruption_rate = [2, 4, 20, 60][dice_ref.below(4)];
        let flows =
            (0..count).map(|_| FlowScript::generate(dice_ref, &pool, most, spread, tiny)).collect();
        let mut faults = Vec::new();
        let mut at = 50 * MS;
        while profile.has_faults() && at < calm_at {
            faults.extend(Fault::generate(dice_ref, profile, lanes).map(|fault| (at, fault)));
            at += profile.fault_gap(dice_ref) * MS;
        }
        let stores = profile.stores(dice_ref);
        Script {
            profile,
            stores,
            lanes,
            logs,
            max_flows,
            domains,
            contexts,
            delays,
            windows: Vec::new(),
            flows,
            faults,
            corruption_rate,
            calm_at,
            dice,
        }
    }
}

impl FlowScript {
    fn generate(dice: &mut Dice, pool: &Pool, most: usize, spread: Time, tiny: bool) -> FlowScript {
        let opener = dice.below(2);
        let mut halves = [0, 1].map(|_| HalfScript::generate(dice, pool, most, spread, tiny));
        if dice.one_in(3) {
            halves[dice.below(2)].after = true;
        }
        let refused = dice.one_in(20);
        let at = dice.within(0..spread);
        let reset = dice.one_in(10).then(|| (at + dice.within(0..2 * spread), dice.below(2)));
        FlowScript { opener, at, halves, refused, reset }
    }
}

impl HalfScript {
    fn generate(dice: &mut Dice, pool: &Pool, most: usize, spread: Time, tiny: bool) -> HalfScript {
        let mut content = pool.content(dice, most, tiny);
        let piece = match dice.below(6) {
            0 => {
                content.truncate(2000);
                1
            }
            1 => 1 + dice.below(100),
            _ => 1 + dice.below(100_000),
        };
        // Small pieces quickly, or larger ones slowly: either is done in time.
        let write_gap = if dice.one_in(2) { 0 } else { dice.within(0..20 * MS) };
        let read_gap = if dice.one_in(2) { 0 } else { dice.within(0..50 * MS) };
        let least = content.len() / if write_gap > 0 { 1000 } else { 4000 };
        let stalled_until = if dice.one_in(8) { dice.within(0..3 * spread) } else { 0 };
        HalfScript {
            content,
            piece: piece.max(least),
            write_gap,
            read_gap,
            stalled_until,
            after: false,
        }
    }
}

impl Fault {
    /// What happens next, if the profile has it.
    fn generate(dice: &mut Dice, profile: Profile, lanes: usize) -> Option<Fault> {
        let (end, lane) = (dice.below(2), dice.below(lanes));
        Some(match dice.below(8) {
            0..=1 if profile.crashes() => {
                let both = dice.one_in(3);
                Fault::Crash { ends: [both || end == 0, both || end == 1] }
            }
            0..=1 if profile.restarts() => {
                Fault::Restart { end, keep_logs: profile.keeps_logs(end) && dice.one_in(2) }
            }
            2 if profile.restarts() => Fault::Close { end },
            0..=4 if profile.loses_lanes() => Fault::Cut { lane },
            5 if profile.loses_lanes() => Fault::Stall { lane, sender: end },
            6 if profile.shrinks() => {
                Fault::Limit { end, log: (1 << 20) + dice.within(0..6 << 20) }
            }
            7 if profile.shrinks() => Fault::Release { end },
            _ => return None,
        })
    }
}
