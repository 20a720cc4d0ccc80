//! Redundancy-aware routes of a map: reductions of the footprint and gaps of each ingress alone, or
//! the load of all together.
//!
//!     cargo run --release -p oncewire-plan --example routes -- MAP [footprint|load|within] \
//!         [RHO [INTER [GAP [SLICES [ACCESS [POPS]]]]]]
//!
//! With CHANGE in the environment, also how much time a small change takes. For the load, links have 2.5 or 10 Gbit/s, drawn with seed 1, and the traffic is such that the
//! busiest link is loaded to 80 % on routes that minimize that without elimination.

use std::time::Instant;

use oncewire_plan::{
    BitRate, Scenario, Seconds, Text, Watch,
    ra::{self, Cost, LoadLimit, Objective, Request},
};

/// Prints progress if asked to.
struct Log(bool);

impl Watch for Log {
    fn progress(&self, what: &str, done: u64, total: u64) {
        if self.0 {
            eprintln!("{what} {done} {total}");
        }
    }

    fn stopped(&self) -> bool {
        false
    }
}

// More than 100 lines: the lines that it prints, in their order.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let map = arguments.next().ok_or("name a map")?;
    let objective = match arguments.next().as_deref() {
        None | Some("footprint") => Objective::Footprint,
        Some("load") => Objective::Load,
        Some("within") => Objective::FootprintWithin(LoadLimit::Shortest(1.0)),
        Some(other) => return Err(format!("{other}: footprint, load or within").into()),
    };
    let mut number = |usual: f64| arguments.next().map_or(Ok(usual), |text| text.parse::<f64>());
    let (rho, inter, gap) = (number(0.5)?, number(1.0)?, number(1e-3)?);
    let (slices, access, pops) = (number(4.0)?, number(0.0)?, number(0.0)?);
    let mut scenario = Scenario::new(Text::new(&map, std::fs::read_to_string(&map)?));
    scenario.shape.populated_only = true;
    scenario.shape.reduce = (pops > 0.0).then_some(pops as usize);
    scenario.shape.access_routers = (access > 0.0).then_some(access as u32);
    let mut network = scenario.network()?;
    let together = objective != Objective::Footprint;
    if together {
        network = network.with_random_capacities(&[2.5e9, 10e9].map(BitRate), 1);
    }
    let request = Request {
        ingresses: ra::gravity(&network, rho, inter, 1e9)?,
        network: &network,
        cost: Cost::Latency,
        objective,
        capacity: None,
        interval: Seconds(60.0),
        eliminates: Vec::new(),
        plain_load: together.then_some(0.8),
        safety_net: false,
        slices: slices as usize,
        gap,
        against: None,
        compare: true,
    };
    let begun = Instant::now();
    let log = Log(std::env::var_os("VERBOSE").is_some());
    let (outcome, warm) = ra::run_warm(&request, None, &log)?;
    let seconds = begun.elapsed().as_secs_f64();
    if std::env::var_os("CHANGE").is_some() {
        // 1 % of the ingresses send 10 % more, at least one.
        let mut changed = Request { plain_load: None, compare: false, ..request.clone() };
        let count = changed.ingresses.len().div_ceil(100);
        for (_, classes) in &mut changed.ingresses {
            classes.scale(outcome.scale);
        }
        let cold = Instant::now();
        let (_, before) = ra::run_warm(&changed, None, &log)?;
        let cold = cold.elapsed().as_secs_f64();
        for (_, classes) in changed.ingresses.iter_mut().take(count) {
            classes.scale(1.1);
        }
        drop(warm);
        let again = Instant::now();
        let (resumed, _) = ra::run_warm(&changed, Some(&before), &log)?;
        println!(
            "changed: gap {:.5} in {:.3} of the time",
            resumed.gap(),
            again.elapsed().as_secs_f64() / cold
        );
    }
    if together {
        for scheme in &outcome.schemes {
            println!(
                "{}\t{:.5}\t{:.5e}",
                scheme.name,
                scheme.utilization.unwrap_or(f64::NAN),
                scheme.footprint
            );
        }
        println!(
            "value {:.6e}, bound {:.6e}, gap {:.5}, {} trees of {} ingresses, {seconds:.1} s",
            outcome.value,
            outcome.bound,
            outcome.gap(),
            outcome.routes.slices.len(),
            outcome.ingresses.len()
        );
        return Ok(());
    }
    let mut sums = [0.0; 3];
    let mut gaps = Vec::new();
    for of in &outcome.ingresses {
        let reduction = |value: f64| 1.0 - value / of.plain;
        let bound = of.bound.unwrap_or(0.0);
        let each = [reduction(of.shortest), reduction(of.value), reduction(bound)];
        sums.iter_mut().zip(each).for_each(|(sum, each)| *sum += each);
        gaps.push(of.gap().unwrap_or(1.0));
        println!(
            "{}\t{:.4}\t{:.4}\t{:.4}\t{:.5}\t{}",
            network.nodes[of.ingress].label,
            each[0],
            each[1],
            each[2],
            gaps[gaps.len() - 1],
            of.rounds
        );
    }
    gaps.sort_by(f64::total_cmp);
    let count = outcome.ingresses.len();
    println!(
        "{count} ingresses: SP-RE {:.4}, RA {:.4}, bound {:.4}; gap at 95 % of them {:.5}, worst {:.5}; trees cost {:.5}; {seconds:.1} s",
        sums[0] / count as f64,
        sums[1] / count as f64,
        sums[2] / count as f64,
        gaps[(count * 95).div_ceil(100) - 1],
        gaps[count - 1],
        outcome.repair
    );
    Ok(())
}
