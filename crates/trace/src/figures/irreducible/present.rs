//! Figure 14 as tables, charts and text.

use super::super::layout::{chart, shares, table};
use super::super::tally::share;
use super::super::{Figure, FigureId};
use super::encryption::MAX_RECORD;
use super::{
    CLASSES, DEVIATIONS, DirectionReducibility, MAX_SERVICES, MIN_WINDOW, Reducibility, TOP, WINDOW,
};
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use crate::service;
use oncewire_report::format::{counted, share as percent};

impl Reducibility {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        let rows = self.rows();
        Figure {
            number: FigureId::Irreducible.number(),
            id: FigureId::Irreducible.name(),
            title: "What cannot be reduced",
            source: "Oncewire; the thesis, section 2.3, notes that encrypted payload shows minimal redundancy",
            definition: definition(),
            finding: self.total.finding(),
            brief: self.total.brief(),
            tables: vec![classes(&rows), protocols(&rows), self.services()],
            charts: if self.total.payload() > 0 { vec![bars(&rows)] } else { Vec::new() },
            notes: self.notes(),
            memory: self.memory,
        }
    }

    /// Each direction; and the total, unless there is exactly one.
    fn rows(&self) -> Vec<&DirectionReducibility> {
        let mut rows: Vec<_> = self.directions.iter().collect();
        if rows.len() != 1 {
            rows.push(&self.total);
        }
        rows
    }

    fn services(&self) -> Table {
        let caption = format!(
            "Unrecognized content of high entropy, unique: the {TOP} services with the most"
        );
        let columns =
            [("service", Unit::Text), ("bytes", Unit::Bytes), ("share of payload", Unit::Share)];
        let mut services = table("services", caption, columns);
        services.rows.extend(self.services.iter().map(|&(protocol, port, bytes)| {
            let share = share(bytes as f64, self.total.payload() as f64);
            vec![service::short(protocol, port).into(), bytes.into(), share.into()]
        }));
        services
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "The entropy test cannot distinguish compressed from encrypted content. It takes random bytes for low entropy in less than one of \
             10,000 windows. A window that holds both kinds, such as a header with compressed content after it, mostly counts as low entropy."
                .to_owned(),
            "A connection counts as encrypted from the packet that reveals it, handshakes included. Earlier packets are judged by entropy; if the \
             capture begins in the middle of a TLS connection, that can be up to one record. QUIC whose long headers were not captured is judged \
             by entropy too."
                .to_owned(),
        ];
        if self.evicted > 0 {
            notes.push(format!(
                "{} {} forgotten to stay within memory, least recently used first; if they continued, they had to be recognized again.",
                counted(self.evicted, "connection"),
                if self.evicted == 1 { "was" } else { "were" }
            ));
        }
        if self.unnamed > 0 {
            notes.push(format!(
                "{} of services beyond the first {MAX_SERVICES} are only in the sums.",
                counted(self.unnamed, "packet")
            ));
        }
        notes
    }
}

fn classes(rows: &[&DirectionReducibility]) -> Table {
    let columns = [
        ("direction", Unit::Text),
        ("class", Unit::Text),
        ("bytes", Unit::Bytes),
        ("share of payload", Unit::Share),
        ("share of wire", Unit::Share),
    ];
    let mut classes = table("classes", "Bytes by whether they can be reduced", columns);
    for of in rows {
        let (payload, wire) = (of.payload() as f64, of.wire as f64);
        let row = |class: &str, bytes: u64, of_payload: Cell| {
            vec![
                of.direction.into(),
                class.into(),
                bytes.into(),
                of_payload,
                share(bytes as f64, wire).into(),
            ]
        };
        let payload_rows = CLASSES.iter().zip(of.classes());
        classes.rows.extend(
            payload_rows
                .map(|(class, bytes)| row(class, bytes, share(bytes as f64, payload).into())),
        );
        let rest = [
            ("headers and padding", of.headers),
            ("payload not captured", of.missing),
            ("not TCP or UDP", of.other),
        ];
        classes.rows.extend(
            rest.iter()
                .filter(|(_, bytes)| *bytes > 0)
                .map(|&(class, bytes)| row(class, bytes, Cell::None)),
        );
    }
    classes
}

fn protocols(rows: &[&DirectionReducibility]) -> Table {
    let columns = [
        ("direction", Unit::Text),
        ("protocol", Unit::Text),
        ("packets", Unit::Count),
        ("payload", Unit::Bytes),
        ("share of payload", Unit::Share),
        ("repeated", Unit::Share),
    ];
    let mut protocols = table("protocols", "Recognized encryption", columns);
    for of in rows {
        protocols.rows.extend(of.protocols.iter().map(|(protocol, sum)| {
            vec![
                of.direction.into(),
                protocol.name().into(),
                sum.packets.into(),
                sum.payload.into(),
                share(sum.payload as f64, of.payload() as f64).into(),
                share(sum.repeated as f64, sum.payload as f64).into(),
            ]
        }));
    }
    protocols
}

fn bars(rows: &[&DirectionReducibility]) -> Chart {
    let axis = Axis::of("direction", rows.iter().map(|of| of.direction.to_owned()).collect());
    let caption = "Payload by whether it can be reduced";
    let mut bars =
        chart("classes", caption, ChartKind::StackedBars, axis, shares("share of payload"));
    bars.series.extend(CLASSES.iter().enumerate().map(|(class, name)| {
        let points = rows.iter().enumerate().filter(|(_, of)| of.payload() > 0);
        let points =
            points.map(|(x, of)| (x as f64, of.classes()[class] as f64 / of.payload() as f64));
        Series::new(*name, points.collect())
    }));
    bars
}

fn definition() -> String {
    format!(
        "Each payload byte is in one class. Repeated: within a match of the reference algorithm, before charges. Encrypted: in a connection \
         recognized as TLS (a hello, or two consecutive records: content type 20 to 23, version 3.0 to 3.4, at most {MAX_RECORD} bytes), QUIC \
         version 1 or 2 (a long header, then the whole connection), SSH (its banner), DTLS (records that fill a datagram), WireGuard (types and \
         lengths of messages), ESP or IKE on UDP port 4500, or OpenVPN on port 1194. Everything else is judged by entropy. Entropy is high if the \
         bytes of a window pass for random, that is, if Pearson's chi-square against the uniform distribution is at most {DEVIATIONS} standard \
         deviations above its mean of 255. A payload of {WINDOW} bytes or more is judged by the majority of its windows of {WINDOW} to {LAST} bytes; \
         smaller payloads are judged with their neighbors in the flow, {WINDOW} bytes at a time. Too short: fewer than {MIN_WINDOW} bytes together. \
         Shares are of captured payload bytes, and of bytes on the wire.",
        LAST = 2 * WINDOW - 1
    )
}

impl DirectionReducibility {
    fn brief(&self) -> String {
        let payload = self.payload();
        if payload == 0 {
            return "no payload".into();
        }
        let of_payload = |bytes: u64| percent(bytes as f64 / payload as f64);
        format!(
            "{} of the payload is encrypted; {} cannot be reduced",
            of_payload(self.encrypted.payload),
            of_payload(self.fixed())
        )
    }

    fn finding(&self) -> String {
        let payload = self.payload();
        if payload == 0 {
            return "The trace has no payload to judge.".into();
        }
        let of_payload = |bytes: u64| percent(bytes as f64 / payload as f64);
        let text = format!(
            "Nothing in the network can reduce {} of the payload at this point: {} is encrypted and {} looks random, and neither was seen before.",
            of_payload(self.fixed()),
            of_payload(self.encrypted.unique()),
            of_payload(self.high.unique())
        );
        text + &self.advice(payload)
    }

    /// Where redundancy elimination belongs.
    fn advice(&self, payload: u64) -> String {
        let encryption_prevails = 2 * self.encrypted.payload >= payload
            || (2 * self.fixed() >= payload && self.encrypted.unique() > self.high.unique());
        if encryption_prevails {
            let vpn: u64 = self
                .protocols
                .iter()
                .filter(|(of, _)| of.is_vpn())
                .map(|(_, sum)| sum.payload)
                .sum();
            return if 2 * vpn >= self.encrypted.payload {
                " Most of the encryption is a VPN's: put redundancy elimination on the inside of its gateways, before they encrypt.".into()
            } else {
                " Redundancy elimination must come before the encryption: at the end hosts, or at proxies that terminate TLS on both sides."
                    .into()
            };
        }
        if 2 * self.fixed() >= payload {
            return " Most of it was not recognized as encrypted; the table lists its services. If they encrypt, redundancy elimination must \
                    come before that. If they compress, it must see the content uncompressed, or the same compressed content more than once."
                .into();
        }
        format!(
            " This point of the network is a good place: {} of the payload repeats, and {} is new but of low entropy, so compression works.",
            percent(
                (self.high.repeated + self.low.repeated + self.short.repeated) as f64
                    / payload as f64
            ),
            percent(self.low.unique() as f64 / payload as f64)
        )
    }
}
