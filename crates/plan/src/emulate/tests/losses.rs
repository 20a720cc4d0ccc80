//! What losses cost, and what is referred to after them.

use super::*;

fn rules(confirm: bool) -> Rules {
    Rules { confirm, ..Rules::default() }
}

#[test]
fn what_was_lost_is_not_referred_to_once_it_was_sent_again() {
    for confirm in [false, true] {
        let instance = line();
        let settings = Settings { rules: rules(confirm), round_trip: 100, ..settings() };
        let mut emulation = planned(&instance, vec![vec![share(0, ALL, 1)]], settings);
        for (time, loss) in [(0, 1.0), (1, 0.0)] {
            emulation.schedule(Event { time, change: Change::Loss(loss) }).unwrap();
        }
        let mut source = Source::default();
        let content = noise(600, 1);
        let mut send = |time, last: &[u8]| {
            emulation.push(&source.packet(time, 0, &[&content[..], last].concat())).unwrap();
            let report = emulation.report();
            [report.lost, report.undecodable, report.ingresses[0].matches]
        };
        // The first is lost; the second comes before anyone knows.
        assert_eq!(send(0, b"a"), [1, 0, 0]);
        assert_eq!(send(50, b"b"), [1, 1, 1]);
        // Known now; the second is sent again later. Without care, packets depend on lost ones, and
        // on those that depended on them.
        assert_eq!(send(120, b"c"), if confirm { [1, 1, 1] } else { [1, 2, 2] });
        // The third depends on no other.
        assert_eq!(send(180, b"d"), if confirm { [1, 1, 2] } else { [1, 3, 3] });
        assert_eq!(send(300, b"e"), if confirm { [1, 1, 3] } else { [1, 4, 4] });
        let report = emulation.report();
        assert_eq!(report.refusals.unconfirmed > 0, confirm);
        // Three links. The lost one would have been lost anyway.
        let again = 3 * 641;
        assert_eq!(
            report.resent,
            Traffic { before: again, after: again * (1 + report.undecodable) }
        );
        let epochs = report.epochs.iter().fold(Traffic::default(), |sum, of| sum.with(of.resent));
        assert_eq!(epochs, report.resent);
    }
}

/// With 1 % loss a link, few packets are undecodable, and little is saved less.
#[test]
fn lost_packets_leave_no_chains() {
    let run = |confirm, loss| {
        let instance = fork();
        let shares = vec![
            vec![share(0, HALF, 0), share(HALF, ALL, 1)],
            vec![share(0, HALF, 0), share(HALF, ALL, 2)],
        ];
        let settings = Settings { rules: rules(confirm), loss, ..settings() };
        let mut emulation = planned(&instance, shares, settings);
        let mut source = Source::default();
        let mut random = SplitMix64(3);
        // A thousand a second; most repeat one of the last two thousand in part.
        for number in 0..12_000u64 {
            let back = random.below(2000.min(number + 1));
            let payload = [&noise(400, number - back)[..], &noise(200, 1 << 40 | number)].concat();
            let packet = source.packet(number * 1_000_000, (number % 2) as u32, &payload);
            emulation.push(&packet).unwrap();
        }
        emulation.report()
    };
    let (clean, careless, careful) = (run(true, 0.0), run(false, 0.01), run(true, 0.01));
    assert_eq!(clean.resent, Traffic::default());
    assert_eq!(clean.refusals.unconfirmed, 0);
    let lost = careful.lost;
    assert!(lost > 150, "{lost}");
    // What hosts see is at most 1.1 times the lost packets.
    let (few, many) = (careful.undecodable, careless.undecodable);
    assert!(few * 10 < lost && few * 3 < many, "{few} {many} {lost}");
    let saved = |report: &Report| report.footprint.with(report.resent).reduction();
    assert!(saved(&careful) > 0.85 * saved(&clean), "{} {}", saved(&careful), saved(&clean));
    assert!(saved(&careful) > saved(&careless), "{} {}", saved(&careful), saved(&careless));
}
