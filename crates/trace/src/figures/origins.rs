//! Figure 7: where matches come from (thesis, section 2.4, "Redundancy: Origins", Figure 2.6).

use super::layout::{add_series, chart, drawn, shares, table};
use super::lengths::MatchSum;
use super::tally::{ByDirection, CHARGED, Merge, savings, share};
use super::{Figure, FigureId, Finding, Observer};
use crate::batch::{FlowKey, View};
use crate::results::{Axis, Chart, ChartKind, Table, Unit};
use oncewire_report::format::share as percent;

/// Counts matches by what their packet shares with the packet they are taken from.
#[derive(Debug, Default)]
pub struct Origins {
    counts: ByDirection<Counts>,
}

impl Origins {
    /// Takes about 200 bytes per direction, whatever `memory` is.
    pub fn new(_memory: u64) -> Origins {
        Origins::default()
    }
}

/// What two packets share, in the thesis's terms.
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

const NAMES: [&str; 7] = [
    "intra-flow",
    "inter-flow",
    "reverse",
    "inter-destination",
    "inter-source",
    "inter-node",
    "unknown",
];

fn classify(packet: &FlowKey, origin: &FlowKey) -> Origin {
    if packet == origin {
        Origin::IntraFlow
    } else if packet.pair() == origin.pair() {
        // Where a host talks to itself, only the ports distinguish the two directions.
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

/// The origin of a match by name: of a packet, and the packet the match is taken from, if known.
pub(crate) fn origin_name(packet: &FlowKey, origin: Option<&FlowKey>) -> &'static str {
    NAMES[origin.map_or(Origin::Unknown, |origin| classify(packet, origin)) as usize]
}

#[derive(Clone, Debug, Default)]
struct Counts {
    by_origin: [MatchSum; NAMES.len()],
    same_port: MatchSum,
    same_connection: MatchSum,
}

impl Merge for Counts {
    fn merge(&mut self, other: &Counts) {
        self.by_origin
            .iter_mut()
            .zip(&other.by_origin)
            .for_each(|(mine, theirs)| mine.add(*theirs));
        self.same_port.add(other.same_port);
        self.same_connection.add(other.same_connection);
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
                let one = MatchSum { matches: 1, saved };
                counts.by_origin[origin as usize].add(one);
                let Some(cached) = cached else { continue };
                let (part, is) = match origin {
                    Origin::InterFlow => {
                        (&mut counts.same_port, flow.source_port == cached.flow.source_port)
                    }
                    Origin::Reverse => {
                        (&mut counts.same_connection, cached.flow == flow.reversed())
                    }
                    _ => continue,
                };
                if is {
                    part.add(one);
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Origins(self.compute())
    }
}

/// Figure 7: matches by what their packet shares with the packet they are taken from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatchOrigins {
    /// Each direction with packets; the total comes last if there are several.
    pub directions: Vec<DirectionOrigins>,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// Origins of the matches of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionOrigins {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// Matches by origin: intra-flow, inter-flow, reverse, inter-destination, inter-source,
    /// inter-node, unknown.
    pub by_origin: [MatchSum; NAMES.len()],
    /// Inter-flow matches with the same source port.
    pub same_port: MatchSum,
    /// Reverse matches of the same connection.
    pub same_connection: MatchSum,
}

impl Origins {
    fn compute(self) -> MatchOrigins {
        let rows = self.counts.rows();
        let memory = (rows.len().min(6) * size_of::<Counts>()) as u64;
        let of = |(direction, counts): (_, Counts)| DirectionOrigins {
            direction,
            by_origin: counts.by_origin,
            same_port: counts.same_port,
            same_connection: counts.same_connection,
        };
        MatchOrigins { directions: rows.into_iter().map(of).collect(), memory }
    }
}

impl MatchOrigins {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        let (tables, charts) = self.layout();
        Figure {
            number: FigureId::Origins.number(),
            id: FigureId::Origins.name(),
            title: "Origins of redundancy",
            source: "thesis, section 2.4, Figure 2.6",
            definition: format!(
                "Every match of the reference algorithm, by what its packet shares with the packet it is taken from: the most recent \
                 one in the cache with that content. intra-flow: same addresses, ports and protocol. inter-flow: same source and \
                 destination address, other ports or protocol. reverse: a packet in the opposite direction between the same two \
                 addresses, of the same connection or another; it can only be found where both directions share a cache. \
                 inter-destination: same source address, another destination. inter-source: same destination address, another source. \
                 inter-node: both addresses differ. {CHARGED} Shares are of all matches, and of all bytes saved, in the direction."
            ),
            finding: self.directions.last().and_then(DirectionOrigins::finding).unwrap_or_default(),
            brief: self.directions.last().and_then(DirectionOrigins::brief).unwrap_or_default(),
            tables,
            charts,
            notes: self.notes(),
            memory: self.memory,
        }
    }

    fn layout(&self) -> (Vec<Table>, Vec<Chart>) {
        if self.directions.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let text = [("origin", Unit::Text), ("direction", Unit::Text), ("matches", Unit::Count)];
        let rest = [
            ("share of matches", Unit::Share),
            ("saved", Unit::Bytes),
            ("share of savings", Unit::Share),
        ];
        let mut origins =
            table("origins", "Matches and savings by origin", text.into_iter().chain(rest));
        let rest = [
            ("share of matches of this origin", Unit::Share),
            ("share of savings of this origin", Unit::Share),
        ];
        let caption = "Inter-flow matches from the same source port, and reverse matches from the same connection";
        let mut ports = table("ports", caption, text.into_iter().chain(rest));
        // The total, or the only direction, comes first.
        for of in self.directions.iter().rev() {
            let all = MatchSum::of(&of.by_origin);
            origins.rows.extend(NAMES.iter().zip(&of.by_origin).map(|(origin, sum)| {
                vec![
                    (*origin).into(),
                    of.direction.into(),
                    sum.matches.into(),
                    share(sum.matches as f64, all.matches as f64).into(),
                    sum.saved.into(),
                    share(sum.saved, all.saved).into(),
                ]
            }));
            let parts = [
                (Origin::InterFlow, "inter-flow, same source port", of.same_port),
                (Origin::Reverse, "reverse, same connection", of.same_connection),
            ];
            ports.rows.extend(parts.map(|(origin, label, part)| {
                let all = of.by_origin[origin as usize];
                vec![
                    label.into(),
                    of.direction.into(),
                    part.matches.into(),
                    share(part.matches as f64, all.matches as f64).into(),
                    share(part.saved, all.saved).into(),
                ]
            }));
        }
        let directions = self.directions.iter().map(|of| of.direction.to_owned()).collect();
        let axis = Axis::of("direction", directions);
        let mut bars = chart(
            "origins",
            "Where the savings come from",
            ChartKind::StackedBars,
            axis,
            shares("share of savings"),
        );
        for (i, origin) in NAMES.iter().enumerate() {
            if self.directions.iter().any(|of| of.by_origin[i].matches > 0) {
                let points = self
                    .directions
                    .iter()
                    .enumerate()
                    .map(|(x, of)| (x as f64, of.share_at(i).unwrap_or(0.0)));
                add_series(&mut bars, *origin, points.collect());
            }
        }
        (vec![origins, ports], drawn([bars]))
    }

    fn notes(&self) -> Vec<String> {
        let all = self.directions.last().map(|of| of.by_origin).unwrap_or_default();
        let mut notes = Vec::new();
        if all[Origin::Unknown as usize].matches > 0 {
            notes.push(
                "The origin of a match is unknown if its packet was forgotten because the cache holds too many small packets."
                    .into(),
            );
        }
        if MatchSum::of(&all).matches > 0 {
            notes.push("A match that extends into the next packet of the cache counts for the packet where it begins.".into());
        }
        notes
    }
}

impl DirectionOrigins {
    /// Share of the savings by matches of one origin.
    fn share(&self, origin: Origin) -> Option<f64> {
        self.share_at(origin as usize)
    }

    fn share_at(&self, origin: usize) -> Option<f64> {
        share(self.by_origin[origin].saved, MatchSum::of(&self.by_origin).saved)
    }

    /// Share of the savings by matches between packets with the same source and destination
    /// address.
    fn end_to_end(&self) -> Option<f64> {
        Some(self.share(Origin::IntraFlow)? + self.share(Origin::InterFlow)?)
    }

    fn brief(&self) -> Option<String> {
        let same = percent(self.end_to_end()?);
        Some(format!("{same} of the savings repeat the same two hosts"))
    }

    fn finding(&self) -> Option<String> {
        let end_to_end = self.end_to_end()?;
        let other = 1.0 - end_to_end;
        // The most recent copy does not show what end hosts would miss: an older copy may have
        // passed between the same two hosts.
        let judgement = if end_to_end >= 0.9 {
            "end hosts that remove redundancy between themselves would get nearly all of it"
        } else if end_to_end >= 0.6 {
            "end hosts that remove redundancy between themselves would get most of it"
        } else {
            "end hosts get the rest only if it also passed between the same two hosts before; figure 12 shows how much"
        };
        let mut finding = format!(
            "For {} of the savings, the most recent copy came from a packet with the same source and destination address (intra-flow \
             and inter-flow): {judgement}.",
            percent(end_to_end)
        );
        let elsewhere = self.share(Origin::InterDestination).unwrap_or(0.0);
        if elsewhere > 0.5 * other && elsewhere >= 0.1 {
            finding += &format!(
                " {} come from content that the sender sent to other receivers.",
                percent(elsewhere)
            );
        }
        let inter_flow = self.by_origin[Origin::InterFlow as usize].matches;
        if let Some(same) = share(self.same_port.matches as f64, inter_flow as f64) {
            finding += &format!(
                " {} of the inter-flow matches also have the same source port.",
                percent(same)
            );
        }
        Some(finding)
    }
}

/// The cell of a table in the row that two names begin, for tests.
#[cfg(test)]
pub(super) fn cell(
    table: &Table,
    direction: &str,
    name: &str,
    column: usize,
) -> crate::results::Cell {
    let row = table.rows.iter().find(|row| {
        row[..2] == [direction.into(), name.into()] || row[..2] == [name.into(), direction.into()]
    });
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
        let from = |source: &str, destination: &str| {
            Made::tcp(source, destination).payload(&noise(1, 1004))
        };
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
        let made = |direction| {
            Made::udp("10.0.0.1:80", "10.0.0.2:1000").payload(&noise(1, 504)).direction(direction)
        };
        let (inbound, outbound) = (Direction::Inbound, Direction::Outbound);
        let packets = [made(inbound), made(outbound), made(inbound), made(inbound), made(outbound)];
        let figure = observe(Box::new(Origins::new(0)), &packets, 1 << 20, 3);
        assert_eq!(cell(&figure.tables[0], "inbound", "intra-flow", 4), 1000.0.into());
        assert_eq!(cell(&figure.tables[0], "outbound", "intra-flow", 4), 500.0.into());
        assert_eq!(cell(&figure.tables[0], "total", "intra-flow", 4), 1500.0.into());
        assert_eq!(figure.tables[0].rows[0][..2], ["intra-flow".into(), "total".into()]);
    }

    #[test]
    fn nothing_is_nothing() {
        let figure = observe(Box::new(Origins::new(0)), &[], 1 << 20, 2);
        assert_eq!((figure.number, figure.finding.as_str(), figure.tables.len()), (7, "", 0));
        // One packet without a match: rows without shares.
        let figure = observe(
            Box::new(Origins::new(0)),
            &[Made::udp("10.0.0.1:80", "10.0.0.2:1000").payload(&noise(1, 504))],
            1 << 20,
            2,
        );
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
