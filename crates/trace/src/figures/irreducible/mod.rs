//! Figure 14: what no middlebox can reduce: payload that is encrypted, or as good as random and new.

mod encryption;

use crate::batch::{Direction, FlowKey, Kind, Observer, Packet, View};
use crate::lru::Lru;
use crate::results::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use encryption::{Protocol, Recogniser};
use std::collections::HashMap;

/// Bytes over which entropy is judged, and fewest over which it can be.
const WINDOW: usize = 512;
const MIN_WINDOW: usize = 128;

/// Standard deviations above the mean of random bytes up to which content is of high entropy.
const DEVIATIONS: f64 = 5.0;

/// Services of unrecognised content told apart; each takes 64 bytes.
const MAX_SERVICES: usize = 1 << 13;

/// Services in the table.
const TOP: usize = 10;

/// How much of the traffic cannot be reduced where it was captured.
#[derive(Debug)]
pub struct Irreducible {
    connections: Lru<FlowKey, Connection>,
    max_connections: usize,
    most_connections: usize,
    evicted: u64,
    sums: Sums,
}

/// A connection; its key is the lower of its two flows.
#[derive(Debug, Default)]
struct Connection {
    recogniser: Recogniser,
    pending: [Option<Box<Pending>>; 2],
}

impl Connection {
    const BYTES: usize = Lru::<FlowKey, Connection>::ENTRY + 2 * (size_of::<Pending>() + 16);
}

/// Small packets of a flow that are judged together.
#[derive(Debug)]
struct Pending {
    direction: Direction,
    service: (u8, u16),
    counts: [u16; 256],
    tally: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    packets: u64,
    payload: u64,
    /// Bytes of it within matches.
    repeated: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.packets += other.packets;
        self.payload += other.payload;
        self.repeated += other.repeated;
    }

    fn unique(&self) -> u64 {
        self.payload - self.repeated
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Way {
    encrypted: [Tally; Protocol::ALL.len()],
    high: Tally,
    low: Tally,
    short: Tally,
    headers: u64,
    missing: u64,
    /// Bytes of packets that are not TCP or UDP.
    other: u64,
    wire: u64,
}

impl Way {
    fn add(&mut self, other: &Way) {
        self.encrypted.iter_mut().zip(&other.encrypted).for_each(|(to, from)| to.add(from));
        self.high.add(&other.high);
        self.low.add(&other.low);
        self.short.add(&other.short);
        self.headers += other.headers;
        self.missing += other.missing;
        self.other += other.other;
        self.wire += other.wire;
    }

    fn all_encrypted(&self) -> Tally {
        let mut sum = Tally::default();
        self.encrypted.iter().for_each(|tally| sum.add(tally));
        sum
    }

    fn payload(&self) -> u64 {
        self.all_encrypted().payload + self.high.payload + self.low.payload + self.short.payload
    }

    /// The classes of payload bytes, in the order of [`CLASSES`].
    fn classes(&self) -> [u64; CLASSES.len()] {
        let encrypted = self.all_encrypted();
        [
            encrypted.unique(),
            encrypted.repeated,
            self.high.unique(),
            self.high.repeated,
            self.low.unique(),
            self.low.repeated,
            self.short.unique(),
            self.short.repeated,
        ]
    }
}

const CLASSES: [&str; 8] = [
    "encrypted",
    "encrypted, repeated",
    "high entropy, unique",
    "high entropy, repeated",
    "low entropy, unique",
    "low entropy, repeated",
    "too short, unique",
    "too short, repeated",
];

#[derive(Debug, Default)]
struct Sums {
    ways: [Way; Direction::ALL.len()],
    services: HashMap<(u8, u16), Tally>,
    unnamed: u64,
}

impl Sums {
    fn judged(&mut self, direction: Direction, service: (u8, u16), tally: &Tally, high: Option<bool>) {
        let way = &mut self.ways[direction.index()];
        match high {
            None => way.short.add(tally),
            Some(false) => way.low.add(tally),
            Some(true) => {
                way.high.add(tally);
                if self.services.len() < MAX_SERVICES || self.services.contains_key(&service) {
                    self.services.entry(service).or_default().add(tally);
                } else {
                    self.unnamed += tally.packets;
                }
            }
        }
    }

    fn close(&mut self, pending: &Pending) {
        let high = (pending.tally.payload >= MIN_WINDOW as u64).then(|| is_uniform(&pending.counts));
        self.judged(pending.direction, pending.service, &pending.tally, high);
    }

    fn end(&mut self, connection: &Connection) {
        connection.pending.iter().flatten().for_each(|pending| self.close(pending));
    }
}

/// Whether bytes of this histogram can be random: Pearson's chi-square against the uniform distribution.
///
/// For n random bytes the statistic has the mean 255 and the variance 510 (1 - 1/n), whatever n is; its distribution is not yet that of
/// the limit where cells expect few bytes, so the threshold is set by the deviation: five are passed by less than one in 10,000 windows
/// of 128 random bytes and more. Base64 lies some seventeen deviations off at 128 bytes, more at more.
fn is_uniform(counts: &[u16; 256]) -> bool {
    let bytes: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let squares: u64 = counts.iter().map(|&count| u64::from(count).pow(2)).sum();
    let bytes = bytes as f64;
    let statistic = 256.0 * squares as f64 / bytes - bytes;
    statistic <= 255.0 + DEVIATIONS * (510.0 * (1.0 - 1.0 / bytes)).sqrt()
}

fn count(counts: &mut [u16; 256], bytes: &[u8]) {
    bytes.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
}

/// Whether a payload of at least a window is of high entropy: most of its windows are. Larger windows would find compressed content out.
fn is_high(payload: &[u8]) -> bool {
    let windows = (payload.len() / WINDOW).max(1);
    let uniform = payload
        .chunks(payload.len().div_ceil(windows))
        .filter(|window| {
            let mut counts = [0; 256];
            count(&mut counts, window);
            is_uniform(&counts)
        })
        .count();
    2 * uniform >= windows
}

impl Irreducible {
    /// A figure that may take `memory` bytes. At least a few connections are known, and 1 MB is taken for services.
    pub fn new(memory: u64) -> Irreducible {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX).saturating_sub(2 * MAX_SERVICES * 64);
        Irreducible {
            connections: Lru::default(),
            max_connections: (memory / Connection::BYTES).max(2),
            most_connections: 0,
            evicted: 0,
            sums: Sums::default(),
        }
    }

    fn packet(&mut self, packet: &Packet, payload: &[u8], repeated: u64) {
        let way = &mut self.sums.ways[packet.direction.index()];
        way.wire += u64::from(packet.wire);
        let Some(flow) = packet.flow else {
            way.other += u64::from(packet.wire);
            return;
        };
        let missing = u64::from(packet.missing).min(u64::from(packet.wire));
        way.missing += missing;
        way.headers += u64::from(packet.wire).saturating_sub(payload.len() as u64 + missing);

        let other = flow.reversed();
        let (key, side) = if flow <= other { (flow, 0) } else { (other, 1) };
        // A new connection takes the ports of an old one.
        if matches!(packet.kind, Kind::Tcp { flags, .. } if flags & 18 == 2)
            && let Some(connection) = self.connections.remove(&key)
        {
            self.sums.end(&connection);
        }
        if payload.is_empty() {
            return;
        }
        if self.connections.peek(&key).is_none() {
            while self.connections.len() >= self.max_connections {
                self.evicted += 1;
                if let Some((_, connection)) = self.connections.pop_oldest() {
                    self.sums.end(&connection);
                }
            }
            self.connections.insert(key, Connection::default());
            self.most_connections = self.most_connections.max(self.connections.len());
        }
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let tally = Tally { packets: 1, payload: payload.len() as u64, repeated };
        if let Some(protocol) = connection.recogniser.packet(&flow, side, packet, payload) {
            self.sums.ways[packet.direction.index()].encrypted[protocol as usize].add(&tally);
            return;
        }
        let service = (flow.protocol, packet.service);
        if payload.len() >= WINDOW {
            self.sums.judged(packet.direction, service, &tally, Some(is_high(payload)));
            return;
        }
        let pending = connection.pending[side].get_or_insert_with(|| {
            Box::new(Pending { direction: packet.direction, service, counts: [0; 256], tally: Tally::default() })
        });
        pending.tally.add(&tally);
        count(&mut pending.counts, payload);
        if pending.tally.payload >= WINDOW as u64
            && let Some(pending) = connection.pending[side].take()
        {
            self.sums.close(&pending);
        }
    }
}

impl Observer for Irreducible {
    fn batch(&mut self, view: &View<'_>) {
        for (index, packet) in view.batch.packets().iter().enumerate() {
            let repeated = view.matches.of(index).iter().map(|found| u64::from(found.len)).sum::<u64>();
            self.packet(packet, view.batch.payload(packet), repeated.min(u64::from(packet.len)));
        }
    }

    fn finish(mut self: Box<Self>) -> Figure {
        while let Some((_, connection)) = self.connections.pop_oldest() {
            self.sums.end(&connection);
        }
        let sums = &self.sums;
        let mut total = Way::default();
        sums.ways.iter().for_each(|way| total.add(way));
        let mut ways: Vec<(&str, &Way)> =
            Direction::ALL.iter().map(|way| (way.name(), &sums.ways[way.index()])).filter(|(_, way)| way.wire > 0).collect();
        if ways.len() != 1 {
            ways.push(("total", &total));
        }
        let share = |part: u64, of: u64| Cell::from((of > 0).then(|| part as f64 / of as f64));
        let text = |name: &str| Column::new(name, Unit::Text);
        let mut rows = Vec::new();
        for (name, way) in &ways {
            for (class, bytes) in CLASSES.iter().zip(way.classes()) {
                rows.push(vec![
                    (*name).into(),
                    (*class).into(),
                    bytes.into(),
                    share(bytes, way.payload()),
                    share(bytes, way.wire),
                ]);
            }
            let rest =
                [("headers and padding", way.headers), ("payload not captured", way.missing), ("not TCP or UDP", way.other)];
            for (class, bytes) in rest.into_iter().filter(|&(_, bytes)| bytes > 0) {
                rows.push(vec![(*name).into(), class.into(), bytes.into(), Cell::None, share(bytes, way.wire)]);
            }
        }
        let classes = Table {
            id: "classes",
            caption: "Bytes by whether they can be reduced".into(),
            columns: vec![
                text("direction"),
                text("class"),
                Column::new("bytes", Unit::Bytes),
                Column::new("share of payload", Unit::Share),
                Column::new("share of wire", Unit::Share),
            ],
            rows,
        };
        let protocols = Table {
            id: "protocols",
            caption: "Recognised encryption".into(),
            columns: vec![
                text("direction"),
                text("protocol"),
                Column::new("packets", Unit::Count),
                Column::new("payload", Unit::Bytes),
                Column::new("share of payload", Unit::Share),
                Column::new("repeated", Unit::Share),
            ],
            rows: ways
                .iter()
                .flat_map(|(name, way)| {
                    let each = Protocol::ALL.iter().map(|(protocol, label)| (*label, way.encrypted[*protocol as usize]));
                    each.filter(|(_, tally)| tally.packets > 0).map(move |(label, tally)| {
                        vec![
                            (*name).into(),
                            label.into(),
                            tally.packets.into(),
                            tally.payload.into(),
                            share(tally.payload, way.payload()),
                            share(tally.repeated, tally.payload),
                        ]
                    })
                })
                .collect(),
        };
        let mut services: Vec<_> = sums.services.iter().filter(|(_, tally)| tally.unique() > 0).collect();
        services.sort_unstable_by_key(|(service, tally)| (std::cmp::Reverse(tally.unique()), **service));
        let services = Table {
            id: "services",
            caption: format!("Unrecognised content of high entropy, unique: the {TOP} services with most of it"),
            columns: vec![text("service"), Column::new("bytes", Unit::Bytes), Column::new("share of payload", Unit::Share)],
            rows: services
                .into_iter()
                .take(TOP)
                .map(|((protocol, port), tally)| {
                    let name = format!("{} {port}", if *protocol == 6 { "TCP" } else { "UDP" });
                    vec![name.into(), tally.unique().into(), share(tally.unique(), total.payload())]
                })
                .collect(),
        };
        let chart = Chart {
            id: "classes",
            caption: "Payload by whether it can be reduced".into(),
            kind: ChartKind::StackedBars,
            x: Axis::of("direction", ways.iter().map(|(name, _)| (*name).to_owned()).collect()),
            y: Axis::new("share of payload", Unit::Share),
            right: None,
            series: CLASSES
                .iter()
                .enumerate()
                .map(|(class, name)| {
                    let points = ways.iter().enumerate().filter(|(_, (_, way))| way.payload() > 0);
                    Series::new(
                        *name,
                        points.map(|(x, (_, way))| (x as f64, way.classes()[class] as f64 / way.payload() as f64)).collect(),
                    )
                })
                .collect(),
        };

        let mut notes = vec![
            "Compressed and well-encrypted content look the same to the test of entropy; random bytes are taken for low entropy in less than one of \
             10,000 windows. A window that holds both, such as a head with compressed content behind it, mostly counts as low entropy."
                .to_owned(),
            "A connection counts as encrypted from the packet that gives it away, handshakes included; what came before, up to a TLS record where the \
             capture begins in the middle, is judged by entropy. QUIC whose long headers were not seen is judged by entropy too."
                .to_owned(),
        ];
        if self.evicted > 0 {
            notes.push(format!(
                "{} connections were forgotten, the least recently used first, to stay within memory; if they went on, they had to be recognised again.",
                self.evicted
            ));
        }
        if sums.unnamed > 0 {
            notes.push(format!(
                "{} packets belong to services beyond the first {MAX_SERVICES}: they are in the sums only.",
                sums.unnamed
            ));
        }
        Figure {
            number: 14,
            id: "irreducible",
            title: "What cannot be reduced",
            source: "ours; the thesis, section 2.3, notes that encrypted payload shows minimal redundancy",
            definition: format!(
                "Each payload byte is in one class. Repeated: within a match of the reference algorithm, before its costs. Encrypted: in a connection recognised as \
                 TLS (a hello, or two records in a row: content type 20 to 23, version 3.0 to 3.4, at most {MAX} bytes), QUIC versions 1 and 2 (a long \
                 header, then all of the connection), SSH (its banner), DTLS (records that fill a datagram), WireGuard (types and lengths of messages), ESP or IKE on \
                 UDP port 4500, or OpenVPN on port 1194. All else by entropy: high if the bytes of a window pass for random ones, that is, if Pearson's \
                 chi-square against the uniform distribution is at most {DEVIATIONS} standard deviations above its mean of 255; a payload of {WINDOW} \
                 bytes or more by the majority of its windows of {WINDOW} to {LAST} bytes, smaller ones with those next to them in their flow until {WINDOW} bytes \
                 are together. Too short: fewer than {MIN_WINDOW} bytes together. Shares are of payload bytes that were captured, and of bytes on the wire.",
                MAX = (1 << 14) + 2048,
                LAST = 2 * WINDOW - 1
            ),
            finding: finding(&total),
            tables: vec![classes, protocols, services],
            charts: if total.payload() > 0 { vec![chart] } else { Vec::new() },
            notes,
            memory: (self.most_connections * Connection::BYTES + 2 * sums.services.len() * 64) as u64,
        }
    }
}

fn finding(total: &Way) -> String {
    let payload = total.payload();
    if payload == 0 {
        return "The trace has no payload to judge.".into();
    }
    let percent = |bytes: u64| bytes as f64 / payload as f64 * 100.0;
    let encrypted = total.all_encrypted();
    let fixed = encrypted.unique() + total.high.unique();
    let mut text = format!(
        "{:.1} % of the payload cannot be reduced by anything in the network at this point: {:.1} % is encrypted, {:.1} % is as good as random and was \
         not seen before.",
        percent(fixed),
        percent(encrypted.unique()),
        percent(total.high.unique())
    );
    if 2 * encrypted.payload >= payload {
        let vpn: u64 = Protocol::ALL
            .iter()
            .filter(|(protocol, _)| protocol.is_vpn())
            .map(|(protocol, _)| total.encrypted[*protocol as usize].payload)
            .sum();
        text += if 2 * vpn >= encrypted.payload {
            " Most of the encryption is a VPN's: put redundancy elimination on the inside of its gateways, before they encrypt."
        } else {
            " Redundancy elimination has to sit before the encryption: at the end hosts, or at the proxies that end TLS on both sides."
        };
    } else if 2 * fixed >= payload {
        text += " Most of it is not recognised as encrypted: see which services it belongs to. If they encrypt, redundancy elimination has to sit before \
                 that; if they compress, it has to see the content uncompressed, or the same compressed content more than once.";
    } else {
        text += &format!(
            " This point of the network is a good place: {:.1} % of the payload repeats, and {:.1} % is new but of low entropy, so that compression works.",
            percent(total.high.repeated + total.low.repeated + total.short.repeated),
            percent(total.low.unique())
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise, observe};
    use proptest::prelude::*;
    use std::io::Write;

    fn text(len: usize) -> Vec<u8> {
        let words = ["packet", "window", "the", "of", "fingerprint", "cache", "a", "trace", "bytes", "which"];
        let mut text = Vec::new();
        for pick in noise(5, len) {
            text.extend_from_slice(words[usize::from(pick) % words.len()].as_bytes());
            text.extend_from_slice(pick.to_string().as_bytes());
            text.push(b' ');
        }
        text.truncate(len);
        text
    }

    fn uniform(windows: impl Iterator<Item = Vec<u8>>) -> (usize, usize) {
        let mut sum = (0, 0);
        for window in windows {
            let mut counts = [0; 256];
            super::count(&mut counts, &window);
            sum.0 += usize::from(is_uniform(&counts));
            sum.1 += 1;
        }
        sum
    }

    #[test]
    fn the_test_of_entropy_tells_text_and_base64_from_gzip_and_random_bytes() {
        for len in [MIN_WINDOW, 200, WINDOW, 2 * WINDOW - 1] {
            let (high, all) = uniform((0..20_000u64).map(|seed| noise(seed << 20, len)));
            assert!(all - high <= 2, "{} of {all} random windows of {len}", all - high);
            let base64 = |seed: u64| -> Vec<u8> {
                let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
                noise(seed << 20, len).into_iter().map(|byte| digits[usize::from(byte & 63)]).collect()
            };
            assert_eq!(uniform((0..2000).map(base64)).0, 0, "base64 of {len}");
            let text = text(200_000);
            assert_eq!(uniform(text.chunks_exact(len).map(<[u8]>::to_vec)).0, 0, "text of {len}");
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            gzip.write_all(&text).unwrap();
            let gzip = gzip.finish().unwrap();
            let (high, all) = uniform(gzip[1000..].chunks_exact(len).map(<[u8]>::to_vec));
            assert!(all > 20 && high * 20 >= all * 19, "{high} of {all} windows of gzip, {len} each");
        }
    }

    fn bytes(figure: &Figure, direction: &str, class: &str) -> u64 {
        let row = figure.tables[0].rows.iter().find(|row| row[..2] == [Cell::from(direction), Cell::from(class)]).unwrap();
        let Cell::Count(bytes) = row[2] else { panic!() };
        bytes
    }

    #[test]
    fn classes_of_a_known_trace() {
        let flow = |port: u16| Made::tcp(&format!("10.0.0.1:{port}"), "10.0.0.2:2000").direction(Direction::Outbound);
        let hello = [&[22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3][..], &noise(9, 250)].concat();
        let english = text(3000);
        let packets = [
            flow(443).payload(&hello),
            flow(443).payload(&noise(1, 1000)),
            flow(443).payload(&noise(1, 1000)),
            flow(7000).payload(&noise(2, 1400)),
            flow(7000).payload(&noise(2, 1400)),
            flow(80).payload(&english[..1000]),
            // Small packets, judged together; the last ones are too few.
            flow(81).payload(&noise(3, 300)),
            flow(81).payload(&noise(4, 300)),
            flow(82).payload(&english[1000..1200]),
            flow(83).payload(&noise(5, 100)),
            Made::udp("10.0.0.2:53", "10.0.0.1:99").direction(Direction::Inbound),
        ];
        for per_batch in [1, 4, 20] {
            let figure = observe(Box::new(Irreducible::new(16 << 20)), &packets, 1 << 20, per_batch);
            let of = |class| bytes(&figure, "outbound", class);
            assert_eq!((of("encrypted"), of("encrypted, repeated")), (1261, 1000));
            assert_eq!((of("high entropy, unique"), of("high entropy, repeated")), (1400 + 600, 1400));
            assert_eq!(of("low entropy, unique") + of("low entropy, repeated"), 1200);
            assert_eq!(of("too short, unique"), 100);
            assert_eq!(of("headers and padding"), 540);
            assert_eq!(bytes(&figure, "total", "headers and padding"), 582);
            assert_eq!(figure.tables[1].rows[0][1..4], [Cell::from("TLS"), Cell::Count(3), Cell::Count(2261)]);
            let services: Vec<_> = figure.tables[2].rows.iter().map(|row| row[..2].to_vec()).collect();
            assert_eq!(services[0], [Cell::from("TCP 2000"), Cell::Count(1400)].to_vec(), "{services:?}");
            let wire: u64 = packets.iter().map(|made| u64::from(made.packet.wire)).sum();
            let rows = figure.tables[0].rows.iter().filter(|row| row[0] == Cell::from("total"));
            let sum: u64 = rows.map(|row| if let Cell::Count(bytes) = row[2] { bytes } else { 0 }).sum();
            assert_eq!(sum, wire, "every byte is in one class");
        }
    }

    #[test]
    fn the_finding_names_the_place() {
        let esp = |i: u64| Made::udp("10.0.0.1:4500", "10.0.0.2:4500").payload(&[&[9, 0, 0, 0][..], &noise(i, 900)].concat());
        let vpn: Vec<_> = (0..9).map(esp).collect();
        let study = |packets: &[Made]| observe(Box::new(Irreducible::new(1 << 20)), packets, 1 << 20, 2);
        assert!(study(&vpn).finding.contains("inside of its gateways"));
        let base = Made::tcp("10.0.0.1:80", "10.0.0.2:2000");
        assert!(study(&[base.clone().payload(&text(1400))]).finding.contains("a good place"));
        let empty = study(&[base]);
        assert_eq!(empty.tables[0].rows[0][3], Cell::None);
        assert!(empty.charts.is_empty());
    }

    #[test]
    fn it_stays_within_its_memory() {
        let packets: Vec<_> =
            (0..5000u16).map(|port| Made::tcp(&format!("10.0.0.1:{port}"), "10.0.0.2:9000").payload(&noise(1, 20))).collect();
        let figure = observe(Box::new(Irreducible::new(2 << 20)), &packets, 1 << 20, 1000);
        assert!(figure.memory <= 2 << 20 && figure.notes.iter().any(|note| note.contains("were forgotten")), "{}", figure.memory);
        assert_eq!(bytes(&figure, "all", "too short, unique") + bytes(&figure, "all", "too short, repeated"), 100_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_byte_is_in_one_class(packets in prop::collection::vec((any::<bool>(), 0..4u16, 0..32u8, 0..1300usize, any::<bool>()), 0..30)) {
            let made: Vec<_> = packets.iter().map(|&(udp, port, flags, len, random)| {
                let from = format!("10.0.0.1:{}", 4499 + port);
                let made = if udp { Made::udp(&from, "10.0.0.2:9") } else { Made::tcp(&from, "10.0.0.2:9").seq(0, flags) };
                made.payload(&if random { noise(len as u64, len) } else { text(len) })
            }).collect();
            let figure = observe(Box::new(Irreducible::new(1 << 20)), &made, 1 << 20, 5);
            let sum: u64 = figure.tables[0].rows.iter().filter(|row| row[0] == Cell::from(if made.is_empty() { "total" } else { "all" }))
                .map(|row| if let Cell::Count(bytes) = row[2] { bytes } else { 0 }).sum();
            prop_assert_eq!(sum, made.iter().map(|made| u64::from(made.packet.wire)).sum::<u64>());
        }
    }
}
