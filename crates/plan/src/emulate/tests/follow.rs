//! New manifests for new routes (thesis, section 3.4, "Traffic and routing dynamics").

use super::*;

/// Caches everything at the first device of the route that ingresses know.
struct First(Instance);

impl Replanner for First {
    fn replan(&mut self, observed: &Observed) -> Result<Option<Allocation>, Error> {
        let of_link = self.0.devices_of_links();
        let routes = observed.routes.iter().map(|(path, links)| (*path, &links[..]));
        let instance = self.0.clone().rerouted(routes, &of_link);
        let first = |path: &crate::Path| vec![share(0, ALL, path.hops[0].device.0)];
        Allocation::of_parts(&instance, instance.paths.iter().map(first).collect()).map(Some)
    }
}

/// From 0 to 3 by 1, and after two seconds by 2. Packets repeat within their second.
fn run(replanner: bool, notice: u64) -> Report {
    let network = network(5, &[(0, 1), (1, 3), (0, 2), (2, 3), (3, 4)]);
    let instance = instance(network, &[&[0, 1, 4]], |_| ());
    let settings = Settings { round_trip: 0, ..settings() };
    let mut emulation = planned(&instance, vec![vec![share(0, ALL, 1)]], settings);
    if replanner {
        emulation = emulation.with_replanner(First(instance.clone()));
    }
    let links = [2, 3, 4].map(LinkId).to_vec();
    let change = Change::Route { path: 0, links, notice };
    emulation.schedule(Event { time: 2_000_000_000, change }).unwrap();
    let mut source = Source::default();
    for second in 0..6u64 {
        for packet in 0..20u64 {
            let payload = [&noise(400, second * 100 + packet / 2)[..], &[packet as u8]].concat();
            let time = second * 1_000_000_000 + packet * 1000;
            emulation.push(&source.packet(time, 0, &payload)).unwrap();
        }
    }
    emulation.report()
}

#[test]
fn manifests_follow_routes() {
    let matches =
        |report: &Report| report.epochs.iter().map(|epoch| epoch.matches).collect::<Vec<_>>();
    // The device on the old route is not on the new one.
    let without = run(false, 0);
    assert_eq!(matches(&without), [10, 10, 0, 0, 0, 0]);
    assert_eq!((without.updates, without.delivered), (0, 120));
    // One plan, at the end of the epoch in which the ingress has learned of it.
    let with = run(true, 0);
    assert_eq!(matches(&with), [10, 10, 0, 10, 10, 10]);
    assert_eq!((with.updates, with.delivered), (1, 120));
    assert_eq!([1, 2, 3].map(|device: usize| with.devices[device].decoded), [20, 30, 0]);
    // Until it knows, packets are encoded for the old route, and lost.
    let late = run(true, 1_000_000_000);
    assert_eq!(matches(&late), [10, 10, 10, 0, 10, 10]);
    assert_eq!((late.undecodable, late.delivered), (10, 110));
}
