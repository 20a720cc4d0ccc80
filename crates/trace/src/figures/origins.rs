//! Figure 7: where matches come from (thesis, section 2.4, "Redundancy: Origins", Figure 2.6).

use super::tally::{ByDirection, CHARGED, Merge, percent, savings, share};
use crate::batch::{FlowKey, Observer, View};
use crate::results::{Axis, Chart, ChartKind, Column, Figure, Series, Table, Unit};

/// Every match by what its packet shares with the packet that it is taken from.
#[derive(Debug, Default)]
pub struct Origins {
    counts: ByDirection<Counts>,
}

impl Origins {
    /// Needs about 200 bytes a direction, whatever `memory` is.
    pub fn new(_memory: u64) -> Origins {
        Origins::default()
    }
}

/// What two packets share, in the thesis's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    IntraFlow,
    InterFlow,
    Reverse,
    InterDestination,
    InterSource,
    InterNode,
    Unknown,
}

const NAMES: [&str; 7] = ["intra-flow", "inter-flow", "reverse", "inter-destination", "inter-source", "inter-node", "unknown"];

fn classify(packet: &FlowKey, origin: &FlowKey) -> Origin {
    if packet == origin {
        Origin::IntraFlow
    } else if packet.pair() == origin.pair() {
        // Where a host talks to itself there is no telling its two directions but by the ports.
        let same = packet.source == origin.source && *packet != origin.reversed();
        if same { Origin::InterFlow } else { Origin::Reverse }
    } else if packet.source == origin.source {
        Origin::InterDestination
    } else if packet.destination == origin.destination {
        Origin::InterSource
    } else {
        Origin::InterNode
    }
}

/// The name of what a packet shares with the one that a match is taken from, if that one is known.
pub(crate) fn origin_name(packet: &FlowKey, origin: Option<&FlowKey>) -> &'static str {
    NAMES[origin.map_or(Origin::Unknown, |origin| classify(packet, origin)) as usize]
}

#[derive(Clone, Debug, Default)]
struct Counts {
    matches: [u64; NAMES.len()],
    saved: [f64; NAMES.len()],
    /// Of the inter-flow matches, those with the same source port.
    same_port: (u64, f64),
    /// Of the reverse matches, those of the same connection.
    same_connection: (u64, f64),
}

impl Merge for Counts {
    fn merge(&mut self, other: &Counts) {
        for i in 0..NAMES.len() {
            self.matches[i] += other.matches[i];
            self.saved[i] += other.saved[i];
        }
        for (mine, theirs) in [(&mut self.same_port, other.same_port), (&mut self.same_connection, other.same_connection)] {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
    }
}

impl Counts {
    fn share(&self, origin: Origin) -> Option<f64> {
        share(self.saved[origin as usize], self.saved.iter().sum())
    }

    /// Share of the savings between packets of the same two addresses.
    fn end_to_end(&self) -> Option<f64> {
        Some(self.share(Origin::IntraFlow)? + self.share(Origin::InterFlow)?)
    }
}

impl Observer for Origins {
    fn batch(&mut self, view: &View<'_>) {
        for (i, packet) in view.batch.packets().iter().enumerate() {
            let Some(flow) = packet.flow.filter(|_| packet.len > 0) else { continue };
            let counts = self.counts.at(packet.direction, Counts::default);
            for (found, saved) in savings(view, i) {
                let cached = view.origin(packet, &found);
                let origin = cached.map_or(Origin::Unknown, |cached| classify(&flow, &cached.flow));
                counts.matches[origin as usize] += 1;
                counts.saved[origin as usize] += saved;
                let Some(cached) = cached else { continue };
                let (part, is) = match origin {
                    Origin::InterFlow => (&mut counts.same_port, flow.source_port == cached.flow.source_port),
                    Origin::Reverse => (&mut counts.same_connection, cached.flow == flow.reversed()),
                    _ => continue,
                };
                if is {
                    part.0 += 1;
                    part.1 += saved;
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> Figure {
        let rows = self.counts.rows();
        let memory = (rows.len().min(6) * size_of::<Counts>()) as u64;
        let mut origins = Table {
            id: "origins",
            caption: "Matches and savings by origin".into(),
            columns: vec![
                Column::new("origin", Unit::Text),
                Column::new("direction", Unit::Text),
                Column::new("matches", Unit::Count),
                Column::new("share of matches", Unit::Share),
                Column::new("saved", Unit::Bytes),
                Column::new("share of savings", Unit::Share),
            ],
            rows: Vec::new(),
        };
        let mut ports = Table {
            id: "ports",
            caption: "Inter-flow matches from the same source port, and reverse matches from the same connection".into(),
            columns: vec![
                Column::new("origin", Unit::Text),
                Column::new("direction", Unit::Text),
                Column::new("matches", Unit::Count),
                Column::new("share of matches of this origin", Unit::Share),
                Column::new("share of savings of this origin", Unit::Share),
            ],
            rows: Vec::new(),
        };
        let mut chart = Chart {
            id: "origins",
            caption: "Where the savings come from".into(),
            kind: ChartKind::StackedBars,
            x: Axis::of("direction", rows.iter().map(|(name, _)| (*name).to_owned()).collect()),
            y: Axis::new("share of savings", Unit::Share),
            right: None,
            series: Vec::new(),
        };
        // The total, or the only direction, comes first.
        for (name, counts) in rows.iter().rev() {
            let matches: u64 = counts.matches.iter().sum();
            let saved: f64 = counts.saved.iter().sum();
            for (i, origin) in NAMES.iter().enumerate() {
                origins.rows.push(vec![
                    (*origin).into(),
                    (*name).into(),
                    counts.matches[i].into(),
                    share(counts.matches[i] as f64, matches as f64).into(),
                    counts.saved[i].into(),
                    share(counts.saved[i], saved).into(),
                ]);
            }
            let parts = [
                (Origin::InterFlow, "inter-flow, same source port", counts.same_port),
                (Origin::Reverse, "reverse, same connection", counts.same_connection),
            ];
            for (origin, words, (matches, saved)) in parts {
                let all = origin as usize;
                ports.rows.push(vec![
                    words.into(),
                    (*name).into(),
                    matches.into(),
                    share(matches as f64, counts.matches[all] as f64).into(),
                    share(saved, counts.saved[all]).into(),
                ]);
            }
        }
        for (i, origin) in NAMES.iter().enumerate() {
            if rows.iter().any(|(_, counts)| counts.matches[i] > 0) {
                let points = rows
                    .iter()
                    .enumerate()
                    .map(|(x, (_, counts))| (x as f64, share(counts.saved[i], counts.saved.iter().sum()).unwrap_or(0.0)));
                chart.series.push(Series::new(*origin, points.collect()));
            }
        }

        let all = rows.last().map(|(_, counts)| counts.clone()).unwrap_or_default();
        let mut notes = Vec::new();
        if all.matches[Origin::Unknown as usize] > 0 {
            notes.push(
                "The origin of a match is unknown if its packet was forgotten, because the cache holds too many small packets."
                    .into(),
            );
        }
        if all.matches.iter().sum::<u64>() > 0 {
            notes.push(
                "A match that runs on into the next packet of the cache counts as taken from the packet where it begins.".into(),
            );
        }
        Figure {
            number: 7,
            id: "origins",
            title: "Origins of redundancy",
            source: "thesis, section 2.4, Figure 2.6",
            definition: format!(
                "Every match of the reference algorithm, by what its packet shares with the packet that it is taken from, the most recent \
                 one in the cache with that content. intra-flow: the same source and destination address, ports and protocol; inter-flow: \
                 the same addresses, other ports or protocol; reverse: a packet the other way between the same two addresses, of the same \
                 connection or another, which can be found only where both ways share a cache; inter-destination: the same source address, \
                 another destination; inter-source: the same destination address, another source; inter-node: neither, apart from \
                 reverse. {CHARGED} Shares are of all matches and of all bytes saved in the direction."
            ),
            finding: finding(&all),
            tables: if rows.is_empty() { Vec::new() } else { vec![origins, ports] },
            charts: if chart.series.is_empty() { Vec::new() } else { vec![chart] },
            notes,
            memory,
        }
    }
}

fn finding(all: &Counts) -> String {
    let Some(end_to_end) = all.end_to_end() else { return String::new() };
    let other = 1.0 - end_to_end;
    // The most recent copy says little of what hosts alone would miss: an older copy may have passed between the same two.
    let judgement = if end_to_end >= 0.9 {
        "end hosts that remove redundancy between themselves would get nearly all of it"
    } else if end_to_end >= 0.6 {
        "end hosts that remove redundancy between themselves would get most of it"
    } else {
        "of the rest, end hosts get what also passed between the same two before; figure 12 says how much that is"
    };
    let mut finding = format!(
        "For {} of the savings, the most recent copy came from a packet with the same source and destination address (intra-flow and \
         inter-flow): {judgement}.",
        percent(end_to_end)
    );
    let shared = all.share(Origin::InterDestination).unwrap_or(0.0);
    if shared > 0.5 * other && shared >= 0.1 {
        finding += &format!(" {} come from what a sender sent to other receivers.", percent(shared));
    }
    if let Some(same) = share(all.same_port.0 as f64, all.matches[Origin::InterFlow as usize] as f64) {
        finding += &format!(" {} of the inter-flow matches have the same source port too.", percent(same));
    }
    finding
}

/// The cell of a table in the row that two names begin, for tests.
#[cfg(test)]
pub(super) fn cell(table: &Table, direction: &str, name: &str, column: usize) -> crate::results::Cell {
    let row =
        table.rows.iter().find(|row| row[..2] == [direction.into(), name.into()] || row[..2] == [name.into(), direction.into()]);
    row.unwrap_or_else(|| panic!("no {direction} {name} in {table:?}"))[column].clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Direction;
    use crate::batch::testing::{Made, noise, observe};
    use crate::results::Cell;

    #[test]
    fn each_origin_once() {
        let from = |source: &str, destination: &str| Made::tcp(source, destination).payload(&noise(1, 1004));
        // Each packet repeats the one before.
        let packets = [
            from("10.0.0.1:80", "10.0.0.2:1000"),
            from("10.0.0.1:80", "10.0.0.2:1000"), // intra-flow
            from("10.0.0.1:80", "10.0.0.2:1001"), // inter-flow, same source port
            from("10.0.0.1:81", "10.0.0.2:1001"), // inter-flow
            from("10.0.0.2:1001", "10.0.0.1:81"), // reverse, same connection
            from("10.0.0.1:82", "10.0.0.2:1001"), // reverse
            from("10.0.0.1:82", "10.0.0.3:1001"), // inter-destination
            from("10.0.0.4:82", "10.0.0.3:1001"), // inter-source
            from("10.0.0.5:82", "10.0.0.6:1001"), // inter-node
        ];
        let figure = observe(Box::new(Origins::new(0)), &packets, 1 << 20, 2);
        let (origins, ports) = (&figure.tables[0], &figure.tables[1]);
        for (name, matches) in NAMES.iter().zip([1u64, 2, 2, 1, 1, 1, 0]) {
            assert_eq!(cell(origins, "all", name, 2), matches.into(), "{name}");
            assert_eq!(cell(origins, "all", name, 3), (matches as f64 / 8.0).into());
            assert_eq!(cell(origins, "all", name, 4), (matches as f64 * 1000.0).into());
            assert_eq!(cell(origins, "all", name, 5), (matches as f64 / 8.0).into());
        }
        assert_eq!(cell(ports, "all", "inter-flow, same source port", 3), 0.5.into());
        assert_eq!(cell(ports, "all", "reverse, same connection", 3), 0.5.into());
        assert!(figure.finding.starts_with("For 37.5 % of the savings"), "{}", figure.finding);
        assert!(figure.finding.contains("figure 12"), "{}", figure.finding);
        assert_eq!(figure.charts[0].series.len(), 6);
    }

    #[test]
    fn directions_have_rows_and_a_total() {
        let made = |direction| Made::udp("10.0.0.1:80", "10.0.0.2:1000").payload(&noise(1, 504)).direction(direction);
        let (inbound, outbound) = (Direction::Inbound, Direction::Outbound);
        let packets = [made(inbound), made(outbound), made(inbound), made(inbound), made(outbound)];
        let figure = observe(Box::new(Origins::new(0)), &packets, 1 << 20, 3);
        assert_eq!(cell(&figure.tables[0], "inbound", "intra-flow", 4), 1000.0.into());
        assert_eq!(cell(&figure.tables[0], "outbound", "intra-flow", 4), 500.0.into());
        assert_eq!(cell(&figure.tables[0], "total", "intra-flow", 4), 1500.0.into());
        // The verdict reads the first row of an origin.
        assert_eq!(figure.tables[0].rows[0][..2], ["intra-flow".into(), "total".into()]);
    }

    #[test]
    fn nothing_is_nothing() {
        let figure = observe(Box::new(Origins::new(0)), &[], 1 << 20, 2);
        assert_eq!((figure.number, figure.finding.as_str(), figure.tables.len()), (7, "", 0));
        // One packet without a match: rows without shares.
        let figure =
            observe(Box::new(Origins::new(0)), &[Made::udp("10.0.0.1:80", "10.0.0.2:1000").payload(&noise(1, 504))], 1 << 20, 2);
        assert_eq!(cell(&figure.tables[0], "all", "intra-flow", 5), Cell::None);
    }

    #[test]
    fn a_host_that_talks_to_itself() {
        let key = |a: u16, b: u16| FlowKey {
            source: [127, 0, 0, 1].into(),
            destination: [127, 0, 0, 1].into(),
            source_port: a,
            destination_port: b,
            protocol: 6,
        };
        assert_eq!(classify(&key(1, 2), &key(1, 2)), Origin::IntraFlow);
        assert_eq!(classify(&key(1, 2), &key(2, 1)), Origin::Reverse);
        assert_eq!(classify(&key(1, 2), &key(1, 3)), Origin::InterFlow);
    }
}
