use super::*;
use crate::batch::testing::{Made, noise, observe};
use crate::results::{Cell, Figure};
use flate2::Compression;
use proptest::prelude::*;
use std::io::Write;

const CLIENT: &str = "10.0.0.2:2000";
const SERVER: &str = "10.0.0.1:8123";

/// A connection's packets, both ways, with right sequence numbers.
struct Talk {
    packets: Vec<Made>,
    next: [u32; 2],
    time: f64,
    client: String,
}

impl Talk {
    fn new(port: u16) -> Talk {
        let mut talk = Talk {
            packets: Vec::new(),
            next: [0, 0],
            time: 1000.0,
            client: format!("10.0.0.2:{port}"),
        };
        talk.flag(0, 2);
        talk.flag(1, 2);
        talk.next = [1, 1];
        talk
    }

    fn made(&self, side: usize) -> Made {
        let made = if side == 0 {
            Made::tcp(&self.client, SERVER)
        } else {
            Made::tcp(SERVER, &self.client)
        };
        made.at(self.time).direction([Direction::Outbound, Direction::Inbound][side])
    }

    fn flag(&mut self, side: usize, flags: u8) {
        self.packets.push(self.made(side).seq(self.next[side], flags));
    }

    fn say(&mut self, side: usize, bytes: &[u8], segment: usize) {
        for bytes in bytes.chunks(segment) {
            self.packets.push(self.made(side).seq(self.next[side], 16).payload(bytes));
            self.next[side] = self.next[side].wrapping_add(bytes.len() as u32);
        }
    }

    fn get(&mut self, target: &str, fields: &str, body: &[u8]) {
        self.say(0, format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes(), 1400);
        self.say(1, &response(fields, body), 1400);
    }
}

fn response(fields: &str, body: &[u8]) -> Vec<u8> {
    let mut response =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n", body.len()).into_bytes();
    response.extend_from_slice(body);
    response
}

fn study(packets: &[Made]) -> Figure {
    observe(Box::new(Http::new(64 << 20)), packets, 1 << 20, 7)
}

fn row<'a>(figure: &'a Figure, table: &str, name: &str) -> &'a [Cell] {
    let table = figure.tables.iter().find(|found| found.id == table).unwrap();
    table
        .rows
        .iter()
        .find(|row| row[0] == Cell::from(name))
        .unwrap_or_else(|| panic!("no {name} in {table:?}"))
}

fn gzipped(bytes: &[u8]) -> u64 {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Compression::new(6));
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap().len() as u64
}

#[test]
fn objects_gzip_matches_and_caching_of_a_known_trace() {
    let text = b"All work and no play makes the packet a dull datagram. ".repeat(60);
    let image = noise(1, 3000);
    let mut talk = Talk::new(2000);
    talk.get("/text", "Content-Type: text/html; charset=x\r\nCache-Control: no-store\r\n", &text);
    talk.time += 1.0;
    talk.get("/image", "Content-Type: image/png\r\nCache-Control: max-age=60\r\n", &image);
    talk.time += 1.0;
    talk.get("/image", "Content-Type: image/png\r\nCache-Control: max-age=60\r\n", &image);
    talk.time += 100.0;
    talk.get("/image", "Content-Type: image/png\r\nCache-Control: max-age=60\r\n", &image);
    talk.get("/coded", "Content-Type: text/html\r\nContent-Encoding: br\r\n", &text);
    let payload: u64 = talk
        .packets
        .iter()
        .filter(|made| made.packet.direction == Direction::Inbound)
        .map(|made| made.payload.len() as u64)
        .sum();
    let figure = study(&talk.packets);

    let savings = row(&figure, "savings", "inbound");
    assert_eq!(savings[2], Cell::Count(payload));
    assert_eq!(savings[3..5], [Cell::Count(5), Cell::Count(2 * text.len() as u64 + 9000)]);
    // How the input is cut moves the size by a byte or two.
    let Cell::Number(gzip) = savings[5] else { panic!() };
    assert!((gzip * payload as f64 - (text.len() as u64 - gzipped(&text)) as f64).abs() < 4.0);
    assert_eq!(savings[8], Cell::from(3000.0 / payload as f64), "one hit: then the copy is stale");
    let (Cell::Number(re), Cell::Number(both)) = (&savings[6], &savings[7]) else { panic!() };
    assert!(*re > 0.5 && both >= re, "{re} {both}");
    assert!(
        figure
            .finding
            .ends_with("redundancy elimination saves most, without knowing the protocol."),
        "{}",
        figure.finding
    );
    let image = row(&figure, "types", "image/png");
    assert_eq!(
        image[1..5],
        [Cell::Count(3), Cell::Count(9000), Cell::Count(2), Cell::Number(2.0 / 3.0)]
    );
    assert_eq!(row(&figure, "types", "text/html")[3], Cell::Count(1));
    assert_eq!(row(&figure, "cacheability", "no-store")[1], Cell::Count(1));
    assert_eq!(row(&figure, "cacheability", "served from the cache")[1], Cell::Count(1));
    assert!(figure.memory < 64 << 20);
}

#[test]
fn validation_differs_from_caching() {
    let mut talk = Talk::new(2000);
    talk.get("/a", "ETag: \"1\"\r\n", &noise(1, 500));
    talk.get("/a", "ETag: \"1\"\r\n", &noise(1, 500));
    talk.get("/b", "Cache-Control: max-age=9\r\n", &noise(2, 400));
    talk.get("/b", "Cache-Control: max-age=9\r\n", &noise(3, 400));
    let figure = study(&talk.packets);
    assert_eq!(
        row(&figure, "cacheability", "not fresh, but a 304 would have done")[1..3],
        [Cell::Count(1), Cell::Count(500)]
    );
    assert_eq!(
        row(&figure, "cacheability", "of these, with a body other than the stored one")[1],
        Cell::Count(1)
    );
}

#[test]
fn pipelining_heads_without_bodies_and_tunnels() {
    let mut talk = Talk::new(2000);
    talk.say(0, b"HEAD /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nGET /c HTTP/1.1\r\n\r\n", 1400);
    talk.say(1, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", 1400);
    talk.say(
        1,
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        1400,
    );
    talk.say(1, &response("Content-Type: a/c\r\n", b"body"), 1400);
    talk.say(0, b"CONNECT x:443 HTTP/1.1\r\n\r\n", 1400);
    talk.say(1, b"HTTP/1.1 200 Go\r\nContent-Length: 7\r\n\r\n", 1400);
    let before = study(&talk.packets);
    talk.say(1, &response("Content-Type: in/tunnel\r\n", b"body"), 1400);
    let after = study(&talk.packets);
    assert_eq!(row(&after, "savings", "inbound")[1..5], row(&before, "savings", "inbound")[1..5]);
    assert_eq!(row(&after, "savings", "inbound")[3], Cell::Count(3));
    assert_eq!(row(&after, "types", "a/c")[2], Cell::Count(4));
    assert_eq!(row(&after, "cacheability", "method other than GET")[1], Cell::Count(1));
    assert_eq!(
        row(&after, "cacheability", "304: the client's copy was validated")[1],
        Cell::Count(1)
    );
}

#[test]
fn cut_at_every_byte_and_with_a_missing_segment() {
    let body = noise(3, 40);
    let whole = response("Content-Type: x/y\r\n", &body);
    for size in 1..whole.len() {
        let mut talk = Talk::new(2000);
        talk.say(0, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", size.min(9));
        talk.say(1, &whole, size);
        let figure = study(&talk.packets);
        assert_eq!(
            row(&figure, "types", "x/y")[1..3],
            [Cell::Count(1), Cell::Count(40)],
            "segments of {size}"
        );
    }
    let mut talk = Talk::new(2000);
    talk.get("/a", "Content-Type: x/y\r\n", &noise(4, 5000));
    talk.get("/b", "Content-Type: x/y\r\n", &noise(5, 700));
    talk.packets.remove(4);
    let figure = study(&talk.packets);
    assert_eq!(row(&figure, "types", "x/y")[1..3], [Cell::Count(2), Cell::Count(5700 - 1400)]);
    assert!(
        figure
            .notes
            .iter()
            .any(|note| note.starts_with("1 body not seen whole (3.60 kB seen, 1.40 kB known")),
        "{:?}",
        figure.notes
    );
}

#[test]
fn without_http_there_is_nothing() {
    let figure = study(&[
        Made::tcp(CLIENT, SERVER).seq(1, 16).payload(&noise(1, 500)),
        Made::udp(CLIENT, SERVER).payload(b"HTTP/1.1 200 OK\r\n\r\n"),
    ]);
    assert_eq!(row(&figure, "savings", "total")[5..9], [const { Cell::None }; 4]);
    assert!(figure.charts.is_empty());
}

#[test]
fn it_stays_within_its_memory() {
    let mut packets = Vec::new();
    let budget = 6 << 20;
    for port in 0..3000 {
        let mut talk = Talk::new(port);
        talk.get(&format!("/{port}"), "Cache-Control: max-age=9\r\n", &noise(u64::from(port), 50));
        // An object, and a head, that never end.
        talk.say(1, b"HTTP/1.1 200 OK\r\n\r\nto the end", 1400);
        talk.say(0, &[&b"GET /"[..], &[b'x'; 1300]].concat(), 1400);
        packets.extend(talk.packets);
    }
    let figure = observe(Box::new(Http::new(budget)), &packets, 1 << 20, 1000);
    assert!(figure.memory <= budget, "{}", figure.memory);
    assert_eq!(row(&figure, "savings", "inbound")[3], Cell::Count(6000));
    assert!(
        figure.notes.iter().any(|note| note.contains("could not be compressed")),
        "{:?}",
        figure.notes
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_give_a_figure(
        packets in prop::collection::vec((any::<bool>(), 0..3000u32, 0..32u8, prop_oneof![
            prop::collection::vec(any::<u8>(), 0..100),
            "(GET|HEAD|CONNECT) /[a-c] HTTP/1.1\r\n\r\n".prop_map(String::into_bytes),
            "HTTP/1.1 (200|101|304|100) OK\r\n(Content-Length: [0-9]{1,3}\r\n|Transfer-Encoding: chunked\r\n|Cache-Control: max-age=5\r\n){0,3}\r\n[0-9]\r\n".prop_map(String::into_bytes),
        ]), 0..60),
    ) {
        let made: Vec<_> = packets.into_iter().map(|(out, seq, flags, bytes)| {
            let made = if out { Made::tcp(CLIENT, SERVER) } else { Made::tcp(SERVER, CLIENT) };
            made.seq(seq, flags).payload(&bytes)
        }).collect();
        let figure = study(&made);
        prop_assert_eq!(figure.number, 6);
    }
}
