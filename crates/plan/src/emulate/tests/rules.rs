//! Rules of caching and of references, beyond the published ones.

use super::*;

fn with(gaps: Gaps, copies: u8, queues: Queues) -> Settings {
    Settings { rules: Rules { gaps, copies, queues, ..Rules::default() }, ..settings() }
}

/// A, B with a part of A, and C with that part and B's own; where A and B are cached, and how many
/// matches and bytes each device decodes of B and C.
fn three(settings: &Settings, cached: [u32; 2]) -> Vec<(u64, u64)> {
    let instance = line();
    let mut source = Source::default();
    // The lower half of hashes at the device that comes first.
    let (low, high) = (cached[0].min(cached[1]), cached[0].max(cached[1]));
    let shares = match low == high {
        true => vec![vec![share(0, ALL, low)]],
        false => vec![vec![share(0, HALF, low), share(HALF, ALL, high)]],
    };
    let half = |device| if device == low { 0..HALF } else { HALF..ALL };
    let mut emulation = planned(&instance, shares, settings.clone());
    let (common, own) = (noise(400, 1), noise(400, 2));
    let a = [&common[..], &noise(100, 3)].concat();
    let b = [&common[..], &own].concat();
    let c = [&noise(50, 4)[..], &common, &own].concat();
    emulation.push(&source.packet_in(settings, half(cached[0]), 0, &a)).unwrap();
    emulation.push(&source.packet_in(settings, half(cached[1]), 0, &b)).unwrap();
    emulation.push(&source.packet_in(settings, half(cached[1]), 0, &c)).unwrap();
    let report = emulation.report();
    assert_eq!(report.delivered, 3);
    report.devices.iter().map(|device| (device.decoded, device.decoded_bytes)).collect()
}

/// What a device decodes itself, or a device upstream of it, it caches whole; what is decoded
/// downstream is a gap.
#[test]
fn a_gap_is_what_the_caching_device_lacks() {
    let (published, precise) =
        (with(Gaps::Matched, 1, Queues::Paths), with(Gaps::Undecoded, 1, Queues::Paths));
    // A at the first device, B and C at the last: B is whole there, and C is a match of 800 bytes.
    assert_eq!(three(&published, [0, 2])[0], (2, 800));
    assert_eq!(three(&published, [0, 2])[2], (1, 400));
    assert_eq!(three(&precise, [0, 2])[0], (1, 400));
    assert_eq!(three(&precise, [0, 2])[2], (1, 800));
    // All at one device, which decodes before it caches.
    assert_eq!(three(&published, [1, 1])[1], (3, 1200));
    assert_eq!(three(&precise, [1, 1])[1], (2, 1200));
    // A at the last: B at the first device has a gap, with either rules.
    let of_first = [(0, 0), (1, 400)];
    let [first, last] = [three(&precise, [2, 0])[0], three(&precise, [2, 0])[2]];
    assert_eq!((first, last), (of_first[1], (2, 800)));
    assert_eq!(three(&precise, [2, 0]), three(&published, [2, 0]));
}

/// Copies are compared by bytes times links; on another branch they do not count.
#[test]
fn of_several_copies_the_one_that_saves_most_is_used() {
    let content = noise(600, 1);
    // The second packet repeats a part of the first, and its copy of that is newer.
    for (copies, matches) in [(1, 2), (2, 1), (16, 1)] {
        let instance = line();
        let settings = with(Gaps::Undecoded, copies, Queues::Paths);
        let mut emulation = planned(&instance, vec![vec![share(0, ALL, 1)]], settings);
        let mut source = Source::default();
        emulation.push(&source.packet(0, 0, &content)).unwrap();
        emulation.push(&source.packet(1, 0, &[&content[..100], &noise(400, 2)].concat())).unwrap();
        assert_eq!(emulation.report().ingresses[0].matches, 1);
        emulation.push(&source.packet(2, 0, &[&content[..], b"other"].concat())).unwrap();
        let report = emulation.report();
        assert_eq!(report.ingresses[0].matches - 1, matches, "{copies}");
        assert_eq!(report.devices[1].decoded_bytes, 700);
    }
    // The newer copy is on the other branch.
    let instance = fork();
    for (copies, matches) in [(1, 0), (2, 1)] {
        let settings = with(Gaps::Undecoded, copies, Queues::Fair);
        let mut source = Source::default();
        let shares = vec![vec![share(0, ALL, 1)], vec![share(0, ALL, 2)]];
        let mut emulation = planned(&instance, shares, settings);
        for (time, path) in [0, 1, 0].into_iter().enumerate() {
            let payload = [&content[..], &[time as u8]].concat();
            emulation.push(&source.packet(time as u64, path, &payload)).unwrap();
        }
        let report = emulation.report();
        assert_eq!((report.ingresses[0].matches, report.devices[1].decoded), (matches, matches));
        assert_eq!(report.refusals.overlap, 2 - matches, "{copies}");
    }
}

/// Two paths that cache at one device: a burst of one takes the room that the other does not use.
#[test]
fn paths_share_a_queue() {
    let instance = fork();
    let bucket = |packets: u64| Share { bytes: packets * 540, ..share(0, ALL, 0) };
    // Thirty packets of path 0, then one of them again; with five of path 1 before or after.
    let run = |queues: Queues, again: u64, quiet: [bool; 2]| {
        let settings = with(Gaps::Undecoded, 4, queues);
        let mut emulation = planned(&instance, vec![vec![bucket(4)], vec![bucket(16)]], settings);
        let mut source = Source::default();
        let few = |emulation: &mut Emulation<'_>, source: &mut Source| {
            for number in 100..105 {
                emulation.push(&source.packet(0, 1, &noise(500, number))).unwrap();
            }
        };
        if quiet[0] {
            few(&mut emulation, &mut source);
        }
        for number in 0..30 {
            emulation.push(&source.packet(0, 0, &noise(500, number))).unwrap();
        }
        if quiet[1] {
            few(&mut emulation, &mut source);
        }
        let packets = emulation.report().devices[0].packets;
        let payload = [&noise(500, again)[..], b"again"].concat();
        emulation.push(&source.packet(1, u32::from(again >= 100), &payload)).unwrap();
        (packets, emulation.report().ingresses[0].matches)
    };
    // The first and the last of the burst, which is alone.
    for (again, [paths, whole]) in [(9, [0, 0]), (10, [0, 1]), (25, [0, 1]), (26, [1, 1])] {
        assert_eq!(run(Queues::Paths, again, [false; 2]), (4, paths), "{again}");
        assert_eq!(run(Queues::Ingress, again, [false; 2]), (20, whole), "{again}");
        assert_eq!(run(Queues::Fair, again, [false; 2]), (20, whole), "{again}");
    }
    // It does not drive out what another path has stored lately, nor keep that from coming.
    assert_eq!(run(Queues::Ingress, 104, [true, false]), (20, 0));
    assert_eq!(run(Queues::Fair, 104, [true, false]), (20, 1));
    assert_eq!(run(Queues::Fair, 104, [false, true]), (20, 1));
    assert_eq!(run(Queues::Fair, 29, [true, false]), (20, 0));
    assert_eq!(run(Queues::Fair, 29, [false, true]), (20, 1));
}

/// Several copies take no more memory than one.
#[test]
fn tables_are_as_large_with_any_rules() {
    let of = |rules: Rules| {
        let instance = line();
        let bucket = Share { bytes: 1 << 20, ..share(0, ALL, 1) };
        let settings = Settings { rules, ..Settings::default() };
        let mut emulation = planned(&instance, vec![vec![bucket]], settings);
        let mut source = Source::default();
        for time in 0..600 {
            emulation.push(&source.packet(time, 0, &noise(1400, time))).unwrap();
        }
        emulation.report().ingresses[0].table_bytes
    };
    let (published, ours) = (of(Rules::PUBLISHED), of(Rules::default()));
    assert!(published > 1 << 20, "it has grown: {published}");
    assert!(ours <= published + 128, "{ours} {published}");
}
