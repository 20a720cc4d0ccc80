//! The controller under simulated loads, and the encoder at the efforts that the controller
//! chooses.

use crate::common::content::{noise, text};
use crate::common::params::Params;
use oncewire_codec::adapt::{
    Controller, CpuShare, DEPTH, Decision, Effort, HOLD, Ladder, MAX_HOLD, Reason, Stage,
};
use oncewire_codec::{DEFAULT_BLOCK, Decoded, Entropy, FrameView, Scan};
use oncewire_family::chunk::ChunkForm;
use oncewire_family::{MatcherKind, SamplerKind};
use proptest::prelude::*;
use std::time::Duration;

fn share(thousandths: u32) -> CpuShare {
    CpuShare::from_thousandths(thousandths).unwrap()
}

fn ladder() -> Ladder {
    Ladder::new(32, Entropy::DEFAULT).unwrap()
}

/// Cost per byte at each step of [`ladder`], in picoseconds, as measured on new text.
const TEXT: [u64; 9] = [1630, 860, 650, 520, 450, 370, 290, 240, 140];

const SECOND: Duration = Duration::from_secs(1);

/// One call of the controller.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// The time, and the time since the previous call.
    at: Duration,
    elapsed: Duration,
    cpu: Duration,
    /// The step used to encode the block.
    step: usize,
    decision: Option<Decision>,
}

/// An encoder that runs on one core and takes the modeled time for each block.
struct Machine {
    controller: Controller,
    efforts: Vec<Effort>,
    now: Duration,
    calls: Vec<Call>,
}

impl Machine {
    fn new(ladder: Ladder, budget: CpuShare) -> Machine {
        let efforts = ladder.efforts().to_vec();
        let controller = Controller::new(ladder, budget, Duration::ZERO);
        Machine { controller, efforts, now: Duration::ZERO, calls: Vec::new() }
    }

    fn step(&self) -> usize {
        self.efforts.iter().position(|&effort| effort == self.controller.effort()).unwrap()
    }

    fn call(&mut self, bytes: usize, cpu: Duration, at: Duration) {
        let (step, elapsed) = (self.step(), at - self.now);
        self.now = at;
        let decision = self.controller.spent(bytes as u64, cpu, at);
        self.calls.push(Call { at, elapsed, cpu, step, decision });
    }

    /// Simulates blocks of `block` bytes that arrive at `rate` bytes per second for `time`; `costs`
    /// are in picoseconds per byte.
    fn offer(&mut self, rate: u64, block: usize, time: Duration, costs: &[u64]) {
        let begin = self.now;
        let gap = Duration::from_nanos(block as u64 * 1_000_000_000 / rate);
        let mut arrival = begin;
        while arrival < begin + time {
            let start = arrival.max(self.now);
            self.call(0, Duration::ZERO, start);
            let cpu = Duration::from_nanos(block as u64 * costs[self.step()] / 1000);
            self.call(block, cpu, start + cpu);
            arrival += gap;
        }
    }

    fn since(&self, time: Duration) -> &[Call] {
        &self.calls[self.calls.partition_point(|call| call.at < time)..]
    }

    fn changes_since(&self, time: Duration) -> usize {
        self.since(time).iter().filter(|call| call.decision.is_some()).count()
    }
}

fn used(calls: &[Call]) -> f64 {
    let sum = |of: fn(&Call) -> Duration| calls.iter().map(of).sum::<Duration>().as_secs_f64();
    sum(|call| call.cpu) / sum(|call| call.elapsed)
}

#[test]
fn the_ladder_drops_the_entropy_stage_first_and_matching_last() {
    let names = |ladder: Ladder| ladder.efforts().iter().map(Effort::to_string).collect::<Vec<_>>();
    let none = |period: &str| format!("p = {period}, no entropy stage");
    let mut expected = vec!["p = 32".to_string(), "p = 32, LZ4".into()];
    expected.extend(["32", "64", "128", "256", "512", "1024"].map(none));
    expected.push("passed literally".into());
    assert_eq!(names(ladder()), expected);
    let expected = ["p = 700", "p = 1024", "passed literally"];
    assert_eq!(names(Ladder::new(700, Entropy::None).unwrap()), expected);
    let expected = ["p = 1024".to_string(), none("1024"), "passed literally".into()];
    assert_eq!(names(Ladder::new(1024, Entropy::Lz4).unwrap()), expected);
    assert!(Ladder::new(3, Entropy::None).is_err());
    assert!(CpuShare::from_thousandths(0).is_err() && CpuShare::from_thousandths(64_001).is_err());
}

#[test]
fn a_steady_load_settles_at_a_step_that_fits_the_budget() {
    for budget in [100, 250, 500] {
        for rate in [50_000_000, 200_000_000, 400_000_000, 600_000_000] {
            let mut machine = Machine::new(ladder(), share(budget));
            machine.offer(rate, DEFAULT_BLOCK, 40 * SECOND, &TEXT);
            let share_at = |cost: &u64| rate as f64 * *cost as f64 / 1e12;
            let allowed = f64::from(budget) / 1000.0;
            let settled = machine.since(20 * SECOND);
            assert!(used(settled) < allowed * 1.01, "{budget} {rate}: {}", used(settled));
            // It reduces effort no more than necessary, except for the headroom needed to go up.
            let fits = TEXT.iter().position(|cost| share_at(cost) <= 0.75 * allowed).unwrap_or(8);
            let coarsest = settled.iter().map(|call| call.step).max().unwrap();
            assert!(coarsest <= fits, "{budget} {rate}: step {coarsest} of {fits}");
            // It goes down without delay.
            let in_debt =
                machine.calls.iter().take_while(|call| call.at < 5 * SECOND).collect::<Vec<_>>();
            let cpu: Duration = in_debt.iter().map(|call| call.cpu).sum();
            assert!(
                cpu.as_secs_f64() < allowed * (5.0 + 2.0 * DEPTH.as_secs_f64()) + 0.001,
                "{budget} {rate}: {cpu:?}"
            );
        }
    }
}

#[test]
fn a_steady_load_changes_the_effort_at_most_twice_per_longest_hold() {
    for rate in (20..800).step_by(20) {
        let mut machine = Machine::new(ladder(), share(250));
        machine.offer(rate * 1_000_000, DEFAULT_BLOCK, 100 * SECOND, &TEXT);
        // The holds before the longest one sum to less than it, and the bucket takes time to fill
        // after each.
        let changes = machine.changes_since(40 * SECOND);
        let most = 2 * (60 / MAX_HOLD.as_secs() as usize + 1);
        assert!(changes <= most, "{rate} MB/s: {changes}");
    }
}

#[test]
fn when_the_load_falls_the_effort_returns_to_the_top() {
    let mut machine = Machine::new(ladder(), share(100));
    machine.offer(600_000_000, DEFAULT_BLOCK, 30 * SECOND, &TEXT);
    assert!(machine.step() >= 7);
    let fell = machine.now;
    machine.offer(20_000_000, DEFAULT_BLOCK, MAX_HOLD + 9 * HOLD, &TEXT);
    assert_eq!(machine.step(), 0);
    let ups: Vec<_> = machine.since(fell).iter().filter_map(|call| call.decision).collect();
    assert!(
        ups.iter().all(|decision| decision.reason == Reason::Room && decision.share() < 0.075),
        "{ups:?}"
    );
    assert_eq!(
        machine.controller.usage().iter().map(|usage| usage.time).sum::<Duration>(),
        machine.now
    );
}

#[test]
fn a_pause_counts_for_as_many_steps_as_it_is_long() {
    let mut machine = Machine::new(ladder(), share(100));
    machine.offer(2_000_000_000, DEFAULT_BLOCK, 2 * SECOND, &TEXT);
    assert_eq!(machine.step(), 8);
    machine.call(0, Duration::ZERO, machine.now + 3 * HOLD);
    assert_eq!(machine.step(), 5);
    machine.call(0, Duration::ZERO, machine.now + Duration::from_secs(3600));
    assert_eq!(machine.step(), 0);
    // An hour does not earn more than the bucket holds, which is 20 ms here.
    machine.call(DEFAULT_BLOCK, Duration::from_millis(20), machine.now);
    assert_eq!(machine.step(), 0);
    machine.call(DEFAULT_BLOCK, Duration::from_millis(1), machine.now);
    assert_eq!(machine.step(), 1);
}

#[test]
fn a_stopped_or_reversed_clock_earns_nothing() {
    let mut machine = Machine::new(ladder(), share(250));
    for _ in 0..1000 {
        machine.call(DEFAULT_BLOCK, Duration::from_micros(200), Duration::ZERO);
    }
    // 200 ms were spent: the 50 ms in the bucket, and more than that again.
    assert_eq!(machine.step(), 8);
    let first = machine.calls.iter().find_map(|call| call.decision).unwrap();
    assert_eq!((first.reason, first.share()), (Reason::Overdrawn, f64::INFINITY));
    assert!(first.to_string().contains("inf % of a core in 0ns"), "{first}");

    let mut controller = Controller::new(ladder(), share(250), 10 * SECOND);
    assert_eq!(
        controller
            .spent(1, Duration::from_millis(55), 9 * SECOND)
            .map(|decision| decision.to.stage()),
        Some(Stage::Lz4)
    );
    // It has not earned a second since.
    assert_eq!(controller.spent(0, Duration::ZERO, 10 * SECOND), None);
    assert_eq!(controller.effort().stage(), Stage::Lz4);
    assert!(controller.spent(u64::MAX, Duration::MAX, Duration::MAX).is_some());
    controller.spent(u64::MAX, Duration::MAX, Duration::MAX);
}

#[test]
fn free_work_and_a_whole_core_budget_change_nothing() {
    let mut machine = Machine::new(ladder(), share(1));
    machine.offer(1_000_000_000, DEFAULT_BLOCK, SECOND, &[0; 9]);
    assert_eq!(machine.controller.changes(), 0);
    let mut machine = Machine::new(ladder(), share(1000));
    // More load than it can handle, so it is always busy.
    machine.offer(1_000_000_000, DEFAULT_BLOCK, 3 * SECOND, &TEXT);
    assert_eq!(machine.controller.changes(), 0);
    assert!(used(&machine.calls) > 0.99);
}

/// Decreasing costs of the steps of [`ladder`].
fn costs() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(0u64..1500, 9).prop_map(|mut costs| {
        costs.sort_unstable_by(|a, b| b.cmp(a));
        costs
    })
}

/// Rates in MB/s and times in milliseconds, with pauses, for large and small blocks.
fn load() -> impl Strategy<Value = Vec<(u64, u64, usize)>> {
    let rate = prop_oneof![1u64..20, 20u64..2000];
    proptest::collection::vec(
        (rate, 1u64..1500, prop_oneof![Just(DEFAULT_BLOCK), 4096..DEFAULT_BLOCK]),
        1..8,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// CPU time in any interval stays within the budget, as far as the last step allows.
    #[test]
    fn the_budget_is_kept(costs in costs(), load in load(), budget in 20u32..1500, pause in 0u64..3000) {
        let budget = share(budget);
        let mut machine = Machine::new(ladder(), budget);
        for (rate, ms, block) in load {
            machine.offer(rate * 1_000_000, block, Duration::from_millis(ms), &costs);
            machine.call(0, Duration::ZERO, machine.now + Duration::from_millis(pause));
        }
        // Time earned and spent in nanoseconds, and the part of it that the last step spent beyond
        // what was earned.
        let allowed = |time: Duration| time.as_nanos() as f64 * budget.as_f64();
        let block = machine.calls.iter().map(|call| call.cpu).max().unwrap_or_default();
        let slack = 2.0 * allowed(DEPTH) + block.as_nanos() as f64 + 1.0;
        prop_assume!((block.as_nanos() as f64) <= allowed(DEPTH));
        // The largest sum over consecutive calls (Kadane's algorithm), which covers every interval.
        let mut worst = 0.0f64;
        for call in &machine.calls {
            let (cpu, earned) = (call.cpu.as_nanos() as f64, allowed(call.elapsed));
            let beyond = if call.step == 8 { (cpu - earned).max(0.0) } else { 0.0 };
            worst = (worst + cpu - earned - beyond).max(0.0);
            prop_assert!(worst <= slack, "{worst} of {slack} at {:?}", call.at);
            if let Some(decision) = call.decision {
                prop_assert_eq!(decision.share() > budget.as_f64(), decision.reason == Reason::Overdrawn, "{}", decision);
            }
        }
        // Changes: each step up requires its hold time, and each step down requires an earlier step
        // up.
        let time = machine.now.as_secs_f64();
        prop_assert!(machine.controller.changes() as f64 <= 2.0 * time / HOLD.as_secs_f64() + 8.0);
    }

    /// The effort may change at every block and in every context without the decoder's knowledge.
    #[test]
    fn every_effort_can_follow_every_other(
        entropy in crate::common::params::entropy(),
        period in 4usize..=1024,
        fixed: bool,
        steps in proptest::collection::vec((0usize..12, 0usize..3, 0u64..4, 0usize..40_000, any::<bool>()), 1..40),
    ) {
        let sampler = if fixed { SamplerKind::Fixed } else { SamplerKind::sample_byte() };
        let params = Params { cache: 400_001, contexts: 3, entropy, period, sampler, ..Params::default() };
        let ladder = params.encoder_builder().ladder().unwrap();
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        for (step, context, seed, len, random) in steps {
            let effort = ladder.efforts()[step % ladder.efforts().len()];
            encoder.set_effort(effort);
            let block = if random { noise(seed, len) } else { text(seed, len) };
            let before = encoder.stats();
            let mut wire = Vec::new();
            encoder.encode_frame(&block, context).unwrap().append_to(&mut wire);
            let Ok(Scan::Frame(view)) = FrameView::scan(&wire, DEFAULT_BLOCK) else { panic!("the frame is whole") };
            if effort.stage() != Stage::Full {
                prop_assert_eq!(view.context(), None);
            }
            if !effort.search() {
                prop_assert_eq!(encoder.stats().matches, before.matches);
                prop_assert_eq!(encoder.stats().passed_blocks, before.passed_blocks + 1);
                prop_assert!(wire.len() <= block.len() + 24);
            }
            let decoded = decoder.decode(&wire).unwrap();
            let Decoded::Block { content, .. } = decoded else { panic!("the frame is whole: {decoded:?}") };
            prop_assert!(content == block);
        }
    }
}

#[test]
fn content_sent_literally_is_found_later() {
    let params = Params { cache: 4 << 20, ..Params::default() };
    for block in [text(1, 1 << 20), noise(1, 1 << 20)] {
        let ladder = params.encoder_builder().ladder().unwrap();
        let mut encoder = params.encoder();
        let (full, passed) = (ladder.efforts()[0], *ladder.efforts().last().unwrap());
        let mut encode = |effort| {
            encoder.set_effort(effort);
            // The repeat is divided into blocks differently.
            let size = if effort == full { 60_000 } else { DEFAULT_BLOCK };
            block
                .chunks(size)
                .map(|block| encoder.encode_frame(block, 0).unwrap().len())
                .sum::<usize>()
        };
        assert!(encode(passed) > 1 << 20);
        let found = encode(full);
        assert!(found < 20_000, "{found}");
    }
}

#[test]
fn at_the_cheapest_effort_no_matcher_searches() {
    let form = ChunkForm::StartsAtMarker;
    for matcher in [
        MatcherKind::MaxMatch,
        MatcherKind::Published { max_fingerprints: None },
        MatcherKind::ChunkMatch { form },
    ] {
        let params = Params { matcher, ..Params::default() };
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        let block = text(1, 20_000);
        let mut send = |effort| {
            encoder.set_effort(effort);
            let mut frame = Vec::new();
            encoder.encode(&block, &mut frame).unwrap();
            assert!(
                matches!(decoder.decode(&frame), Ok(Decoded::Block { content, .. }) if content == block)
            );
            let again = encoder
                .content(decoder.acknowledged() - 20_000..decoder.acknowledged())
                .map(<[u8]>::to_vec);
            assert!(again.is_some_and(|content| content == block), "it can be repaired");
            encoder.acknowledge(decoder.acknowledged());
            (frame.len(), encoder.stats().matcher.looked_up)
        };
        let efforts = ladder().efforts().to_vec();
        let (_, before) = send(efforts[0]);
        let (sent, after) = send(efforts[efforts.len() - 1]);
        assert!(
            sent > 20_000 && after == before,
            "{matcher:?}: {sent} bytes, {before} and {after} look-ups"
        );
        // Content sent literally does not interfere.
        assert!(send(efforts[0]).0 < 1000, "{matcher:?}");
    }
}
