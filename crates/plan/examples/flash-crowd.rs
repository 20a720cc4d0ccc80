//! A flash crowd over routes that were made before it (thesis, section 6.5, figure 6.8): the
//! traffic of one ingress grows by a factor and its redundancy changes, and routes stay. Prints the
//! utilization of the busiest link as a Markdown table.
//!
//!     cargo run --release -p oncewire-plan --example flash-crowd -- MAP INGRESS [GAP [SLICES]]
//!
//! Links have 2.5 or 10 Gbit/s, drawn with seed 1. Before, half of the busiest link is used on
//! routes that minimize that without elimination (LP-SP); a fifth of the traffic is redundant, and
//! half of that goes to another egress.

use oncewire_plan::{
    BitRate, NodeId, Scenario, Seconds, Text, Unwatched,
    ra::{self, Classes, Cost, Objective, Outcome, Request, Routes, judge::judge},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let map = arguments.next().ok_or("name a map")?;
    let label = arguments.next().ok_or("name an ingress")?;
    let mut number = |usual: f64| arguments.next().map_or(Ok(usual), |text| text.parse::<f64>());
    let (gap, slices) = (number(0.01)?, number(8.0)?);
    let mut scenario = Scenario::new(Text::new(&map, std::fs::read_to_string(&map)?));
    scenario.shape.populated_only = true;
    let network = scenario.network()?.with_random_capacities(&[2.5e9, 10e9].map(BitRate), 1);
    let crowd = network.nodes.iter().position(|node| node.label.starts_with(&label));
    let crowd = NodeId::new(crowd.ok_or("the map has no such node")?);

    let routes_for = |ingresses: Vec<(NodeId, Classes)>| -> Result<Outcome, oncewire_plan::Error> {
        let request = Request {
            ingresses,
            network: &network,
            cost: Cost::Latency,
            objective: Objective::Load,
            capacity: None,
            interval: Seconds(60.0),
            eliminates: Vec::new(),
            plain_load: None,
            safety_net: false,
            slices: slices as usize,
            gap,
            against: None,
            compare: false,
        };
        ra::run(&request, &Unwatched)
    };
    // Without redundancy, the least load is that without elimination.
    let plain = routes_for(ra::gravity(&network, 0.0, 0.0, 1e9)?)?;
    let bytes = 1e9 * 0.5 / plain.value;
    let ours = routes_for(ra::gravity(&network, 0.2, 0.5, bytes)?)?;
    println!(
        "Gap of the routes: {:.2} % without elimination, {:.2} % with it.\n",
        100.0 * plain.gap(),
        100.0 * ours.gap()
    );
    for inter in [0.75, 0.25] {
        println!("| f, ρ 0.5, {inter} of it inter | no elimination | elimination on LP-SP | RA |");
        println!("|---|---|---|---|");
        for f in [1.0, 2.0, 3.0, 3.5, 4.0, 5.0] {
            let mut traffic = ra::gravity(&network, 0.2, 0.5, bytes)?;
            let place = traffic.iter().position(|of| of.0 == crowd).ok_or("it sends nothing")?;
            let mut larger = ra::gravity(&network, 0.5, inter, bytes * f)?;
            traffic[place] = larger.swap_remove(place);
            let judged = |routes: &Routes| judge(&network, Cost::Latency, &traffic, routes, &[]);
            let (on_plain, on_ours) = (judged(&plain.routes)?, judged(&ours.routes)?);
            let busiest = |loads: &[f64]| {
                let parts = loads.iter().zip(&plain.capacities);
                parts.filter_map(|(load, capacity)| Some(load / (*capacity)?)).fold(0.0, f64::max)
            };
            println!(
                "| {f} | {:.0} % | {:.0} % | {:.0} % |",
                100.0 * busiest(&on_plain.copies),
                100.0 * busiest(&on_plain.loads),
                100.0 * busiest(&on_ours.loads)
            );
        }
        println!();
    }
    Ok(())
}
