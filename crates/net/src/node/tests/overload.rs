//! A node that can do less than what falls to it.

use super::*;

/// Ingresses burden it less at once, so that it has about as much to do as it can; nothing is lost; and
/// when it can do more again, it gets more.
#[test]
fn an_overloaded_node_is_spared_and_recovers() {
    let mut world = World::new();
    let mut on_links = OnLinks::new();
    let packets = traffic(40_000, 3);
    let operations = |world: &World, node: usize| {
        let counters = world.nodes[node].counters();
        counters.cached + counters.decoded
    };
    // A packet each millisecond; nodes look at their load five times a second.
    let mut number = 0_usize;
    let mut seconds = |world: &mut World, count: usize, node: usize| -> u64 {
        let before = operations(world, node);
        for (from, to, packet) in &packets[number..number + count * 1000] {
            let now = number as u64 * 1_000_000;
            if number.is_multiple_of(200) {
                for at in 0..5 {
                    let mut steps = Vec::new();
                    world.nodes[at].tick(now, &mut steps);
                    let steps = steps.into_iter().map(|step| (at, step)).collect();
                    assert_eq!(world.perform(steps, &mut on_links, || false), []);
                }
            }
            let left = world.carry(*from, packet, now, &mut on_links, || false);
            assert_eq!(left, [(*to, packet.clone())], "packet {number}");
            number += 1;
        }
        (operations(world, node) - before) / count as u64
    };
    // Whatever falls to the busiest of them.
    seconds(&mut world, 4, 0);
    let busiest = (0..5).max_by_key(|&node| operations(&world, node)).unwrap();
    let whole = seconds(&mut world, 4, busiest);
    assert_eq!((world.sum().overloaded, world.sum().spared), (0, 0));
    assert!(whole > 100, "{whole} operations a second");

    let limit = whole / 3;
    world.nodes[busiest].settings.operations = limit as f64;
    seconds(&mut world, 1, busiest);
    let spared = seconds(&mut world, 10, busiest);
    assert!(world.nodes[busiest].counters().overloaded > 0 && world.sum().spared > 0);
    assert!(
        (limit / 2..=limit * 5 / 4).contains(&spared),
        "{spared} operations a second, of {limit} that it can do and {whole} that there were"
    );
    let others = (0..5).filter(|&node| node != busiest);
    assert!(others.map(|node| world.nodes[node].counters().overloaded).sum::<u64>() == 0);

    world.nodes[busiest].settings.operations = f64::INFINITY;
    seconds(&mut world, 10, busiest);
    let again = seconds(&mut world, 4, busiest);
    assert!(again * 10 >= whole * 8, "{again} operations a second, of {whole}");
}

/// Complaints about nodes that are not on the path, or of somebody who is not, change nothing.
#[test]
fn complaints_of_strangers_change_nothing() {
    let mut world = World::new();
    let mut steps = Vec::new();
    // Node 4 is a neighbor of D only.
    let body = super::super::record::write_overloaded(0, 99, 0.0);
    world.nodes[0].arrive(0, (NodeKind::Back, 3, &body), &mut steps);
    assert_eq!((steps.len(), world.nodes[0].counters().spared), (0, 0));
    world.nodes[0].arrive(0, (NodeKind::Back, 3, &body[..1]), &mut steps);
    assert_eq!(world.nodes[0].counters().violations, 1);
    let unknown = super::super::record::write_overloaded(9999, 1, 0.0);
    world.nodes[0].arrive(0, (NodeKind::Back, 3, &unknown), &mut steps);
    assert_eq!(world.nodes[0].counters().wrong_neighbor, 1);
}
