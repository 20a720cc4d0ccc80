//! A node that has more to do than it can says so to the ingresses of its paths, which burden it less at
//! once (thesis, section 3.4, "Changes in redundancy profiles").

use super::machine::{Machine, Step};
use super::place::Place;
use super::record::{OVERLOADED, write_overloaded};
use oncewire_session::link::NodeKind;
use std::collections::BTreeMap;

/// Least nanoseconds over which operations are counted.
const SPAN: u64 = 200_000_000;
/// Nanoseconds after which ingresses burden an overloaded node with a quarter more.
const RECOVER: u64 = 1_000_000_000;

impl Machine {
    /// Compares what was done since the last time with what can be done, `now` nanoseconds since the
    /// start.
    pub(super) fn weigh(&mut self, now: u64, out: &mut Vec<Step>) {
        if self.load.recovers.is_some_and(|at| now >= at) {
            let spares = self.entrance.as_mut().is_some_and(|one| one.ingress.recover());
            self.load.recovers = spares.then_some(now + RECOVER);
        }
        let span = now.saturating_sub(self.load.since);
        if span < SPAN {
            return;
        }
        let all = self.counters.cached + self.counters.decoded;
        let done = all - self.load.operations;
        (self.load.since, self.load.operations) = (now, all);
        let share = self.settings.operations * (span as f64 / 1e9) / done as f64;
        // Without anything done, there is no number.
        if share < 1.0 {
            self.counters.overloaded += 1;
            self.complain(share, out);
        }
    }

    /// Tells the ingresses of paths that are decoded here, on one path of each.
    fn complain(&mut self, share: f64, out: &mut Vec<Step>) {
        let mut paths: BTreeMap<usize, (u32, &Place)> = BTreeMap::new();
        for (&path, place) in &self.places {
            if place.device.is_some() && place.before.is_some() {
                let known = paths.entry(place.from).or_insert((path, place));
                if path < known.0 {
                    *known = (path, place);
                }
            }
        }
        for (path, place) in paths.into_values() {
            let Some(to) = place.before else { continue };
            let body = write_overloaded(path, self.me, share);
            out.push(Step::Send { to, kind: NodeKind::Back, bits: OVERLOADED, body });
        }
    }

    /// A node on a path is overloaded: the ingress spares it, others pass that on.
    pub(super) fn overloaded(
        &mut self,
        from: usize,
        path: u32,
        (node, share): (usize, f64),
        out: &mut Vec<Step>,
    ) {
        let Some(place) = self.places.get(&path).filter(|place| place.after == Some(from)) else {
            self.counters.wrong_neighbor += 1;
            return;
        };
        if let Some(to) = place.before {
            let body = write_overloaded(path, node, share);
            out.push(Step::Send { to, kind: NodeKind::Back, bits: OVERLOADED, body });
            return;
        }
        let Some(entrance) = &mut self.entrance else { return };
        let Some(devices) = entrance.devices.get(&node) else { return };
        devices.iter().for_each(|&device| entrance.ingress.spare(device, share));
        self.counters.spared += 1;
        self.load.recovers.get_or_insert(self.load.since + RECOVER);
    }
}
