//! Plans from an old profile, and flash crowds (thesis, section 3.6, "Effect of stale redundancy
//! profiles"), in a network of nodes and their controller.

use super::controlled::Controlled;
use super::*;
use oncewire_plan::control::Input;
use std::collections::VecDeque;

/// Steps of 200 ms in a second.
const SECOND: usize = 5;
/// Packets that enter at a node in a step: 10 kB/s.
const PACKETS: usize = 2;
/// Packets of an ingress from which repeats are taken.
const REPEATED: usize = 20;
/// Bytes of a node for packets: a third each for its own, for those of others, and for a change of
/// plans. That is short: what others would cache is as much as all of them have.
const MEMORY: u64 = 120_000;

/// The nodes at which it changes: a leaf of the network, and one in the middle.
const AT: [usize; 2] = [0, 3];

/// What enters, and how it changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// Half of the packets repeat others. Then four times as many enter at one node.
    Volume,
    /// A quarter of the packets repeat others. Then half of them do at one node.
    Redundancy,
    /// Half of the packets repeat others; most go to one node each. Then to another one.
    Directions,
}

/// When the controller makes plans.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plans {
    /// Only before the change.
    Stale,
    /// When what enters differs from what was planned with.
    Triggered,
    /// Every ten seconds.
    Fresh,
}

struct Crowd {
    world: Controlled,
    random: fastrand::Rng,
    change: Change,
    /// The node at which it changes.
    at: usize,
    /// Content that was sent lately, and where to.
    sent: [VecDeque<(u64, usize)>; 5],
    fresh: u64,
    number: u32,
}

impl Crowd {
    fn new(change: Change, at: usize, triggered: bool) -> Crowd {
        let mut world = Controlled::with_memory(3, MEMORY);
        if !triggered {
            world.change = f64::INFINITY;
        }
        world.start_controller();
        let sent = [const { VecDeque::new() }; 5];
        let random = fastrand::Rng::with_seed(at as u64);
        Crowd { world, random, change, at, sent, fresh: 0, number: 0 }
    }

    /// A packet that enters at a node: content that is new, or was sent lately.
    fn packet(&mut self, from: usize, has_changed: bool) {
        let here = has_changed && from == self.at;
        let share = match self.change {
            Change::Redundancy if !here => 0.25,
            _ => 0.5,
        };
        let far = |by: usize| (from + by) % 5;
        let to = match self.change {
            Change::Directions if self.random.u8(..10) < 8 => far(if has_changed { 2 } else { 1 }),
            _ => far(self.random.usize(1..5)),
        };
        let known = &mut self.sent[from];
        let repeated = match known.len() {
            0 => None,
            len => (self.random.f64() < share).then(|| known[self.random.usize(..len)]),
        };
        // Of four repeats, three go where the content went before.
        let (content, to) = match repeated {
            Some((content, before)) if self.random.u8(..4) > 0 => (content, before),
            Some((content, _)) => (content, to),
            None => {
                self.fresh += 1;
                known.push_back((self.fresh, to));
                known.drain(..known.len().saturating_sub(REPEATED));
                (self.fresh, to)
            }
        };
        // The same payload between the same ports would be a retransmission.
        self.number += 1;
        let payload = [&self.number.to_be_bytes()[..], &incompressible(content, 1000)].concat();
        self.world.enter_with(from, to, &payload);
    }

    fn seconds(&mut self, seconds: usize, has_changed: bool) {
        for _ in 0..seconds * SECOND {
            for from in 0..5 {
                let more = has_changed && from == self.at && self.change == Change::Volume;
                for _ in 0..PACKETS * if more { 4 } else { 1 } {
                    self.packet(from, has_changed);
                }
                self.world.carry();
            }
            self.world.step(0);
        }
    }

    /// The share of the bytes on links that is saved in 40 seconds, a minute after the change; and
    /// how many plans came after it.
    fn run(change: Change, at: usize, plans: Plans) -> (f64, usize) {
        let mut crowd = Crowd::new(change, at, plans == Plans::Triggered);
        crowd.seconds(40, false);
        // The profile that gets old is a good one.
        crowd.world.tell(Input::PlanNow);
        crowd.seconds(20, false);
        let before = *crowd.world.versions.last().expect("a plan");
        for _ in 0..6 {
            crowd.seconds(10, true);
            if plans == Plans::Fresh {
                crowd.world.tell(Input::PlanNow);
            }
        }
        crowd.world.on_links = (0, 0);
        for _ in 0..4 {
            crowd.seconds(10, true);
            if plans == Plans::Fresh {
                crowd.world.tell(Input::PlanNow);
            }
        }
        let (sent, whole) = crowd.world.on_links;
        let after = *crowd.world.versions.last().expect("a plan");
        (1.0 - sent as f64 / whole as f64, (after - before) as usize)
    }
}

/// A plan for other volumes or other repeats saves nearly as much as one that is always new, but not one
/// for other directions. When half of what enters at a node changes, a new plan comes by itself.
#[test]
fn a_flash_crowd_gets_a_plan_of_its_own() {
    for change in [Change::Volume, Change::Redundancy, Change::Directions] {
        let mut means = Vec::new();
        for plans in [Plans::Stale, Plans::Triggered, Plans::Fresh] {
            let each: Vec<(f64, usize)> = AT.map(|at| Crowd::run(change, at, plans)).into();
            let shares = || each.iter().map(|one| one.0);
            let mean = shares().sum::<f64>() / AT.len() as f64;
            println!(
                "{change:?}, {plans:?}: {:.1} % saved, {:.1} to {:.1}; plans {:?}",
                100.0 * mean,
                100.0 * shares().fold(1.0, f64::min),
                100.0 * shares().fold(0.0, f64::max),
                each.iter().map(|one| one.1).collect::<Vec<_>>()
            );
            means.push(mean);
            // A new plan that gains little is not brought in.
            if plans == Plans::Stale {
                assert!(each.iter().all(|one| one.1 == 0), "{each:?}");
            }
        }
        let [stale, triggered, fresh] = means[..] else { panic!("{means:?}") };
        assert!(triggered > fresh - 0.03, "{change:?}: {triggered} of {fresh}");
        match change {
            // A plan for other directions is worth little.
            Change::Directions => assert!(triggered > stale + 0.2, "{stale}, {triggered}"),
            _ => assert!(stale > 0.9 * fresh, "{change:?}: {stale} of {fresh}"),
        }
    }
}
