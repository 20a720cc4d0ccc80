//! Redundancy-aware routes of each ingress of a map alone: reductions of the footprint and gaps.
//!
//!     cargo run --release -p oncewire-plan --example routes -- MAP [RHO [INTER [GAP]]]

use oncewire_plan::{
    Scenario, Text, Unwatched,
    ra::{self, Cost, Objective, Request},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let map = arguments.next().ok_or("name a map")?;
    let mut number = |usual: f64| arguments.next().map_or(Ok(usual), |text| text.parse::<f64>());
    let (rho, inter, gap) = (number(0.5)?, number(1.0)?, number(1e-3)?);
    let mut scenario = Scenario::new(Text::new(&map, std::fs::read_to_string(&map)?));
    scenario.shape.populated_only = true;
    let network = scenario.network()?;
    let request = Request {
        ingresses: ra::gravity(&network, rho, inter, 1.0)?,
        network: &network,
        cost: Cost::Latency,
        objective: Objective::Footprint,
        capacity: None,
        interval: 60.0,
        eliminates: Vec::new(),
        safety_net: false,
        slices: 1,
        gap,
        against: None,
    };
    let outcome = ra::run(&request, &Unwatched)?;
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
        "{count} ingresses: SP-RE {:.4}, RA {:.4}, bound {:.4}; gap at 95 % of them {:.5}, worst {:.5}; trees cost {:.5}",
        sums[0] / count as f64,
        sums[1] / count as f64,
        sums[2] / count as f64,
        gaps[(count * 95).div_ceil(100) - 1],
        gaps[count - 1],
        outcome.repair
    );
    Ok(())
}
