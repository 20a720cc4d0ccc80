//! Blocks that are encoded and decoded without the session: what happens meanwhile.

use oncewire_codec::EncoderBuilder;
use oncewire_session::{
    Config, Counters, EncodeJob, Event, FlowId, Hello, Opening, Read, SMALLEST_LOG, Session,
};
use oncewire_testkit::content::incompressible as noise;
use std::io::Write;
use std::time::{Duration, Instant};

pub(crate) fn config(random: u64) -> Config {
    Config { log: 4 * SMALLEST_LOG, random: [random, 2, 3, 4], ..Config::default() }
}

/// Two ends of a session with one lane.
pub(crate) struct Pair {
    pub(crate) client: Session,
    pub(crate) server: Session,
    pub(crate) now: Instant,
}

impl Pair {
    fn new() -> Pair {
        Pair::of(config(1), config(2))
    }

    pub(crate) fn of(client: Config, server: Config) -> Pair {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        let mut client = Session::connect(client.build().unwrap(), None, now);
        client.attach(0, now);
        let mut hello = Vec::new();
        client.transmit(0, 1 << 20, now, &mut hello);
        let (hello, _) = Hello::read(&hello).unwrap().unwrap();
        let server = Session::accept_new(server.build().unwrap(), None, &hello, now).unwrap();
        let mut pair = Pair { client, server, now };
        pair.exchange();
        pair
    }

    /// Both ends send until neither has anything to send.
    pub(crate) fn exchange(&mut self) {
        loop {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            self.client.transmit(0, 1 << 20, self.now, &mut there);
            self.server.receive(0, &there, self.now);
            self.server.transmit(0, 1 << 20, self.now, &mut back);
            self.client.receive(0, &back, self.now);
            while let Some(event) = self.server.poll_event() {
                if let Event::Opened { flow, .. } = event {
                    self.server.accept(flow, self.now);
                }
            }
            while self.client.poll_event().is_some() {}
            if there.is_empty() && back.is_empty() {
                return;
            }
        }
    }

    /// Both ends send what is due after a while: acknowledgements.
    pub(crate) fn acknowledge(&mut self) {
        self.now += Duration::from_millis(30);
        self.exchange();
    }

    /// Both sessions end, and others go on with their logs.
    pub(crate) fn begin_again(self, config: impl Fn(u64) -> Config) -> Pair {
        let Pair { client, server, now } = self;
        let mut client =
            Session::connect(config(3).build().unwrap(), Some(client.into_logs()), now);
        client.attach(0, now);
        let mut hello = Vec::new();
        client.transmit(0, 1 << 20, now, &mut hello);
        let (hello, _) = Hello::read(&hello).unwrap().unwrap();
        let (logs, config) = (Some(server.into_logs()), config(4).build().unwrap());
        let server = Session::accept_new(config, logs, &hello, now).unwrap();
        let mut pair = Pair { client, server, now };
        pair.exchange();
        pair
    }

    /// The transport is lost and replaced.
    pub(crate) fn reconnect(&mut self) {
        self.client.detach(0, self.now);
        self.server.detach(0, self.now);
        self.client.attach(0, self.now);
        let mut hello = Vec::new();
        self.client.transmit(0, 1 << 20, self.now, &mut hello);
        let (hello, len) = Hello::read(&hello).map(|read| read.unwrap()).unwrap();
        assert!(len > 0);
        self.server.accept_lane(&hello, self.now).unwrap();
    }

    pub(crate) fn received(&mut self, flow: FlowId) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        loop {
            match self.server.read(flow) {
                Read::Data(chunk) => {
                    self.server.consumed(flow, chunk.len(), self.now);
                    bytes.extend(chunk);
                }
                Read::Finished => return (bytes, true),
                _ => return (bytes, false),
            }
        }
    }
}

#[test]
fn a_call_encodes_nothing_and_hands_out_one_block() {
    let mut pair = Pair::new();
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    // A repeat: its frames are tiny, so bytes alone would let a call go on.
    let content = noise(1, 60_000);
    for _ in 0..4 {
        pair.client.write(flow, &content);
    }
    let (mut out, mut blocks) = (Vec::new(), 0);
    while let Some(mut job) = pair.client.fill(0, 1 << 20, pair.now, &mut out) {
        let (encoded, len) = (pair.client.counters().blocks, out.len());
        assert!(pair.client.fill(0, 1 << 20, pair.now, &mut out).is_none(), "the encoder is lent");
        assert_eq!(out.len(), len);
        job.run(&mut out);
        assert_eq!(pair.client.counters().blocks, encoded, "the session has not encoded it");
        pair.client.encoded(job, pair.now, &mut out);
        assert_eq!(pair.client.counters().blocks, encoded + 1);
        blocks += 1;
    }
    assert!(blocks >= 4 && out.len() < 70_000, "{blocks} blocks in {} bytes", out.len());
    // In one call, the content is bounded, too.
    (0..12).for_each(|_| assert!(pair.client.write(flow, &content[..20_000]) > 0));
    let before = pair.client.counters().sent_bytes;
    pair.client.transmit(0, 1 << 20, pair.now, &mut Vec::new());
    let once = pair.client.counters().sent_bytes - before;
    assert!((1..=5 << 16).contains(&once), "{once}");
}

#[test]
fn a_transport_is_replaced_while_a_block_of_it_is_encoded() {
    let mut pair = Pair::new();
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    let content = noise(2, 40_000);
    assert_eq!(pair.client.write(flow, &content), content.len());
    pair.client.finish(flow);
    let mut out = Vec::new();
    let mut job = pair.client.fill(0, 1 << 20, pair.now, &mut out).unwrap();
    assert!(!pair.client.is_acknowledged() && !pair.client.is_idle());
    pair.reconnect();
    // FIN must not overtake the block.
    pair.exchange();
    pair.client.go_away();
    pair.exchange();
    assert_eq!(pair.received(flow), (Vec::new(), false));
    let before = out.len();
    job.run(&mut out);
    assert!(out.len() > before);
    pair.client.encoded(job, pair.now, &mut out);
    assert_eq!(out.len(), before, "its frame is for a transport that is gone");
    pair.acknowledge();
    assert_eq!(pair.received(flow), (content, true));
    assert!(pair.client.ended().is_none() && pair.server.ended().is_none());
}

#[test]
fn what_is_queued_while_a_block_is_encoded_follows_it() {
    let mut pair = Pair::new();
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    let content = noise(3, 40_000);
    pair.client.write(flow, &content);
    let mut out = Vec::new();
    let mut job = pair.client.fill(0, 1 << 20, pair.now, &mut out).unwrap();
    // A message of no flow, and the end of this one.
    pair.client.go_away();
    pair.client.finish(flow);
    job.run(&mut out);
    pair.client.encoded(job, pair.now, &mut out);
    pair.client.sent(0, 0, pair.now, &mut out);
    pair.server.receive(0, &out, pair.now);
    // The transport is lost: what was not acknowledged goes out again, in the same order.
    pair.reconnect();
    pair.exchange();
    pair.acknowledge();
    assert_eq!(pair.received(flow), (content, true));
    assert!(pair.client.ended().is_none() && pair.server.ended().is_none());
}

#[test]
fn a_session_that_ends_while_a_block_is_encoded_drops_that_log_only() {
    let mut pair = Pair::new();
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    pair.client.write(flow, &noise(4, 40_000));
    let mut out = Vec::new();
    let mut job = pair.client.fill(0, 1 << 20, pair.now, &mut out).unwrap();
    pair.client.close();
    job.run(&mut out);
    drop(job);
    let logs = pair.client.into_logs();
    let mut again = Session::connect(config(5).build().unwrap(), Some(logs), pair.now);
    again.attach(0, pair.now);
    let mut hello = Vec::new();
    again.transmit(0, 1 << 20, pair.now, &mut hello);
    assert!(Hello::read(&hello).unwrap().is_some());

    // A job that is lost while the session lives ends it: it could never send again.
    let mut pair = Pair::new();
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    pair.client.write(flow, &noise(4, 40_000));
    drop(pair.client.fill(0, 1 << 20, pair.now, &mut Vec::new()).unwrap());
    pair.client.encoder_lost();
    assert!(pair.client.ended().is_some());
}

/// Sends content while encoding takes as many nanoseconds as `cost` says of each block, and the link
/// this many for each byte on the wire. Returns the counts of the end that sends.
fn sent_over(
    side: impl Fn(u64) -> Config,
    content: &[u8],
    cost: impl Fn(&EncodeJob) -> u64,
    link: u64,
) -> Counters {
    let mut pair = Pair::of(side(1), side(2));
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    let (mut rest, mut received) = (content, Vec::new());
    while received.len() < content.len() {
        rest = &rest[pair.client.write(flow, rest)..];
        let mut out = Vec::new();
        while let Some(mut job) = pair.client.fill(0, 1, pair.now, &mut out) {
            job.run(&mut out);
            pair.now += Duration::from_nanos(cost(&job));
            pair.client.encoded(job, pair.now, &mut out);
        }
        pair.client.sent(0, 0, pair.now, &mut out);
        pair.now += Duration::from_nanos(out.len() as u64 * link);
        pair.server.receive(0, &out, pair.now);
        received.extend(pair.received(flow).0);
        pair.exchange();
    }
    assert!(received == content);
    pair.client.counters()
}

#[test]
fn compressed_content_is_not_opened_where_that_is_slower_than_sending_it() {
    let text: Vec<u8> =
        noise(7, 8 << 20).iter().map(|byte| b"etaoinshrdlu "[*byte as usize % 13]).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    gzip.write_all(&text).unwrap();
    let content = gzip.finish().unwrap();
    // A byte takes 26 ns more if it is opened.
    let send = |opening: Opening, link: u64| {
        let encoder = EncoderBuilder::default().inside(true);
        let side =
            |random| Config { log: 32 << 20, opening, encoder: encoder.clone(), ..config(random) };
        sent_over(side, &content, |job| job.opened() * 26 + job.content() as u64, link)
    };
    let len = content.len() as u64;
    assert!(len > 3 << 20, "{len}");
    let fast = send(Opening::Auto, 2);
    assert!(fast.opened_bytes < len * 7 / 10 && fast.unopened_bytes > len / 4, "{fast:?}");
    for (opening, link) in [(Opening::Always, 2), (Opening::Auto, 100)] {
        let all = send(opening, link);
        assert!(all.opened_bytes > len * 9 / 10 && all.unopened_bytes == 0, "{opening:?}, {all:?}");
    }
}

/// So many bytes in words of 3 to 10 letters, so that there are short repeats to seek.
pub(crate) fn words(len: usize) -> Vec<u8> {
    let letters = noise(7, 4 << 10).iter().map(|byte| b'a' + byte % 26).collect::<Vec<u8>>();
    let choices = noise(8, len / 3);
    let word = |choice: u8| &letters[usize::from(choice) * 16..][..3 + usize::from(choice % 8)];
    choices.iter().flat_map(|&choice| word(choice)).copied().take(len).collect()
}

#[test]
fn an_end_that_is_slower_than_its_link_codes_at_level_1() {
    let content = words(6 << 20);
    let send = |hurries: bool, link: u64| {
        let side = |random| Config { log: 32 << 20, hurries, ..config(random) };
        sent_over(side, &content, |job| 4 * job.content() as u64, link)
    };
    let fast = send(true, 1);
    assert!(fast.hurried_bytes > fast.sent_bytes / 2, "{fast:?}");
    for (hurries, link) in [(true, 80), (false, 1)] {
        let slow = send(hurries, link);
        assert_eq!(slow.hurried_bytes, 0, "{slow:?}");
        assert!(slow.wire_sent_bytes < fast.wire_sent_bytes, "{slow:?} {fast:?}");
    }
}

/// What the client sends now.
fn sent(pair: &mut Pair) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let before = out.len();
        pair.client.transmit(0, 1 << 20, pair.now, &mut out);
        if out.len() == before {
            return out;
        }
    }
}

#[test]
fn a_call_decodes_nothing_and_hands_out_one_block() {
    let mut pair = Pair::new();
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    let content = noise(21, 15_000);
    assert_eq!(pair.client.write(flow, &content), content.len());
    let mut wire = sent(&mut pair);
    // A message of another kind behind the blocks.
    pair.client.finish(flow);
    wire.extend(sent(&mut pair));
    pair.server.take_in(0, &mut wire, pair.now);
    assert!(wire.is_empty());
    let mut blocks = 0;
    while let Some(mut job) = pair.server.next_decode(pair.now) {
        assert!(pair.server.next_decode(pair.now).is_none(), "the decoder is lent");
        job.run();
        assert_eq!(
            pair.server.counters().received_blocks,
            blocks,
            "the session has not decoded it"
        );
        assert!(job.content() > 0);
        pair.server.decoded(job, pair.now);
        blocks += 1;
        assert_eq!(pair.server.counters().received_blocks, blocks);
    }
    assert!(blocks > 0);
    assert_eq!(pair.received(flow), (content, true));
}

#[test]
fn what_comes_while_a_block_is_decoded_follows_it() {
    for cut in [1, 30, 5_000, 14_990] {
        let mut pair = Pair::new();
        let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
        pair.exchange();
        let first = noise(22, 1000);
        pair.client.write(flow, &first);
        let mut wire = sent(&mut pair);
        let second = noise(23, 14_000);
        pair.client.write(flow, &second);
        pair.client.finish(flow);
        wire.extend(sent(&mut pair));
        // The first block whole, and some of the second.
        let mut later = wire.split_off(1100 + cut.min(wire.len() - 1200));
        pair.server.take_in(0, &mut wire, pair.now);
        let mut job = pair.server.next_decode(pair.now).unwrap();
        for piece in later.chunks_mut(3000) {
            pair.server.take_in(0, &mut piece.to_vec(), pair.now);
            assert!(pair.server.next_decode(pair.now).is_none());
        }
        job.run();
        pair.server.decoded(job, pair.now);
        pair.server.receive(0, &[], pair.now);
        assert_eq!(pair.received(flow), ([first, second].concat(), true), "{cut}");
    }
}

#[test]
fn a_block_counts_whose_transport_is_replaced_while_it_is_decoded() {
    let mut pair = Pair::new();
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    let content = noise(24, 10_000);
    pair.client.write(flow, &content);
    let mut wire = sent(&mut pair);
    pair.server.take_in(0, &mut wire, pair.now);
    let mut job = pair.server.next_decode(pair.now).unwrap();
    let blocks = pair.server.counters().received_blocks;
    pair.reconnect();
    // The answer says whether the block was processed, so it waits.
    let mut answer = Vec::new();
    pair.server.transmit(0, 1 << 20, pair.now, &mut answer);
    assert!(answer.is_empty(), "{} bytes", answer.len());
    job.run();
    pair.server.decoded(job, pair.now);
    assert_eq!(pair.server.counters().received_blocks, blocks + 1);
    pair.client.finish(flow);
    pair.exchange();
    pair.acknowledge();
    // Once, and not again.
    assert_eq!(pair.received(flow), (content, true));
    assert_eq!(pair.client.counters().repeated_bytes, 0);
    assert!(pair.client.ended().is_none() && pair.server.ended().is_none());
    assert!(pair.client.is_acknowledged());
}

#[test]
fn a_frame_that_fails_for_a_transport_that_is_gone_is_sent_again() {
    let mut pair = Pair::new();
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    let content = noise(25, 10_000);
    pair.client.write(flow, &content);
    let mut wire = sent(&mut pair);
    wire[5000] ^= 1;
    pair.server.take_in(0, &mut wire, pair.now);
    let mut job = pair.server.next_decode(pair.now).unwrap();
    pair.reconnect();
    job.run();
    pair.server.decoded(job, pair.now);
    assert_eq!(pair.server.counters().failures, 1);
    pair.client.finish(flow);
    pair.exchange();
    pair.acknowledge();
    assert_eq!(pair.received(flow), (content, true));
    assert!(pair.client.ended().is_none() && pair.server.ended().is_none());
}

#[test]
fn a_decoder_that_is_lost_costs_the_log_and_no_byte() {
    let mut pair = Pair::new();
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    let content = noise(26, 10_000);
    pair.client.write(flow, &content);
    let mut wire = sent(&mut pair);
    pair.server.take_in(0, &mut wire, pair.now);
    drop(pair.server.next_decode(pair.now).unwrap());
    pair.server.decoder_lost();
    pair.client.finish(flow);
    // The lane is given up, and the next transport begins another log.
    pair.reconnect();
    pair.exchange();
    pair.acknowledge();
    assert_eq!(pair.received(flow), (content, true));
    assert!(pair.client.counters().epochs > 1);
    // A session that ends meanwhile keeps no log.
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.client.write(flow, &noise(27, 1000));
    let mut wire = sent(&mut pair);
    pair.server.take_in(0, &mut wire, pair.now);
    let mut job = pair.server.next_decode(pair.now).unwrap();
    pair.server.close();
    job.run();
    pair.server.decoded(job, pair.now);
    assert!(pair.server.ended().is_some() && pair.server.next_decode(pair.now).is_none());
    drop(pair.server.into_logs());
}

#[test]
fn a_frame_that_waits_on_a_transport_that_is_gone_does_not_hold_the_next_one_up() {
    let lanes = |random| Config { lanes: 2, ..config(random) };
    let mut pair = Pair::of(lanes(1), lanes(2));
    let now = pair.now;
    let dial = |pair: &mut Pair| {
        pair.client.attach(1, now);
        let mut hello = Vec::new();
        pair.client.transmit(1, 1 << 20, now, &mut hello);
        let (hello, _) = Hello::read(&hello).unwrap().unwrap();
        pair.server.accept_lane(&hello, now).unwrap();
    };
    let exchange = |pair: &mut Pair| {
        for _ in 0..5 {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            pair.client.transmit(1, 1 << 20, now, &mut there);
            pair.server.receive(1, &there, now);
            while pair.server.poll_event().is_some() {}
            pair.server.transmit(1, 1 << 20, now, &mut back);
            pair.client.receive(1, &back, now);
        }
    };
    dial(&mut pair);
    exchange(&mut pair);
    let flows = [(); 2].map(|()| pair.client.open(b"tcp:origin.example:80", b"", now).unwrap());
    pair.exchange();
    exchange(&mut pair);
    let content = noise(28, 10_000);
    // What lane 0 carries is on its way while lane 1 repeats it.
    assert_eq!(pair.client.write(flows[0], &content), content.len());
    let mut late = Vec::new();
    pair.client.transmit(0, 1 << 20, now, &mut late);
    assert_eq!(pair.client.write(flows[1], &content), content.len());
    let mut wire = Vec::new();
    pair.client.transmit(1, 1 << 20, now, &mut wire);
    assert!(late.len() > 5000 && wire.len() < 1000, "{} and {} bytes", late.len(), wire.len());
    pair.server.take_in(1, &mut wire, now);
    let mut job = pair.server.next_decode(now).unwrap();
    pair.client.detach(1, now);
    pair.server.detach(1, now);
    dial(&mut pair);
    job.run();
    pair.server.decoded(job, now);
    // On the next transport the block comes as it is.
    exchange(&mut pair);
    assert!(pair.received(flows[1]).0 == content);
    pair.server.receive(0, &late, now);
    assert!(pair.received(flows[0]).0 == content);
}
