//! What `status` knows of the other end, and what it sends for that: nothing.

use crate::hostile::{answer, bytes};
use crate::pair::{LIMIT, Plan, client, echo, exchange, origin, until};
use oncewire_codec::varint;
use oncewire_net::status::Status;
use oncewire_net::tls;
use oncewire_session::{Answer, Counters, Hello, Metrics as _};
use oncewire_testkit::servers::{incompressible, text_like};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// First bytes of messages, as in `docs/PROTOCOL.md`.
const OPEN: u8 = 0x02;
const PING: u8 = 0x42;
const REPORT: u8 = 0x45;

/// A number, byte by byte.
async fn number(stream: &mut (impl AsyncRead + Unpin)) -> u64 {
    let mut bytes = Vec::new();
    loop {
        bytes.push(stream.read_u8().await.unwrap());
        if let Ok(value) = varint::take(&mut &bytes[..]) {
            return value;
        }
    }
}

/// The next message of a client that has nothing to say but PING, REPORT and OPEN: its first byte,
/// and the counters of a REPORT.
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> (u8, Vec<u64>) {
    let read = async {
        let kind = stream.read_u8().await.unwrap();
        let mut counters = Vec::new();
        match kind {
            PING => drop(number(stream).await),
            REPORT => {
                for _ in 0..number(stream).await / 8 {
                    counters.push(stream.read_u64_le().await.unwrap());
                }
            }
            _ => assert_eq!(kind, OPEN, "an unexpected message"),
        }
        (kind, counters)
    };
    timeout(LIMIT, read).await.expect("a message")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_sends_nothing_and_knows_the_last_report() {
    let plan = Plan::new().forward("127.0.0.1:9".parse().unwrap());
    let acceptor = TlsAcceptor::from(
        tls::server_config(&plan.serve.endpoint.secret, &plan.serve.endpoint.peers).unwrap(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(plan.connect, listener.local_addr().unwrap()).await;
    let (tcp, _) = listener.accept().await.unwrap();
    let mut server = acceptor.accept(tcp).await.unwrap();
    let hello = answer(&mut server).await.expect("the client greets first");
    server.write_all(&bytes(&Hello { answer: Answer::Welcome, ..hello })).await.unwrap();
    client.established(LIMIT).await.unwrap();

    // Unasked, it reports that it has a transport. The PING stays unanswered, so there is one.
    assert_eq!(message(&mut server).await.0, PING);
    let at = |name| Counters::METRICS.iter().position(|metric| metric.name == name).unwrap();
    let (kind, counters) = message(&mut server).await;
    assert_eq!((kind, counters[at("transports")], counters[at("flows_opened")]), (REPORT, 1, 0));

    // It has no report of the server yet. This one is the server's.
    let there = || client.status().sessions[0].there;
    assert!(there().is_none());
    let mut report = vec![REPORT, 16];
    report.extend([4711_u64, 12].iter().flat_map(|value| value.to_le_bytes()));
    server.write_all(&report).await.unwrap();
    until("the report has come", || there().is_some()).await;
    let first = there().unwrap();
    assert_eq!((first.0.sent_bytes, first.0.received_bytes, first.0.blocks), (4711, 12, 0));
    (0..1000).for_each(|_| drop(client.status()));
    let later = there().unwrap();
    assert_eq!(later.0, first.0);
    assert!(later.1 > first.1, "its age grows");

    // Whatever status had caused would be sent before this OPEN, or with it.
    let _application = TcpStream::connect(client.addresses()[0]).await.unwrap();
    loop {
        let (kind, counters) = message(&mut server).await;
        if kind == OPEN {
            break;
        }
        assert_eq!((kind, counters[at("flows_opened")]), (REPORT, 1), "sent because of status");
    }
    client.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_end_gets_to_know_the_last_state_of_the_other() {
    let pair = Plan::new().forward(origin(echo).await).start().await;
    assert_eq!(exchange(pair.application().await, b"once").await, b"once");
    let knows = |to: Status, from: Status| {
        let (there, here) = (to.sessions[0].there, from.sessions[0].here);
        there.is_some_and(|(there, _)| {
            (there.sent_bytes, there.received_bytes, there.flows) == (4, 4, 0)
                && (there.log_unacknowledged, there.log_end) == (0, here.log_end)
        })
    };
    until("both are reported", || {
        knows(pair.client.status(), pair.server.status())
            && knows(pair.server.status(), pair.client.status())
    })
    .await;
    pair.client.stop();
    pair.server.stop();
}

/// Each end counts what it sent for a target, and why it was not reduced; the bytes of both
/// directions agree with those of the sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_are_counted_by_target_and_by_what_was_not_reduced() {
    let (first, second) = (origin(echo).await, origin(echo).await);
    let pair = Plan::new().forward(first).forward(second).start().await;
    let at = |number: usize| TcpStream::connect(pair.client.addresses()[number]);
    // What begins as TLS does, and is random from there on.
    let record = [&b"\x16\x03\x01\x02\x00"[..], &incompressible(1, 200_000)].concat();
    let random = incompressible(2, 300_000);
    let text = text_like(3, 400_000);
    for content in [&record, &random, &text, &text, &b"ls\n".to_vec()] {
        assert!(exchange(at(0).await.unwrap(), content).await == *content);
    }
    assert!(exchange(at(1).await.unwrap(), &text).await == text);
    let of = |status: Status, target: std::net::SocketAddr| {
        let found = status.services.iter().find(|one| one.name == target.to_string());
        found.map(|one| one.counters).unwrap_or_default()
    };
    let all = (record.len() + random.len() + 2 * text.len() + 3) as u64;
    for status in [pair.client.status(), pair.server.status()] {
        let [one, other] = [first, second].map(|target| of(status.clone(), target));
        assert_eq!((one.flows, one.sent_bytes, one.received_bytes), (5, all, all));
        assert_eq!((other.flows, other.sent_bytes), (1, text.len() as u64));
        assert_eq!(one.encrypted_bytes, record.len() as u64);
        assert!(one.incompressible_bytes >= random.len() as u64 * 9 / 10, "{one:?}");
        assert!(one.small_bytes >= 3, "{one:?}");
        // The second time, and for the other target: it was sent before.
        assert!(one.matched_bytes >= text.len() as u64 * 9 / 10, "{one:?}");
        assert!(other.matched_bytes >= text.len() as u64 * 9 / 10, "{other:?}");
        assert!(other.wire() < other.content() / 10, "{other:?}");
        let here = status.sessions[0].here;
        assert_eq!(here.encrypted_bytes, one.encrypted_bytes);
        assert_eq!(here.sent_bytes, one.sent_bytes + other.sent_bytes);
        assert!(one.wire_sent_bytes + other.wire_sent_bytes <= here.wire_sent_bytes);
        assert!(here.wire_sent_bytes - one.wire_sent_bytes - other.wire_sent_bytes < 10_000);
    }
    pair.client.stop();
    pair.server.stop();
}
