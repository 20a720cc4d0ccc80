//! Operations that are short go to the matches that save most.

use super::*;

/// One path whose last device caches everything and has this many operations in a second. Each
/// second repeats small and large parts of what was stored in the first, the small ones first.
fn saved(operations: f64, priced: bool) -> (u64, u64) {
    let links = network(4, &[(0, 1), (1, 2), (2, 3)]);
    let instance = instance(links, &[&[0, 1, 2]], |provision| {
        provision.operations = PerSecond(operations);
    });
    let profile = testing::measured(&[(0, 0, 200.0, 200.0)]);
    let instance = instance.with_volumes(&[2e5]).unwrap().with_profile(profile).unwrap();
    let all = Share { bytes: 1 << 20, ..share(0, ALL, 2) };
    let allocation = Allocation::of_parts(&instance, vec![vec![all]]).unwrap();
    let rules = Rules { priced, ..Rules::default() };
    let settings = Settings { rules, ..settings() };
    let mut emulation = Emulation::new(&instance, Scheme::Planned(allocation), settings).unwrap();
    let mut source = Source::default();
    for packet in 0..100u64 {
        let content = noise(1000, packet);
        emulation.push(&source.packet(packet * 10_000_000, 0, &content)).unwrap();
    }
    for second in 1..9u64 {
        for packet in 0..200u64 {
            let length = if packet % 10 < 8 { 60 } else { 900 };
            let seed = packet % 100;
            let own = noise(15, 1000 + packet + 1000 * second);
            let content = [&own[..], &noise(1000, seed)[50..50 + length]].concat();
            let time = second * 1_000_000_000 + packet * 5_000_000;
            emulation.push(&source.packet(time, 0, &content)).unwrap();
        }
    }
    let report = emulation.report();
    assert!(report.devices[2].most_operations as f64 <= operations);
    (report.ingresses[0].matched_bytes, report.refusals.overloaded)
}

#[test]
fn scarce_operations_go_to_large_matches() {
    // As many as there are packets in the first second; half of them are for packets to cache.
    let (plain, refused) = saved(100.0, false);
    let (priced, _) = saved(100.0, true);
    assert!(refused > 0);
    assert!(priced as f64 > 1.2 * plain as f64, "{priced} {plain}");
    // With enough of them, prices are nothing.
    assert_eq!(saved(1000.0, true), saved(1000.0, false));
}
