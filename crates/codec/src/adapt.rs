//! Adapting the encoder's work to a CPU budget.
//!
//! EndRE's fourth goal is to "*adapt* its use of CPU based on server load" (section 4), with the sampling period as the knob
//! (section 5.1). [`Controller`] does that: told after each block how much CPU time it took and what time it is, it says how
//! much [`Effort`] to spend on the next. It owns no clock and can be driven by a test.
//!
//! # The ladder
//!
//! EndRE has no entropy stage, and its cost falls with `p`. Ours takes most of the time on content that was never seen before,
//! and a larger `p` gives it more literals to code: with it, `p` = 1024 costs half as much *again* as `p` = 32. So the stage yields
//! first. Eight releases of Django, by file name, 472 MB of tar files in blocks of 64 KiB, with SAMPLEBYTE, one thread of a shared
//! virtual machine, by `examples/adapt.rs` (`docs/ALGORITHMS.md` has the same for the default sampler):
//!
//! | effort | ns/byte, new | sent | ns/byte, the same again | sent |
//! |---|---|---|---|---|
//! | `p` = 32, zstd 3 | 1.00 | 14.7 MB | 0.18 | 0.2 MB |
//! | `p` = 32, LZ4 | 0.62 | 23.0 MB | 0.18 | 0.2 MB |
//! | `p` = 32, no entropy stage | 0.49 | 40.9 MB | 0.18 | 0.2 MB |
//! | `p` = 128 | 0.39 | 67.5 MB | 0.18 | 0.2 MB |
//! | `p` = 512 | 0.30 | 169.9 MB | 0.18 | 0.2 MB |
//! | `p` = 1024 | 0.25 | 237.6 MB | 0.19 | 0.2 MB |
//! | passed literally | 0.13 | 472.3 MB | 0.13 | 472.3 MB |
//!
//! # What a change loses
//!
//! Effort is the encoder's business alone: frames say how they are coded, and a frame that uses no entropy context does not
//! move it, so the stage goes on later where it was. Content passed literally is in the log like all other and indexed like the
//! inside of a match, one marker in [`crate::matcher::INDEX_STEP`] bytes, so that its repeats can be found.
//! (The published form of max-match and chunk-match do not index it.)
//!
//! What was indexed at one period is found at another only where both chose the same marker. FIXED shares the markers of the
//! larger period if that is a multiple. SAMPLEBYTE chooses among the same bytes at every period; which of them depends on what
//! was skipped before, so some are shared, and a match grows from each. Percent matched of Django 4.0 after 4.0.10, each
//! encoded at one period (same program):
//!
//! | indexed at | sought at 32 | 128 | 512 | 1024 |
//! |---|---|---|---|---|
//! | 32 | 93.6 | 88.6 | 74.9 | 65.1 |
//! | 128 | 90.8 | 78.1 | 66.7 | 57.1 |
//! | 512 | 84.5 | 73.2 | 49.6 | 44.9 |
//! | 1024 | 81.0 | 69.2 | 50.5 | 35.3 |
//! | passed literally | 84.5 | 73.0 | 52.3 | 42.7 |
//!
//! So going to and fro costs no more than the coarser period itself does: a finer one at either end finds more than the coarser
//! at both, and somewhat less than the finer at both.

use crate::Entropy;
use crate::error::ConfigError;
use crate::params::check_period;
use std::fmt;
use std::time::Duration;

/// How much is done to a block. Comes from a [`Ladder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    period: usize,
    stage: Stage,
    search: bool,
}

/// What of the entropy stage is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The one that the encoder was built with.
    #[default]
    Full,
    /// LZ4 instead of zstd, and plain descriptors: half the time on new content.
    Lz4,
    /// None: literals as they are, plain descriptors.
    Off,
}

impl Stage {
    /// The stage to use where `configured` would be.
    pub(crate) fn limit(self, configured: Entropy) -> Entropy {
        match (self, configured) {
            (Stage::Full, configured) => configured,
            (Stage::Lz4, Entropy::Lz4 | Entropy::Zstd { .. }) => Entropy::Lz4,
            (Stage::Lz4, Entropy::None) | (Stage::Off, _) => Entropy::None,
        }
    }
}

impl Effort {
    /// Everything that the encoder was built for, at a period that was checked.
    pub(crate) fn full(period: usize) -> Effort {
        Effort { period, stage: Stage::Full, search: true }
    }

    pub(crate) fn with_period(self, period: usize) -> Effort {
        Effort { period, ..self }
    }

    /// Sampling period in bytes.
    pub fn period(self) -> usize {
        self.period
    }

    /// What of the entropy stage is used.
    pub fn stage(self) -> Stage {
        self.stage
    }

    /// Whether matches are looked for. If not, blocks are passed literally.
    pub fn search(self) -> bool {
        self.search
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.search, self.stage) {
            (false, _) => f.write_str("passed literally"),
            (true, Stage::Full) => write!(f, "p = {}", self.period),
            (true, Stage::Lz4) => write!(f, "p = {}, LZ4", self.period),
            (true, Stage::Off) => write!(f, "p = {}, no entropy stage", self.period),
        }
    }
}

/// Efforts from the dearest to the cheapest, one step at a time: LZ4 instead of zstd, no entropy stage, the period doubled up to
/// 1024, and last the block passed literally. The [module](self) says why in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(Vec<Effort>);

/// Largest sampling period on a ladder, in bytes: the largest there is.
const MAX_PERIOD: usize = 1024;

impl Ladder {
    /// The ladder of an encoder with the given period and entropy stage.
    ///
    /// # Errors
    /// [`ConfigError::Period`].
    pub fn new(period: usize, entropy: Entropy) -> Result<Ladder, ConfigError> {
        check_period(period)?;
        let full = Effort::full(period);
        let mut efforts = vec![full];
        if matches!(entropy, Entropy::Zstd { .. }) {
            efforts.push(Effort { stage: Stage::Lz4, ..full });
        }
        if entropy != Entropy::None {
            efforts.push(Effort { stage: Stage::Off, ..full });
        }
        let coarsest = efforts[efforts.len() - 1];
        let doubled = std::iter::successors(Some(period), |period| (*period < MAX_PERIOD).then(|| MAX_PERIOD.min(period * 2)));
        efforts.extend(doubled.skip(1).map(|period| coarsest.with_period(period)));
        efforts.push(Effort { period: MAX_PERIOD, stage: Stage::Off, search: false });
        Ok(Ladder(efforts))
    }

    /// The efforts, the dearest first. At least two.
    pub fn efforts(&self) -> &[Effort] {
        &self.0
    }

    /// Index of the cheapest.
    fn last(&self) -> usize {
        self.0.len() - 1
    }
}

/// A share of the time of one core, in thousandths of it: 250 is a quarter. With several threads it may be more than a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuShare(u32);

impl CpuShare {
    /// Most thousandths: 64 cores.
    pub const MAX: u32 = 64_000;

    /// A share of `thousandths` of one core, 1..=[`CpuShare::MAX`].
    ///
    /// # Errors
    /// [`ConfigError::CpuShare`].
    pub fn from_thousandths(thousandths: u32) -> Result<CpuShare, ConfigError> {
        if (1..=Self::MAX).contains(&thousandths) {
            Ok(CpuShare(thousandths))
        } else {
            Err(ConfigError::CpuShare { thousandths })
        }
    }

    /// In thousandths of one core.
    pub fn thousandths(self) -> u32 {
        self.0
    }

    /// As a fraction of one core.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// CPU time that is allowed in `time`, in [`Picoseconds`].
    fn of(self, time: Duration) -> Picoseconds {
        // A nanosecond has a thousand picoseconds, and a share a thousand parts.
        Picoseconds::try_from(time.as_nanos()).unwrap_or(Picoseconds::MAX).saturating_mul(self.0.into())
    }
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", f64::from(self.0) / 10.0)
    }
}

/// CPU time, signed: fine enough that a thousandth of a nanosecond of wall time is not lost.
type Picoseconds = i64;

fn picoseconds(time: Duration) -> Picoseconds {
    Picoseconds::try_from(time.as_nanos()).unwrap_or(Picoseconds::MAX).saturating_mul(1000)
}

/// The budget's token bucket holds the CPU time that is allowed in this wall time: so much may be spent at once after idling,
/// and so far may it be overdrawn before only the cheapest effort is left.
pub const DEPTH: Duration = Duration::from_millis(200);
/// How long there must be room in the budget before one step more is spent on blocks.
pub const HOLD: Duration = Duration::from_millis(500);
/// The same after steps that had to be taken back: doubled each time, up to this.
pub const MAX_HOLD: Duration = Duration::from_secs(8);

/// There is room in the budget if this much of it, in quarters, is not exceeded.
const ROOM_QUARTERS: i64 = 3;
/// A load that takes at most this part of the budget has all but ceased: what was learnt of the one before is forgotten.
const QUIET: i64 = 8;

/// Keeps encoding within a budget of CPU time by choosing the effort, block by block.
///
/// A token bucket fills with CPU time at the budget's rate up to [`DEPTH`] and pays for every block. Overdrawn, it forces the
/// effort down in proportion to the debt: one step at once, and down to the last when the debt reaches the depth. It goes up
/// again, one step at a time, when for [`HOLD`] at most three quarters of the budget were used and no debt is left. A step up
/// that has to be taken back doubles that time, up to [`MAX_HOLD`], until two steps up succeed or the load all but ceases.
///
/// What follows, with `B` the budget, `D` the CPU time that fills the bucket, and `c`, at most `D`, the largest cost of a block:
/// - In any time `T`, blocks cost at most `B T + 2 D + c`, and what the last step itself costs beyond `B`. In 10 s that is 4 % of
///   the budget more, and a block.
/// - The effort goes up at most one step per [`HOLD`] on average, so in a time `T` since the beginning it changes at most
///   `2 T / HOLD + n` times, `n` being the number of steps. Under a steady load it ends with once up and once down in [`MAX_HOLD`].
/// - Without load, it is back at the top after `n` times [`HOLD`], or with the first call after so long a pause.
///
/// Blocks that come as fast as they are taken, as from a file, use up any budget below a whole core even on the last step: a
/// budget is for content that comes at a pace of its own.
///
/// ```
/// use oncewire_codec::adapt::{Controller, CpuShare, Ladder};
/// use oncewire_codec::{Encoder, Entropy};
/// use std::time::Duration;
///
/// let mut encoder = Encoder::builder().cache(1 << 20).build()?;
/// let quarter = CpuShare::from_thousandths(250)?;
/// let mut controller = Controller::new(Ladder::new(32, Entropy::DEFAULT)?, quarter, Duration::ZERO);
/// // Two batches take 40 and 25 ms. 50 ms were in the bucket, and 12.5 are earned from one to the other.
/// assert_eq!(controller.spent(1 << 20, Duration::from_millis(40), Duration::from_millis(50)), None);
/// let decision = controller.spent(1 << 20, Duration::from_millis(25), Duration::from_millis(100)).expect("overdrawn");
/// assert_eq!(decision.to_string(), "p = 32 -> p = 32, LZ4: 72.2 % of a core in 90ms, 25 % allowed");
/// encoder.set_effort(controller.effort());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Controller {
    ladder: Ladder,
    budget: CpuShare,
    step: usize,
    /// Latest time that was heard of.
    now: Duration,
    /// CPU time that may be spent at once; negative if more was spent than that.
    balance: Picoseconds,
    /// Since the bucket was last full.
    busy: Measured,
    /// Since the use of the budget was last judged.
    judged: Measured,
    /// How long there has been room in the budget.
    room: Duration,
    hold: Duration,
    last_was_up: bool,
    changes: u64,
    usage: Vec<Usage>,
}

/// CPU time spent in a time.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    cpu: Duration,
    time: Duration,
}

impl Measured {
    fn add(&mut self, cpu: Duration, time: Duration) {
        self.cpu = self.cpu.saturating_add(cpu);
        self.time = self.time.saturating_add(time);
    }
}

/// What was done at one effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The effort.
    pub effort: Effort,
    /// Bytes encoded.
    pub bytes: u64,
    /// CPU time that it took.
    pub cpu: Duration,
    /// Wall time during which it was the effort, idle or not.
    pub time: Duration,
}

/// Why the effort changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// More was spent than the budget allows.
    Overdrawn,
    /// There was room in the budget for long enough.
    Room,
}

/// A change of effort, and the figures that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The effort until now.
    pub from: Effort,
    /// The effort from the next block on.
    pub to: Effort,
    /// Why.
    pub reason: Reason,
    /// CPU time spent ...
    pub cpu: Duration,
    /// ... in this wall time: since the bucket was last full, or a moment after, if [`Reason::Overdrawn`], since the last judgement if [`Reason::Room`].
    pub over: Duration,
    /// The share that is allowed.
    pub budget: CpuShare,
}

impl Decision {
    /// The share of one core that was measured. Infinite if the clock stood still.
    pub fn share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.over.as_secs_f64()
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decision { from, to, over, budget, .. } = self;
        // Rounded: nobody wants to read nanoseconds.
        let over = Duration::from_millis(over.as_millis().try_into().unwrap_or(u64::MAX));
        write!(f, "{from} -> {to}: {:.1} % of a core in {over:?}, {budget} allowed", 100.0 * self.share())
    }
}

impl Controller {
    /// Begins at the top of `ladder` with a full bucket. Times are counted from any fixed moment, `now` too.
    pub fn new(ladder: Ladder, budget: CpuShare, now: Duration) -> Controller {
        let usage = |&effort: &Effort| Usage { effort, bytes: 0, cpu: Duration::ZERO, time: Duration::ZERO };
        let usage = ladder.efforts().iter().map(usage).collect();
        Controller {
            ladder,
            budget,
            step: 0,
            now,
            balance: budget.of(DEPTH),
            busy: Measured::default(),
            judged: Measured::default(),
            room: Duration::ZERO,
            hold: HOLD,
            last_was_up: false,
            changes: 0,
            usage,
        }
    }

    /// What to spend on the next block.
    pub fn effort(&self) -> Effort {
        self.ladder.0[self.step]
    }

    /// The budget.
    pub fn budget(&self) -> CpuShare {
        self.budget
    }

    /// Changes of effort so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What was done at each effort of the ladder, the dearest first.
    pub fn usage(&self) -> &[Usage] {
        &self.usage
    }

    /// Notes that `bytes` were encoded for `cpu` of CPU time on all threads, and that it is `now`; the change that follows from that, if any,
    /// holds from the next block on. To be called after each block or batch of blocks, and before one after a pause, with nothing
    /// encoded. A time before the last one counts as the last one.
    pub fn spent(&mut self, bytes: u64, cpu: Duration, now: Duration) -> Option<Decision> {
        let elapsed = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        let usage = &mut self.usage[self.step];
        usage.bytes = usage.bytes.saturating_add(bytes);
        usage.cpu = usage.cpu.saturating_add(cpu);
        usage.time = usage.time.saturating_add(elapsed);

        let depth = self.budget.of(DEPTH);
        self.judged.add(cpu, elapsed);
        let earned = self.balance.saturating_add(self.budget.of(elapsed));
        if earned < depth {
            self.busy.add(cpu, elapsed);
        } else {
            // It was full when this work began. So long a start at most that what is overdrawn is always beyond the budget.
            self.busy = Measured { cpu, time: elapsed.min(cpu).min(DEPTH) };
        }
        self.balance = earned.min(depth).saturating_sub(picoseconds(cpu));
        // Debt that the last step itself makes is not to be paid off later. With blocks cheaper than the depth no other gets here.
        self.balance = self.balance.max(-2 * depth);

        let forced = self.forced(depth);
        if forced > self.step {
            if std::mem::take(&mut self.last_was_up) {
                self.hold = (self.hold * 2).min(MAX_HOLD);
            }
            return Some(self.change(forced, Reason::Overdrawn, self.busy));
        }
        self.judge()
    }

    /// The first step that the balance allows.
    fn forced(&self, depth: Picoseconds) -> usize {
        let debt = self.balance.min(0).unsigned_abs();
        // At most twice the depth times the number of steps: in 128 bits, whatever the budget.
        let steps = (u128::from(debt) * self.ladder.last() as u128).div_ceil(depth.unsigned_abs().into());
        (steps as usize).min(self.ladder.last())
    }

    /// Once per [`HOLD`]: is there room for more effort?
    fn judge(&mut self) -> Option<Decision> {
        if self.judged.time < HOLD {
            return None;
        }
        let judged = std::mem::take(&mut self.judged);
        let (used, allowed) = (picoseconds(judged.cpu), self.budget.of(judged.time));
        if used <= allowed / QUIET {
            self.hold = HOLD;
        }
        if used > allowed / 4 * ROOM_QUARTERS || self.balance < 0 {
            self.room = Duration::ZERO;
            return None;
        }
        self.room = self.room.saturating_add(judged.time);
        if self.step == 0 || self.room < self.hold {
            return None;
        }
        if std::mem::replace(&mut self.last_was_up, true) {
            self.hold = HOLD;
        }
        // A pause counts for as many steps as it is long.
        let steps = usize::try_from(judged.time.as_nanos() / self.hold.as_nanos()).unwrap_or(usize::MAX).max(1);
        Some(self.change(self.step.saturating_sub(steps), Reason::Room, judged))
    }

    fn change(&mut self, to: usize, reason: Reason, measured: Measured) -> Decision {
        let from = std::mem::replace(&mut self.step, to);
        self.changes += 1;
        self.room = Duration::ZERO;
        self.judged = Measured::default();
        let (from, to) = (self.ladder.0[from], self.ladder.0[to]);
        Decision { from, to, reason, cpu: measured.cpu, over: measured.time, budget: self.budget }
    }
}
