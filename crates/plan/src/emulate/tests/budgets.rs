//! Operations: how they are divided among ingresses, and among matches.

use super::*;

/// From 0 and from 1 by 2 to 3, where a device has 100 operations in a second.
fn shared() -> Instance {
    let network = network(4, &[(0, 2), (1, 2), (2, 3)]);
    instance(network, &[&[0, 2], &[1, 2]], |provision| provision.operations = PerSecond(100.0))
}

/// With new manifests, each ingress has the operations that they expect of it: they are made for
/// other volumes than those before.
#[test]
fn budgets_are_those_of_the_newest_plan() {
    let of = |volumes: [f64; 2]| {
        let instance = shared().with_volumes(&volumes).unwrap();
        let all = || vec![share(0, ALL, 2)];
        Allocation::of_parts(&instance, vec![all(), all()]).unwrap()
    };
    let instance = shared().with_volumes(&[9.9e5, 1e4]).unwrap();
    let before = Scheme::Planned(of([9.9e5, 1e4]));
    let mut emulation = Emulation::new(&instance, before, settings()).unwrap();
    let change = Change::Manifests { allocation: of([1e4, 9.9e5]), rollout: Rollout::default() };
    emulation.schedule(Event { time: 1_000_000_000, change }).unwrap();
    let mut source = Source::default();
    let mut stored = Vec::new();
    for second in 0..2u64 {
        for packet in 0..200u64 {
            let time = 1_000_000_000 * second + 5_000_000 * packet;
            let content = noise(500, 1000 * second + packet);
            emulation.push(&source.packet(time, (packet % 2) as u32, &content)).unwrap();
        }
        let report = emulation.report();
        stored.push([report.ingresses[0].stored, report.ingresses[1].stored]);
    }
    assert_eq!(stored, [[99, 1], [100, 100]]);
}
