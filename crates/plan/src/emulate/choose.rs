//! Which of several plans to take: the one that is expected to save most, or the one with which these
//! packets save most.
//!
//! What is expected of measured traffic is a mean over an epoch, and traffic comes in bursts. So plans
//! of which about as much is expected can differ by points, and a plan that uses all of a larger memory
//! can do worse than one that does not. Packets decide that.

use super::{
    Allocation,
    report::{Report, Traffic as Footprints},
    spread::{Limits, Offers, Style},
};
use crate::{Error, Instance, Stage, Watch, lp::WarmStart};

/// What decides which plan is taken, if several can be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choose {
    /// What is expected of each plan (`docs/PLANNERS.md`, "Copies").
    #[default]
    Expected,
    /// What each plan saves of the packets, which are carried once for each.
    Packets,
}

/// A plan that could have been taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offered {
    /// With which limits it was made.
    pub limits: Limits,
    /// Share of the footprint that it is expected to save.
    pub expected: f64,
    /// Share of the footprint that it saved after the first epoch, if packets were to decide.
    pub emulated: Option<f64>,
    /// Whether it was taken.
    pub taken: bool,
}

/// Makes plans and takes one: with a start for the next, and all that were to choose from. Where
/// packets decide, `carry` has them carried with a plan.
pub(super) fn choose<E: From<Error>>(
    choose: Choose,
    instance: &Instance,
    style: Style,
    watch: &dyn Watch,
    mut carry: impl FnMut(Allocation) -> Result<Report, E>,
) -> Result<(Allocation, WarmStart, Vec<Offered>), E> {
    watch.stage(Stage::Solve);
    let offers = Offers::new(instance, style, None, watch)?;
    let footprint = instance.footprint();
    let part = |saved: f64| if footprint > 0.0 { saved / footprint } else { 0.0 };
    let mut all: Vec<Offered> = offers
        .all
        .iter()
        .map(|offer| Offered {
            limits: offer.limits,
            expected: part(offer.saved),
            emulated: None,
            taken: false,
        })
        .collect();
    let mut taken = offers.expected();
    let contenders = offers.contenders();
    if choose == Choose::Packets && contenders.len() > 1 {
        let mut most = f64::NEG_INFINITY;
        for at in contenders {
            watch.stage(Stage::Choose);
            let saved = settled(&carry(offers.all[at].allocation.clone())?).reduction();
            all[at].emulated = Some(saved);
            if saved > most {
                (most, taken) = (saved, at);
            }
        }
    }
    all[taken].taken = true;
    Ok((offers.all[taken].allocation.clone(), offers.warm, all))
}

/// The footprint after the first epoch, in which caches fill, with what is sent again.
pub(super) fn settled(report: &Report) -> Footprints {
    let settled = report.epochs.iter().filter(|epoch| epoch.epoch > 0);
    settled.fold(Footprints::default(), |sum, epoch| sum.with(epoch.footprint.with(epoch.resent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Bytes, PerSecond, Scenario, Text, Unwatched,
        emulate::{NoCaptures, Outcome, Request, Rules, Source, run},
    };

    /// Six nodes in two stars; devices have large caches and few operations.
    fn request(choose: Choose) -> Request {
        let node = |id| format!(r#"{{"id":"{id}","population":1}}"#);
        let link = |(a, b)| format!(r#"{{"a":"{a}","b":"{b}","weight":1}}"#);
        let nodes = ["a", "b", "c", "d", "e", "f"].map(node).join(",");
        let links = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("d", "f")];
        let links = links.map(link).join(",");
        let text = format!(r#"{{"name":"two","level":"pop","nodes":[{nodes}],"links":[{links}]}}"#);
        let mut scenario = Scenario::new(Text::new("two.json", text));
        scenario.provision.interior_memory = Bytes(6e10);
        scenario.provision.edge_memory = Bytes(6e10);
        scenario.provision.operations = PerSecond(2e5);
        Request {
            scenario,
            seed: 1,
            source: Source::Synthetic { crowd: None, drift: None },
            epochs: 3,
            scale: Some(0.0005),
            plan: None,
            loss: 0.0,
            matches: 3,
            rules: Rules::default(),
            replan: None,
            reroute: None,
            headroom: 0.0,
            cache_all: false,
            choose,
            compare: false,
            measure: false,
        }
    }

    fn saved(outcome: &Outcome) -> f64 {
        settled(&outcome.runs[0].report).reduction()
    }

    #[test]
    fn packets_decide_between_plans() {
        let expected = run(&request(Choose::Expected), &mut NoCaptures, &Unwatched).unwrap();
        let packets = run(&request(Choose::Packets), &mut NoCaptures, &Unwatched).unwrap();
        let taken = |outcome: &Outcome| -> Vec<Offered> {
            outcome.offered.iter().copied().filter(|offered| offered.taken).collect()
        };
        let ([by_expectation], [by_packets]) = (&taken(&expected)[..], &taken(&packets)[..]) else {
            panic!("{:?}", packets.offered);
        };
        assert_eq!(by_expectation.emulated, None);
        let tried: Vec<f64> = packets.offered.iter().filter_map(|one| one.emulated).collect();
        assert!(tried.len() > 2, "{:?}", packets.offered);
        let best = tried.iter().copied().fold(f64::MIN, f64::max);
        assert_eq!(by_packets.emulated, Some(best));
        // Not all are as good: there was something to decide.
        assert!(tried.iter().any(|one| *one < best - 0.005), "{tried:?}");
        assert!((saved(&packets) - best).abs() < 1e-3, "{} {best}", saved(&packets));
        assert!(saved(&packets) >= saved(&expected) - 1e-3);
    }

    #[test]
    fn the_plan_that_was_carried_can_be_carried_again() {
        let request = request(Choose::Expected);
        let first = run(&request, &mut NoCaptures, &Unwatched).unwrap();
        let plan = first.plan().unwrap();
        let json = crate::manifest::Plan::from_json(&plan.to_json()).unwrap();
        let again = Request { plan: Some(json), ..request };
        let again = run(&again, &mut NoCaptures, &Unwatched).unwrap();
        assert!(
            (saved(&first) - saved(&again)).abs() < 2e-3,
            "{} {}",
            saved(&first),
            saved(&again)
        );
        assert!(again.offered.is_empty());
    }

    #[test]
    fn all_packets_are_cached_if_asked_for() -> Result<(), Error> {
        let some = run(&request(Choose::Expected), &mut NoCaptures, &Unwatched)?;
        let request = Request { cache_all: true, ..request(Choose::Expected) };
        let all = run(&request, &mut NoCaptures, &Unwatched)?;
        let stored = |outcome: &Outcome| -> u64 {
            outcome.runs[0].report.ingresses.iter().map(|ingress| ingress.stored).sum()
        };
        let packets = all.runs[0].report.packets;
        assert!(stored(&some) < packets, "{} {packets}", stored(&some));
        assert!(stored(&all) as f64 > 0.99 * packets as f64, "{} {packets}", stored(&all));
        Ok(())
    }
}
