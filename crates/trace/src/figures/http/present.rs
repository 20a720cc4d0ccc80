//! Figure 6 as tables, charts and text.

use super::super::layout::{chart, shares, table};
use super::super::tally::share;
use super::super::{Figure, FigureId};
use super::{Class, DirectionHttp, HttpSavings, ObjectSum, TOP, WINDOW};
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use oncewire_report::format::{bytes, counted, share as percent};

const METHODS: [&str; 4] = ["object gzip", "RE", "RE + gzip", "caching"];

impl HttpSavings {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        let rows = self.rows();
        Figure {
            number: FigureId::Http.number(),
            id: FigureId::Http.name(),
            title: "HTTP: compression, redundancy elimination and caching",
            source: "thesis, section 2.3 and Table 2.5; RFC 9110, 9111, 9112",
            definition: definition(),
            finding: self.total.finding(),
            brief: self.total.brief(),
            tables: vec![savings(&rows), self.types(), self.cacheability()],
            charts: if self.total.payload > 0 { vec![bars(&rows)] } else { Vec::new() },
            notes: self.notes(),
            memory: self.memory,
        }
    }

    /// Each direction; and the total, unless there is exactly one.
    fn rows(&self) -> Vec<&DirectionHttp> {
        let mut rows: Vec<_> = self.directions.iter().collect();
        if rows.len() != 1 {
            rows.push(&self.total);
        }
        rows
    }

    fn types(&self) -> Table {
        let columns = [
            ("content type", Unit::Text),
            ("objects", Unit::Count),
            ("bodies", Unit::Bytes),
            ("repeated objects", Unit::Count),
            ("repeated", Unit::Share),
            ("object gzip", Unit::Share),
        ];
        let mut types = table(
            "types",
            format!("Objects by content type: the {TOP} with the most bytes"),
            columns,
        );
        types.rows.extend(self.types.iter().map(|of| {
            let of_bodies = |bytes: u64| share(bytes as f64, of.bodies.bytes as f64).into();
            vec![
                of.name.clone().into(),
                of.bodies.objects.into(),
                of.bodies.bytes.into(),
                of.repeated.objects.into(),
                of_bodies(of.repeated.bytes),
                of_bodies(of.gzip),
            ]
        }));
        types
    }

    fn cacheability(&self) -> Table {
        let total = &self.total;
        let columns = [
            ("responses", Unit::Text),
            ("objects", Unit::Count),
            ("bodies", Unit::Bytes),
            ("share of bodies", Unit::Share),
        ];
        let caption = "What a shared cache may do with the responses (each in one class), and what one would have done";
        let mut cacheability = table("cacheability", caption, columns);
        let classes = Class::ALL.iter().map(|&class| (class.name(), total.classes[class as usize]));
        let served = [
            ("served from the cache", total.hits),
            ("of these, with a body other than the stored one", total.stale),
            ("not fresh, but a 304 would have done", total.validated),
        ];
        cacheability.rows.extend(classes.chain(served).filter(|(_, sum)| sum.objects > 0).map(
            |(name, sum)| {
                let of_bodies = share(sum.bytes as f64, total.bodies.bytes as f64);
                vec![name.into(), sum.objects.into(), sum.bytes.into(), of_bodies.into()]
            },
        ));
        cacheability
    }

    fn notes(&self) -> Vec<String> {
        let tcp = &self.tcp;
        let mut notes = vec![format!(
            "TCP: {} seen from the SYN and {} joined in the middle; {} delivered, {} retransmitted or overlapping, {} reordered, {} missing in {}.",
            counted(tcp.streams, "stream"),
            tcp.midstream,
            bytes(tcp.delivered),
            bytes(tcp.retransmitted + tcp.overlapping),
            bytes(tcp.reordered_bytes),
            bytes(tcp.missing),
            counted(tcp.gaps, "gap")
        )];
        let mut note = |number: u64, text: String| {
            if number > 0 {
                notes.push(text);
            }
        };
        let bodies = |sum: &ObjectSum| counted(sum.objects, "body");
        note(
            self.incomplete.objects,
            format!(
                "{} not seen whole ({} seen, {} known to be missing): what was seen counts, but is neither stored nor a repeat.",
                bodies(&self.incomplete),
                bytes(self.incomplete.bytes),
                bytes(self.lost)
            ),
        );
        note(
            self.unmatched,
            format!(
                "{} without a captured request; their framing assumes GET.",
                counted(self.unmatched, "response")
            ),
        );
        let not_compressed = &self.total.not_compressed;
        note(
            not_compressed.objects,
            format!(
                "{} ({}) could not be compressed within the memory limit and {} as incompressible.",
                bodies(not_compressed),
                bytes(not_compressed.bytes),
                if not_compressed.objects == 1 { "counts" } else { "count" }
            ),
        );
        note(
            tcp.evicted + self.evicted_connections,
            format!(
                "To stay within memory, {} and {} were ended early.",
                counted(tcp.evicted, "stream"),
                counted(self.evicted_connections, "connection")
            ),
        );
        note(
            tcp.gaps_for_memory,
            format!("{} given up to stay within memory.", counted(tcp.gaps_for_memory, "gap")),
        );
        note(
            self.forgotten_heads,
            format!(
                "{} dropped because too many were incomplete at once.",
                counted(self.forgotten_heads, "message head")
            ),
        );
        note(
            self.evicted_responses + self.evicted_bodies,
            format!(
                "To stay within memory, {} of the simulated cache and {} were forgotten, least recently used first; later repeats of them do \
                 not count.",
                counted(self.evicted_responses, "response"),
                counted(self.evicted_bodies, "body")
            ),
        );
        notes
    }
}

fn savings(rows: &[&DirectionHttp]) -> Table {
    let first = [
        ("direction", Unit::Text),
        ("packets", Unit::Count),
        ("payload", Unit::Bytes),
        ("objects", Unit::Count),
        ("bodies", Unit::Bytes),
    ];
    let methods =
        METHODS.into_iter().chain(["caching with validation"]).map(|name| (name, Unit::Share));
    let mut savings = table(
        "savings",
        "Savings of HTTP response traffic (Table 2.5)",
        first.into_iter().chain(methods),
    );
    savings.rows.extend(rows.iter().map(|of| {
        let of_payload = |saved: u64| Cell::from(share(saved as f64, of.payload as f64));
        let mut row: Vec<Cell> = vec![
            of.direction.into(),
            of.packets.into(),
            of.payload.into(),
            of.bodies.objects.into(),
            of.bodies.bytes.into(),
        ];
        row.extend(of.saved().map(of_payload));
        row.push(of_payload(of.hits.bytes + of.validated.bytes));
        row
    }));
    savings
}

fn bars(rows: &[&DirectionHttp]) -> Chart {
    let axis = Axis::of("direction", rows.iter().map(|of| of.direction.to_owned()).collect());
    let caption = "Savings of HTTP response traffic by method";
    let mut bars = chart("savings", caption, ChartKind::Bars, axis, shares("savings"));
    bars.series.extend(METHODS.iter().enumerate().map(|(method, name)| {
        let points = rows.iter().enumerate();
        let points = points.filter_map(|(x, of)| {
            Some((x as f64, share(of.saved()[method] as f64, of.payload as f64)?))
        });
        Series::new(*name, points.collect())
    }));
    bars
}

fn definition() -> String {
    format!(
        "HTTP/1 is recognized by its messages, on any port, in reassembled TCP streams. Savings are shares of the payload of all packets of \
         response streams, message heads and retransmissions included, from the packet that completes the first head. Object gzip: each body \
         as sent is compressed alone with gzip -6; one with a content coding counts as compressed already, and one that would grow is left \
         alone. RE: the matches of the reference algorithm in these packets, less their charges. RE + gzip: additionally, what the matches \
         leave of the packets within each {} ms of a direction is compressed together with gzip -6, or left alone if it would grow. Caching: \
         an unbounded shared cache that follows RFC 9111 sees all responses, keyed by Host and target; the body of a response counts if a \
         fresh stored copy would have been served instead. Freshness is by s-maxage, max-age, Expires, otherwise a tenth of the time since \
         Last-Modified, less Age; the capture's clock is not compared with Date. Responses that vary by more than Accept-Encoding, and \
         ranges, are not stored. Caching with validation adds bodies whose stale copy has the same ETag (or Last-Modified), so that a 304 \
         would have done.",
        WINDOW / 1_000_000
    )
}

impl DirectionHttp {
    /// Bytes saved by each of [`METHODS`].
    fn saved(&self) -> [u64; METHODS.len()] {
        [self.gzip, self.matches, self.matches_and_gzip, self.hits.bytes]
    }

    fn brief(&self) -> String {
        if self.payload == 0 {
            return "no HTTP/1 responses".into();
        }
        let [gzip, matches, _, caching] =
            self.saved().map(|saved| percent(saved as f64 / self.payload as f64));
        format!("compression {gzip}, elimination {matches}, proxy {caching} of HTTP")
    }

    fn finding(&self) -> String {
        if self.payload == 0 {
            return "No HTTP/1 responses were recognized; encrypted HTTP cannot be.".into();
        }
        let of_payload = |saved: u64| percent(saved as f64 / self.payload as f64);
        let [gzip, matches, both, caching] = self.saved();
        let best = if matches >= gzip.max(caching) {
            "redundancy elimination saves most, without knowing the protocol"
        } else if both >= gzip.max(caching) {
            "redundancy elimination saves most once compression follows it"
        } else if gzip >= caching {
            "turning on compression at the servers saves most"
        } else {
            "a caching proxy saves most"
        };
        format!(
            "Of {} in HTTP response packets, compressing each object would save {}, redundancy elimination {} ({} with gzip after it), and a \
             caching proxy {}: {best}.",
            bytes(self.payload),
            of_payload(gzip),
            of_payload(matches),
            of_payload(both),
            of_payload(caching)
        )
    }
}
