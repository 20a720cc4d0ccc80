//! Carries a synthetic workload over a small network, planned, hop by hop and ideal, and says how
//! fast.
//!
//! `cargo run --release -p oncewire-plan --example emulate [epochs]`

use std::time::Instant;

use oncewire_plan::{
    BitRate, Bytes, Instance, LinkId, Network, NodeId, PerSecond, Placement, Profile, Provision,
    Synthetic, Unwatched,
    emulate::{
        Allocation, Emulation, Scheme, Settings,
        workload::{self, Synthetic as Workload},
    },
    lp,
    network::{Link, Node},
    path::Route,
};

/// A comb: six routers in a row, paths of five hops to the last and shorter ones to the others, and
/// back.
fn network() -> (Network, Vec<Route>) {
    let nodes = (0..6).map(|pop| Node { id: format!("r{pop}"), pop, ..Node::default() }).collect();
    let link = |from, to| Link { from, to, weight: 1.0, latency: 1.0, capacity: None };
    let links = (0..5).map(|at| link(NodeId(at), NodeId(at + 1))).collect();
    let route = |to: u32| Route {
        from: NodeId(0),
        to: NodeId(to),
        slice: 0,
        links: LinkId::first(to as usize).collect(),
        volume: if to == 5 { 8e6 } else { 2e6 },
    };
    (
        Network { name: "row".into(), nodes, links, ..Network::default() },
        (2..6).map(route).collect(),
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let epochs = std::env::args().nth(1).map_or(Ok(6.0), |epochs| epochs.parse())?;
    let (network, routes) = network();
    // A thousandth of the thesis's devices, at a thousandth of its rate.
    let provision = Provision {
        ingress_memory: Bytes(14e6),
        ingress_rate: BitRate(11.2e6),
        edge_memory: Bytes(6e6),
        interior_memory: Bytes(6e6),
        encodings: PerSecond(500.0 * 5.0),
        operations: PerSecond(2500.0),
        ..Provision::default()
    };
    let profile = Synthetic {
        gamma: 0.5,
        intrapop: 0.5,
        intrapath: 0.5,
        length: 400.0,
        ingresses: Default::default(),
    };
    let instance =
        Instance::new(network, routes, &provision, &Placement::Links, Profile::Synthetic(profile))?;
    let (solution, _) = lp::solve(&instance, &lp::Options::default(), None, &Unwatched)?;
    let packets: Vec<_> =
        Workload::new(&instance, workload::Settings { epochs, ..Default::default() })?.collect();
    let bytes: usize = packets.iter().map(|packet| packet.payload.len()).sum();
    println!(
        "{} packets, {:.1} MB, epoch {} s",
        packets.len(),
        bytes as f64 / 1e6,
        instance.epoch.0
    );
    let planned = Scheme::Planned(Allocation::new(&instance, &solution)?);
    for (name, scheme) in
        [("planned", planned), ("hop by hop", Scheme::HopByHop), ("ideal", Scheme::Ideal)]
    {
        let mut emulation = Emulation::new(&instance, scheme, Settings::default())?;
        let begin = Instant::now();
        emulation.run(packets.iter().cloned(), &Unwatched)?;
        let seconds = begin.elapsed().as_secs_f64();
        let report = emulation.report();
        println!(
            "{name}: {:.0} MB/s, footprint -{:.4}, planned {:?}",
            bytes as f64 / 1e6 / seconds,
            report.footprint.reduction(),
            report.expected
        );
        println!(
            "  refused {:?}; collisions {}; shims {} B",
            report.refusals, report.collisions, report.ingresses[0].shim_bytes
        );
        for epoch in &report.epochs {
            println!(
                "  epoch {}: -{:.4}, busiest {:.3}, overloaded {}",
                epoch.epoch,
                epoch.footprint.reduction(),
                epoch.busiest,
                epoch.overloaded
            );
        }
        for device in &report.devices {
            println!(
                "  device: cached {}, decoded {}, most {} of {:.0}, planned {:.0}, cache {} of {:.0}",
                device.cached,
                device.decoded,
                device.most_operations,
                device.limit,
                device.expected.unwrap_or(0.0),
                device.most_used,
                device.memory
            );
        }
    }
    Ok(())
}
