//! Adapts the encoder's work to a CPU budget.
//!
//! EndRE's fourth goal is to "*adapt* its use of CPU based on server load" (section 4), with the
//! sampling period as the knob (section 5.1). [`Controller`] does that. After each block the caller
//! reports its CPU time and the current time; the controller answers with the [`Effort`] for the
//! next block. It has no clock, so a test can drive it.
//!
//! # The ladder
//!
//! EndRE has no entropy stage, and its cost falls with `p`. Our entropy stage takes most of the
//! time on new content, and a larger `p` gives it more literals: with it, `p` = 1024 costs 1.5
//! times as much as `p` = 32. So the entropy stage is reduced first. Eight releases of Django, 472
//! MB of tar files in order of their names, in blocks of 64 KiB, with SAMPLEBYTE, on one thread of
//! a shared virtual machine, measured by `examples/adapt.rs` (`docs/ALGORITHMS.md` has the same for
//! the default sampler):
//!
//! | effort | ns/byte, new content | sent | ns/byte, second time | sent |
//! |---|---|---|---|---|
//! | `p` = 32, zstd 3 | 1.00 | 14.7 MB | 0.18 | 0.2 MB |
//! | `p` = 32, LZ4 | 0.62 | 23.0 MB | 0.18 | 0.2 MB |
//! | `p` = 32, no entropy stage | 0.49 | 40.9 MB | 0.18 | 0.2 MB |
//! | `p` = 128 | 0.39 | 67.5 MB | 0.18 | 0.2 MB |
//! | `p` = 512 | 0.30 | 169.9 MB | 0.18 | 0.2 MB |
//! | `p` = 1024 | 0.25 | 237.6 MB | 0.19 | 0.2 MB |
//! | passed literally | 0.13 | 472.3 MB | 0.13 | 472.3 MB |
//!
//! # The cost of a change
//!
//! Decoders do not depend on the effort: frames state how they are coded, and a frame that uses no
//! entropy context leaves it unchanged, so the stage later continues where it stopped. Content sent
//! literally enters the log as usual and is indexed like the inside of a match, one marker in
//! [`crate::matcher::INDEX_STEP`] bytes, so that its repeats can be found. (Published max-match and
//! chunk-match do not index it.)
//!
//! Content indexed at one period is found at another only where both chose the same marker. FIXED
//! shares the markers of the larger period if that is a multiple. SAMPLEBYTE chooses among the same
//! bytes at every period, depending on earlier skips, so some markers are shared, and a match grows
//! from each. Percent matched of Django 4.0 after 4.0.10, each encoded at one period (same
//! program):
//!
//! | indexed at | searched at 32 | 128 | 512 | 1024 |
//! |---|---|---|---|---|
//! | 32 | 93.6 | 88.6 | 74.9 | 65.1 |
//! | 128 | 90.8 | 78.1 | 66.7 | 57.1 |
//! | 512 | 84.5 | 73.2 | 49.6 | 44.9 |
//! | 1024 | 81.0 | 69.2 | 50.5 | 35.3 |
//! | passed literally | 84.5 | 73.0 | 52.3 | 42.7 |
//!
//! So switching back and forth costs no more than the coarser period itself: mixing both finds more
//! than the coarser period alone, and somewhat less than the finer one alone.

use crate::entropy::Entropy;
use crate::error::ConfigError;
use crate::limits::{MAX_CPU_THOUSANDTHS, PERIODS};
use std::fmt;
use std::time::Duration;

/// How much work is spent on a block. Comes from a [`Ladder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    period: usize,
    stage: Stage,
    search: bool,
}

/// How much of the entropy stage is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The one that the encoder was built with.
    #[default]
    Full,
    /// The literal coder at level 1, whatever its own level is: about 70 % of the time of level 3 on
    /// new content, and 6 % more bytes. On no ladder: [`Encoder::set_hurrying`](crate::Encoder::set_hurrying).
    Light,
    /// LZ4 instead of the literal coder, and plain descriptors: about 60 % of the time on new content.
    Lz4,
    /// None: raw literals, plain descriptors.
    Off,
}

impl Stage {
    /// The stage to use where `configured` would be.
    pub(crate) fn limit(self, configured: Entropy) -> Entropy {
        match (self, configured) {
            (Stage::Full, configured) => configured,
            (Stage::Light, Entropy::Coded { level }) => Entropy::Coded { level: level.min(1) },
            (Stage::Light, configured) => configured,
            (Stage::Lz4, Entropy::Lz4 | Entropy::Coded { .. }) => Entropy::Lz4,
            (Stage::Lz4, Entropy::None) | (Stage::Off, _) => Entropy::None,
        }
    }
}

impl Effort {
    /// The encoder's configured effort, at a period that was checked.
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

    /// How much of the entropy stage is used.
    pub fn stage(self) -> Stage {
        self.stage
    }

    /// Whether the encoder searches for matches. If not, it sends blocks literally.
    pub fn search(self) -> bool {
        self.search
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.search, self.stage) {
            (false, _) => f.write_str("passed literally"),
            (true, Stage::Full) => write!(f, "p = {}", self.period),
            (true, Stage::Light) => write!(f, "p = {}, level 1", self.period),
            (true, Stage::Lz4) => write!(f, "p = {}, LZ4", self.period),
            (true, Stage::Off) => write!(f, "p = {}, no entropy stage", self.period),
        }
    }
}

/// Effort levels in descending order of cost: LZ4 instead of the literal coder, no entropy stage, the period
/// doubled up to 1024, and finally literal blocks. The [module](self) explains the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(Vec<Effort>);

/// Largest sampling period on a ladder, in bytes.
const MAX_PERIOD: usize = *PERIODS.end();

impl Ladder {
    /// The ladder of an encoder with the given period and entropy stage.
    ///
    /// # Errors
    /// [`ConfigError::Period`].
    pub fn new(period: usize, entropy: Entropy) -> Result<Ladder, ConfigError> {
        ConfigError::check_period(period)?;
        let full = Effort::full(period);
        let mut efforts = vec![full];
        if matches!(entropy, Entropy::Coded { .. }) {
            efforts.push(Effort { stage: Stage::Lz4, ..full });
        }
        if entropy != Entropy::None {
            efforts.push(Effort { stage: Stage::Off, ..full });
        }
        let coarsest = efforts[efforts.len() - 1];
        let doubled = std::iter::successors(Some(period), |period| {
            (*period < MAX_PERIOD).then(|| MAX_PERIOD.min(period * 2))
        });
        efforts.extend(doubled.skip(1).map(|period| coarsest.with_period(period)));
        efforts.push(Effort { period: MAX_PERIOD, stage: Stage::Off, search: false });
        Ok(Ladder(efforts))
    }

    /// The effort levels, the most expensive first. At least two.
    pub fn efforts(&self) -> &[Effort] {
        &self.0
    }

    /// Index of the cheapest level.
    fn last(&self) -> usize {
        self.0.len() - 1
    }
}

/// A share of one core's time, in thousandths: 250 is a quarter. With several threads it may exceed
/// 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuShare(u32);

impl CpuShare {
    /// Most thousandths: 64 cores.
    pub const MAX: u32 = MAX_CPU_THOUSANDTHS;

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

    /// CPU time allowed in `time`, in [`Picoseconds`].
    fn of(self, time: Duration) -> Picoseconds {
        // A nanosecond has a thousand picoseconds, and a share a thousand parts.
        Picoseconds::try_from(time.as_nanos())
            .unwrap_or(Picoseconds::MAX)
            .saturating_mul(self.0.into())
    }
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", f64::from(self.0) / 10.0)
    }
}

/// CPU time, signed; a thousandth of a nanosecond of wall time is still representable.
type Picoseconds = i64;

fn picoseconds(time: Duration) -> Picoseconds {
    Picoseconds::try_from(time.as_nanos()).unwrap_or(Picoseconds::MAX).saturating_mul(1000)
}

/// Depth of the budget's token bucket, as wall time: the CPU time allowed in it may be spent at
/// once after idling, and a debt of as much forces the cheapest effort.
pub const DEPTH: Duration = Duration::from_millis(200);
/// How long the budget must have room before the effort goes up by one step.
pub const HOLD: Duration = Duration::from_millis(500);
/// Upper limit of that time, which doubles after each step up that had to be reverted.
pub const MAX_HOLD: Duration = Duration::from_secs(8);

/// The budget has room if no more than this many quarters of it are used.
const ROOM_QUARTERS: i64 = 3;
/// A load that uses at most one in this many parts of the budget counts as idle and resets the hold
/// time.
const QUIET: i64 = 8;

/// Keeps encoding within a budget of CPU time by choosing the effort, block by block.
///
/// A token bucket fills with CPU time at the budget's rate up to [`DEPTH`] and pays for every
/// block. When overdrawn, it forces the effort down in proportion to the debt: by one step at once,
/// and to the last step when the debt reaches the depth. The effort goes up again, one step at a
/// time, when for [`HOLD`] at most three quarters of the budget were used and no debt is left. A
/// step up that has to be reverted doubles that time, up to [`MAX_HOLD`], until two steps up
/// succeed or the load becomes idle.
///
/// Guarantees, with `B` the budget, `D` the CPU time that fills the bucket, and `c`, at most `D`,
/// the largest cost of a block:
/// - In any time `T`, blocks cost at most `B T + 2 D + c`, plus what the last step itself costs
///   beyond `B`. In 10 s that exceeds the budget by 4 % and one block.
/// - The effort goes up at most one step per [`HOLD`] on average, so in a time `T` from the start
///   it changes at most `2 T / HOLD + n` times, where `n` is the number of steps. Under a steady
///   load it settles at one step up and one down per [`MAX_HOLD`].
/// - Without load, it is back at the top after `n` times [`HOLD`], or at the first call after a
///   pause of that length.
///
/// Blocks that arrive as fast as they are consumed, as from a file, exceed any budget below a whole
/// core even at the last step. A budget is meant for live input.
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
    /// Latest time reported.
    now: Duration,
    /// CPU time that may be spent at once; negative if overdrawn.
    balance: Picoseconds,
    /// Since the bucket was last full.
    busy: Measured,
    /// Since the last judgement.
    judged: Measured,
    /// How long the budget has had room.
    room: Duration,
    hold: Duration,
    last_was_up: bool,
    changes: u64,
    usage: Vec<Usage>,
}

/// CPU time spent in a period of wall time.
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

/// Work done at one effort level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The effort.
    pub effort: Effort,
    /// Bytes encoded.
    pub bytes: u64,
    /// CPU time used.
    pub cpu: Duration,
    /// Wall time at this level, idle or not.
    pub time: Duration,
}

/// Why the effort changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// More was spent than the budget allows.
    Overdrawn,
    /// The budget had room for long enough.
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
    /// ... in this wall time. For [`Reason::Overdrawn`] since the bucket was last full, or a moment
    /// later; for [`Reason::Room`] since the last judgement.
    pub over: Duration,
    /// The allowed share.
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
        // Rounded to milliseconds for readers.
        let over = Duration::from_millis(over.as_millis().try_into().unwrap_or(u64::MAX));
        write!(
            f,
            "{from} -> {to}: {:.1} % of a core in {over:?}, {budget} allowed",
            100.0 * self.share()
        )
    }
}

impl Controller {
    /// Starts at the top of `ladder` with a full bucket. All times, `now` included, count from any
    /// fixed moment.
    pub fn new(ladder: Ladder, budget: CpuShare, now: Duration) -> Controller {
        let usage = |&effort: &Effort| Usage {
            effort,
            bytes: 0,
            cpu: Duration::ZERO,
            time: Duration::ZERO,
        };
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

    /// The effort for the next block.
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

    /// Work done at each level of the ladder, the most expensive first.
    pub fn usage(&self) -> &[Usage] {
        &self.usage
    }

    /// Reports that encoding `bytes` took `cpu` of CPU time on all threads, and that it is `now`.
    /// Returns the change of effort that results, if any, which applies from the next block on.
    /// Call it after each block or batch of blocks, and, with nothing encoded, before the first
    /// block after a pause. A time before the last one counts as the last one.
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
            // The bucket was full when this work began. The start is bounded so that an overdraft
            // is always beyond the budget.
            self.busy = Measured { cpu, time: elapsed.min(cpu).min(DEPTH) };
        }
        self.balance = earned.min(depth).saturating_sub(picoseconds(cpu));
        // Debt that the last step itself makes is not paid off later. With blocks cheaper than the
        // depth, only that step gets here.
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

    /// The highest effort that the balance allows, as an index.
    fn forced(&self, depth: Picoseconds) -> usize {
        let debt = self.balance.min(0).unsigned_abs();
        // At most twice the depth times the number of steps: in 128 bits, whatever the budget.
        let steps =
            (u128::from(debt) * self.ladder.last() as u128).div_ceil(depth.unsigned_abs().into());
        (steps as usize).min(self.ladder.last())
    }

    /// Once per [`HOLD`], decides whether the effort can go up.
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
        // A pause counts as many steps as it has hold times.
        let steps = usize::try_from(judged.time.as_nanos() / self.hold.as_nanos())
            .unwrap_or(usize::MAX)
            .max(1);
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
