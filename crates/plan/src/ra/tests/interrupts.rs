//! Interruptions at any moment: counted by looks, never timed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::routing::dijkstra::RUNS;

/// Says "stop" from one of its looks on. Counts searches, on the only thread there is.
#[derive(Default)]
struct StopAt {
    at: u64,
    looks: AtomicU64,
    /// Searches at the last look, and at the one that said "stop" first.
    last: AtomicU64,
    told: AtomicU64,
    /// Most searches between two looks.
    between: AtomicU64,
}

impl Watch for StopAt {
    fn progress(&self, _what: &str, _done: u64, _total: u64) {}

    fn stopped(&self) -> bool {
        let searches = RUNS.get();
        self.between.fetch_max(searches - self.last.swap(searches, Relaxed), Relaxed);
        let look = self.looks.fetch_add(1, Relaxed);
        if look == self.at {
            self.told.store(searches, Relaxed);
        }
        look >= self.at
    }
}

/// Runs on one thread. With the number of looks, the searches after the stop, and the most between
/// two looks.
fn run_until(request: &Request<'_>, at: u64) -> (Outcome, [u64; 3]) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| {
        let watch = StopAt { at, last: RUNS.get().into(), ..StopAt::default() };
        let outcome = run(request, &watch).unwrap();
        let after = RUNS.get() - watch.told.load(Relaxed);
        (outcome, [watch.looks.into_inner(), after, watch.between.into_inner()])
    })
}

fn objectives() -> [(&'static str, Objective, bool); 6] {
    [
        ("footprint", Objective::Footprint, false),
        ("load", Objective::Load, false),
        ("within the least", Objective::FootprintWithin(LoadLimit::Least(1.1)), false),
        ("within a limit", Objective::FootprintWithin(LoadLimit::Given(0.7)), false),
        ("within shortest paths", Objective::FootprintWithin(LoadLimit::Shortest(1.0)), false),
        ("safety net", Objective::Footprint, true),
    ]
}

/// Whenever it is stopped, there are valid routes, what is said about them is true, and no more
/// work is done than a few ingresses' worth.
#[test]
fn a_stop_at_any_look_gives_valid_routes() {
    let network = with_capacities(&abilene());
    for (name, objective, safety_net) in objectives() {
        let request = Request { objective, safety_net, ..load_request(&network, 0.5) };
        let (best, [looks, _, between]) = run_until(&request, u64::MAX);
        assert!(!best.stopped && best.unfinished == Unfinished::default(), "{name}");
        // An ingress has ten egresses. A group of them is moved in two ways; a bound and its
        // proof take a search for each.
        assert!(between <= 45, "{name}: {between} searches without a look");
        // The first ones, then others.
        let others = (1..=40).map(|part| 24 + looks.saturating_sub(25) * part / 40);
        let mut seen = [false; 5];
        for at in (0..24).chain(others).filter(|&at| at < looks) {
            let (found, [_, after, _]) = run_until(&request, at);
            let what = format!("{name}, stopped at look {at} of {looks}");
            // 11 ingresses: a search each in every stage that is cut short.
            assert!(after <= 45 + 5 * 11, "{what}: {after} searches after the stop");
            let mut ingresses = request.ingresses.clone();
            ingresses.iter_mut().for_each(|ingress| ingress.1.scale(found.scale));
            let judged =
                judge::judge(&network, request.cost, &ingresses, &found.routes, &[]).unwrap();
            assert_eq!(judged, found.judged, "{what}");
            let busiest = judged.busiest(&found.capacities).unwrap().1;
            let value = if objective == Objective::Load { busiest } else { judged.footprint };
            assert_eq!(found.value, value, "{what}");
            assert!(found.bound <= found.value, "{what}");
            assert!(
                found
                    .routes
                    .slices
                    .iter()
                    .all(|slice| { found.routes.of(slice.ingress).count() <= request.slices })
            );
            // Of traffic that is scaled alike, whatever was found proves something about the rest.
            let unfinished = found.unfinished;
            let factor = match objective {
                Objective::FootprintWithin(LoadLimit::Given(_)) => None,
                _ => Some(found.scale / best.scale),
            };
            if let Some(factor) = factor.filter(|_| !unfinished.limit && !safety_net) {
                assert!(found.bound <= best.value * factor * (1.0 + 1e-9), "{what}");
                assert!(found.value >= best.bound * factor * (1.0 - 1e-9), "{what}");
            }
            if let Objective::FootprintWithin(LoadLimit::Given(limit)) = objective {
                assert_eq!(unfinished.limit, busiest > limit * (1.0 + 1e-6), "{what}");
            }
            if safety_net {
                let copies = judge::busiest(&judged.copies, &found.capacities).unwrap().1;
                assert_eq!(unfinished.limit, copies > 1.0 + 1e-6, "{what}");
            }
            assert!(found.stopped || found.gap() <= request.gap, "{what}: {}", found.gap());
            assert_eq!(found.schemes.len() < best.schemes.len(), unfinished.schemes, "{what}");
            for (seen, now) in seen.iter_mut().zip([
                unfinished.scale,
                unfinished.limit,
                unfinished.schemes,
                found.bound == 0.0,
                found.bound > 0.0,
            ]) {
                *seen |= now;
            }
        }
        assert!(seen[0] && seen[2] && seen[3] && seen[4], "{name}: {seen:?}");
    }
}
