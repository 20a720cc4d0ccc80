//! Records of a history, summed up.

use oncewire_net::history::{Amounts, PeerName, Record};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Seconds of a day.
pub(crate) const DAY: u64 = 86_400;
/// Lengths of the bars of a chart, in seconds: the smallest that gives [`MOST_BARS`] at most.
const LENGTHS: [u64; 8] = [60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, DAY];
/// Most bars of a chart.
const MOST_BARS: u64 = 36;

/// What was carried in a period.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    /// The period, in seconds since 1970.
    pub(crate) since: u64,
    pub(crate) until: u64,
    /// The sum; its number of seconds are those in which a process recorded.
    pub(crate) all: Record,
    /// By peer, those with the most bytes first.
    pub(crate) peers: Vec<(Arc<PeerName>, Amounts)>,
    /// By service, as peers.
    pub(crate) services: Vec<(Arc<PeerName>, Amounts)>,
    /// By day (UTC), those without records left out.
    pub(crate) days: BTreeMap<u64, Record>,
    /// Length of a bar in seconds, and the bars.
    pub(crate) length: u64,
    pub(crate) bars: BTreeMap<u64, Amounts>,
}

impl Sums {
    /// Sums up the records that begin in a period.
    pub(crate) fn of(records: &[Record], since: u64, until: u64) -> Sums {
        let within: Vec<&Record> =
            records.iter().filter(|record| (since..=until).contains(&record.time)).collect();
        let first = within.first().map_or(until, |record| record.time);
        let fits = |length: &&u64| (until - first) / **length < MOST_BARS;
        let length = *LENGTHS.iter().find(fits).unwrap_or(&DAY);
        let mut sums = Sums { since, until, length, ..Sums::default() };
        let mut by_name = [HashMap::<Arc<PeerName>, Amounts>::new(), HashMap::new()];
        for record in within {
            let start = |length: u64| record.time - record.time % length;
            // Peers are summed up without a limit to their number.
            let sum = Record { peers: Vec::new(), services: Vec::new(), ..record.clone() };
            sums.all.add(&sum);
            sums.days.entry(start(DAY)).or_default().add(&sum);
            *sums.bars.entry(start(length)).or_default() += record.amounts;
            for (sums, list) in by_name.iter_mut().zip([&record.peers, &record.services]) {
                for one in list {
                    *sums.entry(one.peer.clone()).or_default() += one.amounts;
                }
            }
        }
        [sums.peers, sums.services] = by_name.map(|all| {
            let mut list: Vec<_> = all.into_iter().collect();
            list.sort_by(|(a, one), (b, other)| {
                other.content().cmp(&one.content()).then_with(|| a.cmp(b))
            });
            list
        });
        sums
    }
}

/// What was saved of bytes, which is negative if more crossed the wire.
pub(crate) fn saved(amounts: &Amounts) -> i128 {
    i128::from(amounts.content()) - i128::from(amounts.wire())
}

/// `2026-01-31`.
pub(crate) fn date(time: u64) -> String {
    written(time).chars().take(10).collect()
}

/// `23:59`.
pub(crate) fn clock(time: u64) -> String {
    written(time).chars().skip(11).take(5).collect()
}

/// `2026-01-31 23:59`.
pub(crate) fn moment(time: u64) -> String {
    written(time).chars().take(16).collect()
}

fn written(time: u64) -> String {
    oncewire_report::format::time(i64::try_from(time).unwrap_or(0).saturating_mul(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_net::history::PeerRecord;

    #[test]
    fn records_are_summed_by_peer_day_and_bar() {
        let one = |time: u64, bytes: u64| {
            let amounts = Amounts { sent_bytes: bytes, wire_sent_bytes: 1, ..Amounts::default() };
            let peer = PeerRecord {
                peer: Arc::new(PeerName::new("ow1a", (time % 2 == 1).then_some("odd"))),
                amounts,
            };
            let services = vec![PeerRecord {
                peer: Arc::new(PeerName::of_service("pypi.example:443")),
                amounts,
            }];
            Record { time, seconds: 60, amounts, peers: vec![peer], services, ..Record::default() }
        };
        let records = [one(10, 1), one(DAY - 1, 2), one(DAY, 4), one(3 * DAY, 8)];
        let sums = Sums::of(&records, 11, 3 * DAY);
        assert_eq!((sums.all.amounts.sent_bytes, sums.all.seconds), (14, 180));
        assert_eq!(sums.days.keys().copied().collect::<Vec<_>>(), [0, DAY, 3 * DAY]);
        assert_eq!(sums.length, 3 * 3600);
        assert_eq!(sums.bars.len(), 3);
        assert_eq!(sums.peers[0].1.sent_bytes, 12);
        assert_eq!((sums.services.len(), sums.services[0].1.sent_bytes), (1, 14));
        assert_eq!((sums.peers[1].0.label(), sums.peers[1].1.sent_bytes), ("odd".into(), 2));
        assert_eq!(saved(&sums.all.amounts), 11);
        assert_eq!((date(DAY - 1), clock(DAY - 1)), ("1970-01-01".into(), "23:59".into()));
        assert_eq!(Sums::of(&[], 0, 5).all, Record::default());
    }
}
