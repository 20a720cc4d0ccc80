//! What flows of one isolation domain carry does not change the sizes of another's messages.

use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_session::{
    Config, Event, FlowId, Hello, MAX_DOMAIN, OpenError, Owner, Read, ResetCode, Session,
};
use std::time::{Duration, Instant};

/// A client that sends and a server that receives.
struct Pair {
    now: Instant,
    client: Session,
    server: Session,
    received: Vec<u8>,
    pad: u32,
}

impl Pair {
    fn new(sharing: Sharing, contexts: [usize; 2], seed: u64) -> Pair {
        Pair::padded(sharing, contexts, seed, 0)
    }

    /// Ends that pad what they send.
    fn padded(sharing: Sharing, contexts: [usize; 2], seed: u64, pad: u32) -> Pair {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        let config = |end: usize| Config {
            log: 8 << 20,
            contexts: contexts[end],
            encoder: EncoderBuilder::default().sharing(sharing),
            random: [seed, end as u64, 3, 4],
            pad,
            ..Config::default()
        };
        let mut client = Session::connect(config(0).build().unwrap(), None, now);
        client.attach(0, now);
        let mut wire = Vec::new();
        client.transmit(0, 1 << 16, now, &mut wire);
        let (hello, _) = Hello::read(&wire).unwrap().unwrap();
        let server = Session::accept_new(config(1).build().unwrap(), None, &hello, now).unwrap();
        let mut pair = Pair { now, client, server, received: Vec::new(), pad };
        pair.settle();
        assert!(pair.client.is_established());
        pair
    }

    /// Carries everything; returns how many bytes the client sent.
    fn settle(&mut self) -> usize {
        let mut sent = 0;
        loop {
            self.now += Duration::from_millis(25);
            self.client.on_timeout(self.now);
            self.server.on_timeout(self.now);
            let (mut there, mut back) = (Vec::new(), Vec::new());
            self.client.transmit(0, 1 << 20, self.now, &mut there);
            self.server.receive(0, &there, self.now);
            sent += there.len();
            while let Some(event) = self.server.poll_event() {
                match event {
                    Event::Opened { flow, .. } => self.server.accept(flow, self.now),
                    Event::Readable(flow) => {
                        while let Read::Data(bytes) = self.server.read(flow) {
                            self.server.consumed(flow, bytes.len(), self.now);
                            self.received.extend(bytes);
                        }
                    }
                    _ => {}
                }
            }
            self.server.transmit(0, 1 << 20, self.now, &mut back);
            self.client.receive(0, &back, self.now);
            while self.client.poll_event().is_some() {}
            if there.is_empty() && back.is_empty() {
                return sent;
            }
            assert!(
                self.pad == 0 || [there.len(), back.len()].map(|len| self.fits(len)) == [true; 2]
            );
        }
    }

    /// Whether this is a size to which something is padded.
    fn fits(&self, len: usize) -> bool {
        let most = self.pad as usize;
        len.is_multiple_of(most) || len.is_power_of_two() && (64..most).contains(&len)
    }

    fn open(&mut self, domain: &str) -> FlowId {
        let flow = self.client.open(b"tcp:origin:80", domain.as_bytes(), self.now).unwrap();
        self.settle();
        flow
    }

    /// Bytes that the client sends for a guess of an attacker, on a flow and under a name of its
    /// own. The attacker is one or several clients in turn.
    fn guess(&mut self, nth: usize, clients: usize, content: &[u8]) -> usize {
        let owner = Owner {
            client: format!("attacker {}", nth % clients).into(),
            name: format!("guess {nth}").into(),
        };
        let flow = self.client.open(b"tcp:origin:80", owner, self.now).unwrap();
        self.settle();
        let sent = self.send(flow, content);
        self.client.reset(flow, ResetCode::Reset);
        self.settle();
        sent
    }

    /// Bytes that the client sends for `content` on a flow.
    fn send(&mut self, flow: FlowId, content: &[u8]) -> usize {
        self.received.clear();
        assert_eq!(self.client.write(flow, content), content.len());
        let sent = self.settle();
        assert!(self.received == content);
        sent
    }
}

const SECRET: &str = "3f9a07c1d2e4b586";

fn request(cookie: &str) -> Vec<u8> {
    let head = "GET /inbox HTTP/1.1\r\nHost: mail.example\r\nAccept: text/html\r\n";
    format!("{head}Cookie: session={cookie}").into_bytes()
}

/// Guesses the secret digit by digit: of all digits, the right one makes the shortest message.
/// Returns what was found, and stops when there is no single shortest message.
fn guess(sharing: Sharing, contexts: [usize; 2], pad: u32) -> String {
    let mut known = String::new();
    for place in 0..SECRET.len() as u64 {
        let sizes = (0..16).map(|digit| {
            let mut pair = Pair::padded(sharing, contexts, 100 * place + digit, pad);
            let (victim, attacker) = (pair.open("address 10.0.0.1"), pair.open("address 10.0.0.2"));
            pair.send(victim, &request(SECRET));
            pair.send(attacker, &request(&format!("{known}{digit:x}")))
        });
        let sizes: Vec<usize> = sizes.collect();
        let least = sizes.iter().min().unwrap();
        if sizes.iter().filter(|&size| size == least).count() > 1 {
            break;
        }
        let digit = sizes.iter().position(|size| size == least).unwrap();
        known.push(char::from_digit(digit as u32, 16).unwrap());
    }
    known
}

#[test]
fn a_cookie_is_guessed_where_everything_is_shared_and_not_between_domains() {
    assert_eq!(guess(Sharing::All, [4, 4], 0), SECRET);
    for contexts in [[4, 4], [1, 1], [4, 1]] {
        for sharing in [Sharing::None, Sharing::Chunks] {
            assert_eq!(guess(sharing, contexts, 0), "", "{sharing:?}, {contexts:?} contexts");
        }
    }
}

#[test]
fn padding_hides_single_bytes_even_where_everything_is_shared() {
    assert_eq!(guess(Sharing::All, [4, 4], 1024), "");
}

#[test]
fn whatever_is_sent_is_padded_and_arrives() {
    for pad in [64, 100, 1024, 64 << 10] {
        let mut random = fastrand::Rng::with_seed(pad.into());
        let mut pair = Pair::padded(Sharing::All, [4, 4], 15, pad);
        let flow = pair.open("");
        for _ in 0..200 {
            let len = random.usize(1..20_000);
            let content: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(len).collect();
            pair.send(flow, &content);
        }
        let counters = pair.client.counters();
        assert!(counters.padding_bytes > 0 && counters.padding_bytes < counters.wire_sent_bytes);
    }
}

/// What an attacker sees of 20,000 guesses, each in a domain of its own, while the victim sends its
/// secret now and then: the sizes of its own messages.
fn view(secret: &str, sharing: Sharing) -> Vec<usize> {
    let mut pair = Pair::new(sharing, [4, 4], 9);
    let victim = pair.open("victim");
    let body = |token: &str| {
        format!("{{\"user\": \"v\", \"csrf\": \"{token}\", \"items\": []}}").into_bytes()
    };
    let mut random = fastrand::Rng::with_seed(10);
    let mut sizes = Vec::new();
    for at in 0..20_000 {
        if at % 50 == 0 {
            pair.send(victim, &request(secret));
            pair.send(victim, &body(secret));
        }
        // Some digits of the one secret or the other are right, and the rest is wrong or missing.
        let base = if random.bool() { SECRET } else { OTHER };
        let guess = match at % 4 {
            0 => format!("{}{:x}", &base[..random.usize(..16)], random.u8(..16)),
            1 => format!("{}{:02x}", &base[..random.usize(..15)], random.u8(..)),
            2 => format!("{:016x}", random.u64(..)),
            _ => base.to_owned(),
        };
        let content = if at % 8 < 4 { request(&guess) } else { body(&guess) };
        sizes.push(pair.guess(at, 4, &content));
    }
    sizes
}

const LONGER: &str = "3f9a07c1d2e4b586c0ffee1234567890";
const OTHER: &str = "c0ffee1234567890";

#[test]
fn twenty_thousand_guesses_see_the_same_sizes_whatever_the_secret_is() {
    for sharing in [Sharing::None, Sharing::Chunks] {
        let seen = view(SECRET, sharing);
        assert!(seen == view(OTHER, sharing) && seen == view(LONGER, sharing), "{sharing:?}");
    }
    // The test can tell secrets apart where everything is shared.
    assert!(view(SECRET, Sharing::All) != view(OTHER, Sharing::All));
}

/// What an attacker sees of 2,000 guesses at a token inside a page whose other 30 kB it knows.
fn view_of_page(secret: &str, sharing: Sharing) -> Vec<usize> {
    let mut pair = Pair::new(sharing, [4, 4], 11);
    let victim = pair.open("victim");
    let mut random = fastrand::Rng::with_seed(12);
    let words: Vec<String> = (0..5_000).map(|_| format!("{:x}", random.u32(..50_000))).collect();
    let page = |token: &str| {
        let (before, after) = words.split_at(2_500);
        format!("{}<input value={token}>{}", before.join(" "), after.join(" ")).into_bytes()
    };
    let mut sizes = Vec::new();
    for at in 0..2_000 {
        if at % 50 == 0 {
            pair.send(victim, &page(secret));
        }
        let base = if random.bool() { SECRET } else { OTHER };
        let right = random.usize(..15);
        let digits = format!("{:x}", random.u64(1 << 60..));
        // At least one digit is wrong.
        let wrong = if base.as_bytes()[15] == b'0' { '1' } else { '0' };
        let guess = format!("{}{}{wrong}", &base[..right], &digits[..15 - right]);
        // Every tenth guess is right.
        let guess = if at % 10 == 0 { base } else { &guess };
        // As several clients, it would see some of them.
        sizes.push(pair.guess(at, 1, &page(guess)));
    }
    sizes
}

#[test]
fn in_a_page_that_is_known_but_for_a_token_guesses_show_nothing() {
    for sharing in [Sharing::None, Sharing::Chunks] {
        let seen = view_of_page(SECRET, sharing);
        assert!(seen == view_of_page(OTHER, sharing), "{sharing:?}");
        assert!(seen == view_of_page(LONGER, sharing), "{sharing:?}");
    }
    assert!(view_of_page(SECRET, Sharing::All) != view_of_page(OTHER, Sharing::All));
}

#[test]
fn twelve_domains_fetch_an_object_at_once_and_it_crosses_for_a_few() {
    let mut random = fastrand::Rng::with_seed(13);
    let object: Vec<u8> =
        std::iter::repeat_with(|| random.u8(b'0'..b'p')).take(3_000_000).collect();
    // Letters take three quarters of their bytes. A chunk crosses for two to five clients, and for
    // those that send it at the same time.
    for (sharing, copies) in
        [(Sharing::All, 0.7..0.8), (Sharing::Chunks, 2.5..3.2), (Sharing::None, 8.8..9.2)]
    {
        let mut pair = Pair::new(sharing, [16, 16], 14);
        let flows: Vec<FlowId> = (0..12).map(|user| pair.open(&format!("user {user}"))).collect();
        let mut written = [0; 12];
        let mut sent = 0;
        while written.iter().any(|&written| written < object.len()) {
            for (flow, written) in flows.iter().zip(&mut written) {
                let end = (*written + 250_000).min(object.len());
                *written += pair.client.write(*flow, &object[*written..end]);
            }
            sent += pair.settle();
        }
        assert!(pair.received.len() == 12 * object.len());
        let share = sent as f64 / object.len() as f64;
        assert!(copies.contains(&share), "{sharing:?}: {share} copies");
    }
}

#[test]
fn compressed_objects_cross_for_five_clients_and_their_ends_for_all() {
    let mut random = fastrand::Rng::with_seed(17);
    let object: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(1_000_000).collect();
    let mut pair = Pair::new(Sharing::Chunks, [16, 16], 18);
    let mut costs = Vec::new();
    for client in 0..7 {
        let flow = pair.open(&format!("user {client}"));
        let (mut written, mut sent) = (0, 0);
        pair.received.clear();
        while written < object.len() {
            let end = (written + 250_000).min(object.len());
            written += pair.client.write(flow, &object[written..end]);
            sent += pair.settle();
        }
        assert!(pair.received == object);
        costs.push(sent as f64 / object.len() as f64);
    }
    assert!(costs[..5].iter().all(|&cost| cost > 0.99), "{costs:?}");
    // Of each 250,000 bytes that are queued at once, the last 64 KiB.
    assert!(costs[5..].iter().all(|&cost| (0.2..0.6).contains(&cost)), "{costs:?}");
}

#[test]
fn a_domain_finds_its_own_content_on_any_flow() {
    let content: Vec<u8> =
        (0..20_000u32).flat_map(|x| x.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let mut pair = Pair::new(Sharing::None, [2, 2], 7);
    let names = ["", "a", "b"];
    let flows = names.map(|name| pair.open(name));
    for flow in flows {
        assert!(pair.send(flow, &content) >= content.len() / 2, "new in its domain");
    }
    for (flow, name) in flows.into_iter().zip(names) {
        assert!(pair.send(flow, &content) < 1000, "again on the same flow");
        let other = pair.open(name);
        assert!(pair.send(other, &content) < 1000, "again on another flow of the domain");
    }
}

#[test]
fn names_of_domains_are_short() {
    let mut pair = Pair::new(Sharing::None, [1, 1], 8);
    let long = "x".repeat(MAX_DOMAIN + 1);
    let refused = pair.client.open(b"tcp:origin:80", long.as_bytes(), pair.now);
    assert_eq!(refused, Err(OpenError::Domain(MAX_DOMAIN + 1)));
    pair.open(&long[1..]);
}
