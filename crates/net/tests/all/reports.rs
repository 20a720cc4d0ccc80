//! What `status` knows of the other end, and what it sends for that: nothing.

use crate::hostile::{answer, bytes};
use crate::pair::{LIMIT, Plan, client, echo, exchange, origin, until};
use oncewire_codec::varint;
use oncewire_net::status::Status;
use oncewire_net::tls;
use oncewire_session::{Answer, Counters, Hello, Metrics as _};
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
