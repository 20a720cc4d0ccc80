//! An authorized peer that breaks every rule: nothing panics, memory stays bounded, and other peers
//! are served as before.
//!
//! One file, because all tests forge the same messages.

use crate::pair::{LIMIT, Pair, Plan, client, echo, exchange, origin};
use oncewire_codec::{EncoderBuilder, varint};
use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
use oncewire_net::{serve, tls};
use oncewire_session::{Answer, Config, Epoch, Hello, LogState, Session, SessionId};
use oncewire_testkit::servers::{Rng, incompressible};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// First bytes of messages, as in `docs/PROTOCOL.md`.
const DATA: u8 = 0x01;
const OPEN: u8 = 0x02;
const OPENED: u8 = 0x03;
const FIN: u8 = 0x04;
const RESET: u8 = 0x05;
const CREDIT: u8 = 0x06;
const EPOCH: u8 = 0x07;
const LOG_LIMIT: u8 = 0x08;
const GO_AWAY: u8 = 0x09;
const HELLO: u8 = 0x40;
const ACK: u8 = 0x41;
const PING: u8 = 0x42;
const PONG: u8 = 0x43;
const CLOSE: u8 = 0x44;
const REPORT: u8 = 0x45;

/// A message that consists of numbers.
fn message(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut out = vec![kind];
    numbers.iter().for_each(|&number| varint::put(&mut out, number));
    out
}

/// A message that ends with a text.
fn with_text(kind: u8, numbers: &[u64], text: &[u8]) -> Vec<u8> {
    let mut out = message(kind, numbers);
    varint::put(&mut out, text.len() as u64);
    out.extend_from_slice(text);
    out
}

fn epoch(log: u64, number: u64, keep: u64, capacity: u64) -> Vec<u8> {
    let mut out = vec![EPOCH];
    out.extend_from_slice(&log.to_le_bytes());
    [number, keep, capacity].iter().for_each(|&number| varint::put(&mut out, number));
    out
}

/// Opens a flow of the domain without a name.
fn open(flow: u64, target: &[u8]) -> Vec<u8> {
    // Neither a client nor a name.
    [with_text(OPEN, &[flow], target), vec![0, 0]].concat()
}

/// The first hello of a session.
pub(crate) fn hello(session: u8) -> Hello {
    Hello {
        lanes: 1,
        send_log: 16 << 20,
        receive_log: 16 << 20,
        early_credit: 16 << 10,
        max_flows: 512,
        contexts: 4,
        agent: "byzantine".into(),
        ..Hello::new(SessionId([session; 16]), Answer::New)
    }
}

pub(crate) fn bytes(hello: &Hello) -> Vec<u8> {
    let mut out = Vec::new();
    hello.write(&mut out);
    out
}

/// A random message of any kind, well formed more often than not.
fn random_message(rng: &mut Rng) -> Vec<u8> {
    let mut number = || match rng.below(4) {
        0 => rng.below(4),
        1 => rng.below(100_000),
        2 => 1 << rng.below(63),
        _ => rng.next_u64() >> 1,
    };
    let [a, b, c, d] = [number(), number(), number(), number()];
    let text = incompressible(a, (b % 60) as usize);
    match rng.below(18) {
        0 => [message(DATA, &[a % 8]), text].concat(),
        1 => open(a % 64 * 2, b"tcp:127.0.0.1:9"),
        2 => open(a, &text),
        3 => message(OPENED, &[a % 8]),
        4 => message(FIN, &[a % 8]),
        5 => message(RESET, &[a % 8, b]),
        6 => message(CREDIT, &[a % 8, b]),
        7 => epoch(a, b % 2, c % 2, 1 << 20),
        8 => epoch(a, b, c, d),
        9 => message(LOG_LIMIT, &[a]),
        10 => message(GO_AWAY, &[]),
        11 => message(ACK, &[a % 4]),
        12 => message(PING, &[a]),
        13 => message(PONG, &[a]),
        14 => with_text(REPORT, &[], &text[..text.len() / 8 * 8]),
        15 => with_text(REPORT, &[], &text),
        16 => message(ACK, &[a]),
        _ => text,
    }
}

/// Both ends, and one more key that the server accepts.
struct Victim {
    pair: Pair,
    key: SecretKey,
    trusted: AuthorizedPeers,
}

impl Victim {
    async fn start() -> Victim {
        let mut plan = Plan::new().forward(origin(echo).await);
        plan.serve.endpoint.memory = 64 << 20;
        let key = SecretKey::generate().unwrap();
        let keys = [plan.connect.endpoint.secret.public(), key.public()];
        plan.serve.endpoint.peers = AuthorizedPeers::new(keys.map(Peer::from));
        let trusted = plan.connect.endpoint.peers.clone();
        Victim { pair: plan.start().await, key, trusted }
    }

    /// An authenticated transport without a hello.
    async fn dial(&self) -> impl AsyncRead + AsyncWrite + Unpin + Send + use<> {
        let connector = TlsConnector::from(
            tls::client_config(&self.key, &self.trusted, tls::Credential::RawKey).unwrap(),
        );
        let tcp = TcpStream::connect(self.pair.server.addresses()[0]).await.unwrap();
        connector.connect(tls::server_name(), tcp).await.unwrap()
    }

    /// An authenticated transport of an established session.
    async fn greet(&self, session: u8) -> impl AsyncRead + AsyncWrite + Unpin + Send + use<> {
        let mut stream = self.dial().await;
        stream.write_all(&bytes(&hello(session))).await.unwrap();
        assert_eq!(answer(&mut stream).await.unwrap().answer, Answer::Welcome);
        stream
    }

    /// Checks that other peers are served and memory is within its limit.
    async fn is_well(&self) {
        let status = self.pair.server.status();
        assert!(
            status.memory <= status.memory_limit,
            "{} of {}",
            status.memory,
            status.memory_limit
        );
        assert!(status.sessions.len() <= 5 && status.kept_logs <= 5, "{status:?}");
        let bytes = incompressible(1, 50_000);
        assert!(exchange(self.pair.application().await, &bytes).await == bytes);
    }
}

/// The next hello; `None` if none arrives.
pub(crate) async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> Option<Hello> {
    let mut heard = Vec::new();
    loop {
        if let Some((hello, _)) = Hello::read(&heard).expect("an answer is a hello") {
            return Some(hello);
        }
        match timeout(LIMIT, stream.read_buf(&mut heard)).await.expect("an answer or an end") {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Reads until the other end closes; fails if it does not.
async fn must_end(what: &str, stream: &mut (impl AsyncRead + Unpin)) {
    let end = async {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).await.is_ok_and(|len| len > 0) {}
    };
    assert!(timeout(LIMIT, end).await.is_ok(), "the transport is still open: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_messages_that_are_not_hellos_are_refused() {
    let victim = Victim::start().await;
    let good = bytes(&hello(1));
    let mut huge = vec![HELLO];
    varint::put(&mut huge, 1 << 40);
    let long = with_text(HELLO, &[], &[b'O'; 4097]);
    let version = bytes(&Hello { oldest: 7, newest: 9, ..hello(1) });
    let magic = with_text(HELLO, &[], b"TWICE....");
    let fields = with_text(HELLO, &[], b"ONCE\x01\x01\x02\x01\x00");
    let before = victim.pair.server.status().refused_transports;
    let cases = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 100],
        incompressible(5, 20_000),
        huge,
        long,
        version,
        magic,
        fields,
    ];
    for (case, bytes) in cases.iter().enumerate() {
        let mut stream = victim.dial().await;
        let _ = stream.write_all(bytes).await;
        must_end(&format!("case {case}"), &mut stream).await;
    }
    // Some transports end in the middle.
    for len in [0, 1, 3, 20, good.len() - 1] {
        let mut stream = victim.dial().await;
        stream.write_all(&good[..len]).await.unwrap();
        stream.shutdown().await.unwrap();
        must_end(&format!("{len} bytes of a hello"), &mut stream).await;
    }
    let refused = victim.pair.server.status().refused_transports - before;
    assert_eq!(refused, cases.len() as u64 + 5);
    victim.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_hellos_get_an_answer_and_bounded_resources() {
    let victim = Victim::start().await;
    let held =
        LogState { epoch: Epoch { log: 5, number: u64::MAX }, acknowledged: u64::MAX, chain: 1 };
    let max = u64::MAX >> 1;
    for (odd, expected) in [
        (Hello { answer: Answer::Resume, ..hello(1) }, Answer::Unknown),
        (Hello { answer: Answer::Welcome, ..hello(1) }, Answer::Unknown),
        (Hello { answer: Answer::Busy, ..hello(1) }, Answer::Unknown),
        (Hello { lane: 1, ..hello(1) }, Answer::Unknown),
        (Hello { lane: max, lanes: max, ..hello(1) }, Answer::Unknown),
        (Hello { send_log: 0, ..hello(1) }, Answer::Unknown),
        (Hello { receive_log: 1, ..hello(1) }, Answer::Unknown),
        (Hello { received: 1, ..hello(1) }, Answer::Unknown),
        (Hello { lanes: 0, max_flows: 0, early_credit: 0, ..hello(2) }, Answer::Welcome),
        (
            Hello {
                lanes: max,
                max_flows: max,
                early_credit: max,
                send_log: max,
                receive_log: max,
                ..hello(3)
            },
            Answer::Welcome,
        ),
        (Hello { log: held, ..hello(4) }, Answer::Welcome),
    ] {
        let mut stream = victim.dial().await;
        stream.write_all(&bytes(&odd)).await.unwrap();
        let answer = answer(&mut stream).await.expect("an answer").answer;
        assert_eq!(answer, expected, "{odd:?}");
        victim.is_well().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_sessions_stays_within_the_limit() {
    let victim = Victim::start().await;
    for session in 0..120 {
        let mut stream = victim.dial().await;
        stream.write_all(&bytes(&hello(session))).await.unwrap();
        let _ = answer(&mut stream).await;
        if session % 2 == 0 {
            // Starts a log.
            let _ = stream.write_all(&epoch(7, 0, 0, 1 << 20)).await;
        }
        if session % 3 == 0 {
            let _ = stream.write_all(&with_text(CLOSE, &[0], b"")).await;
        }
    }
    victim.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_violation_ends_the_transport() {
    let victim = Victim::start().await;
    let first = open(0, b"tcp:127.0.0.1:9");
    for (session, (what, bytes)) in [
        ("an acknowledgement of what was never sent", message(ACK, &[1 << 40])),
        ("a second hello", bytes(&hello(1))),
        ("an unknown message", vec![0x3f]),
        (
            "a number that is too long",
            vec![PING, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
        ("a flow with a name of the other end's", open(1, b"tcp:127.0.0.1:9")),
        ("a flow opened twice", [first.clone(), first].concat()),
        ("a target that is too long", open(0, &[b'a'; 1025])),
        ("a target that claims to be endless", message(OPEN, &[0, 1 << 50])),
        (
            "a domain whose client is too long",
            [with_text(OPEN, &[0], b"tcp:127.0.0.1:9"), vec![65], vec![b'd'; 65]].concat(),
        ),
        (
            "a domain whose name is too long",
            [with_text(OPEN, &[0], b"tcp:127.0.0.1:9"), vec![0, 65], vec![b'd'; 65]].concat(),
        ),
        ("data without a log", [message(DATA, &[0]), vec![0; 64]].concat()),
        (
            "data that is no frame",
            [epoch(1, 0, 0, 1 << 20), message(DATA, &[0]), vec![0xff; 200]].concat(),
        ),
        ("a log that is too small", epoch(2, 0, 0, 1)),
        ("a log that is too large", epoch(3, 0, 0, 1 << 60)),
        ("a log without a name", epoch(0, 0, 0, 1 << 20)),
        ("a log that goes on from nothing", epoch(4, 1, 1, 1 << 20)),
        (
            "a log that goes on from where it is not",
            [epoch(5, 0, 0, 1 << 20), epoch(5, 1, 99, 1 << 20)].concat(),
        ),
        ("a report that is none", with_text(REPORT, &[], &[0x80])),
        ("a report that is too long", message(REPORT, &[5000])),
        ("an accusation", with_text(CLOSE, &[1], b"\x1b[2Jyou lie")),
        ("the end", with_text(CLOSE, &[0], b"")),
    ]
    .into_iter()
    .enumerate()
    {
        let mut stream = victim.greet(session as u8).await;
        stream.write_all(&bytes).await.unwrap();
        must_end(what, &mut stream).await;
    }
    victim.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_messages_do_no_harm() {
    let victim = Arc::new(Victim::start().await);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut stream = victim.greet(seed as u8).await;
        let mut flood = Vec::new();
        for _ in 0..1 + rng.below(100) {
            flood.extend(random_message(&mut rng));
        }
        let _ = stream.write_all(&flood).await;
        let mut buffer = [0; 4096];
        let _ = timeout(Duration::from_millis(5), stream.read(&mut buffer)).await;
        if seed % 20 == 0 {
            victim.is_well().await;
        }
    }
    victim.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_flows_stay_within_the_limit() {
    let victim = Victim::start().await;
    // Refused by the rules: each costs the server one message.
    let mut stream = victim.greet(1).await;
    for flow in 0..20_000 {
        if stream.write_all(&open(flow * 2, b"tcp:192.0.2.1:9")).await.is_err() {
            break;
        }
    }
    victim.is_well().await;
    drop(stream);

    static OPEN_NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let address = origin(|mut stream| async move {
        MOST.fetch_max(OPEN_NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let _ = stream.read(&mut [0; 1]).await;
        OPEN_NOW.fetch_sub(1, Ordering::SeqCst);
    })
    .await;
    let mut stream = victim.greet(2).await;
    for flow in 0..3_000 {
        if stream.write_all(&open(flow * 2, format!("tcp:{address}").as_bytes())).await.is_err() {
            break;
        }
    }
    sleep(Duration::from_millis(500)).await;
    victim.is_well().await;
    drop(stream);
    let limit =
        Config::for_memory(64 << 20, 1, EncoderBuilder::default()).unwrap().max_flows as usize;
    assert!(
        MOST.load(Ordering::SeqCst) <= limit,
        "{MOST:?} connections, where {limit} flows are allowed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_the_credit_ends_the_session() {
    let victim = Victim::start().await;
    let deaf = origin(|_stream| async move { sleep(LIMIT).await }).await;
    let mut stream = victim.dial().await;
    // A correct session that was told of credit that the server did not give.
    let config = Config {
        random: [1, 2, 3, 4],
        ..Config::for_memory(64 << 20, 1, EncoderBuilder::default()).unwrap()
    };
    let mut session = Session::connect(config.build().unwrap(), None, Instant::now());
    session.attach(0, Instant::now());
    let mut flow = None;
    let content = incompressible(1, 64 << 10);
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < LIMIT, "the server takes more than it gave credit for");
        let mut out = Vec::new();
        session.transmit(0, 1 << 20, Instant::now(), &mut out);
        if stream.write_all(&out).await.is_err() {
            break;
        }
        let mut buffer = [0; 4096];
        match timeout(Duration::from_millis(2), stream.read(&mut buffer)).await {
            Err(_) => {}
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(len)) => session.receive(0, &buffer[..len], Instant::now()),
        }
        if flow.is_none() {
            flow = session.open(format!("tcp:{deaf}").as_bytes(), b"", Instant::now()).ok();
        } else if let Some(flow) = flow {
            session.receive(0, &message(CREDIT, &[0, 1 << 40]), Instant::now());
            session.write(flow, &content);
        }
    }
    victim.is_well().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_or_acknowledge_costs_no_more_than_its_share() {
    let victim = Victim::start().await;
    let content = incompressible(8, 1 << 20);
    let source = origin(move |mut stream| {
        let content = content.clone();
        async move { while stream.write_all(&content).await.is_ok() {} }
    })
    .await;
    for reads in [false, true] {
        let mut stream = victim.greet(u8::from(reads)).await;
        for flow in 0..20 {
            stream.write_all(&open(flow * 2, format!("tcp:{source}").as_bytes())).await.unwrap();
            stream.write_all(&message(CREDIT, &[flow * 2, 1 << 50])).await.unwrap();
        }
        let mut got = 0;
        let until = Instant::now() + Duration::from_millis(700);
        let mut buffer = vec![0; 64 << 10];
        while Instant::now() < until {
            if reads {
                if let Ok(Ok(len)) =
                    timeout(Duration::from_millis(50), stream.read(&mut buffer)).await
                {
                    got += len;
                }
            } else {
                sleep(Duration::from_millis(50)).await;
                let _ = timeout(
                    Duration::from_millis(1),
                    stream.write_all(&message(PING, &[1]).repeat(20_000)),
                )
                .await;
            }
            let status = victim.pair.server.status();
            assert!(
                status.memory <= status.memory_limit,
                "{} of {}",
                status.memory,
                status.memory_limit
            );
        }
        let log = Config::for_memory(64 << 20, 1, EncoderBuilder::default()).unwrap().log as usize;
        assert!(got < log, "{got} bytes came, and none was acknowledged");
        victim.is_well().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_do_not_keep_a_peer_out() {
    let mut plan = Plan::new().forward(origin(echo).await);
    let server = serve(plan.serve.clone()).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.push(TcpStream::connect(server.addresses()[0]).await.unwrap());
    }
    let started = Instant::now();
    let address = server.addresses()[0];
    plan.connect.server = address.to_string().parse().unwrap();
    let client = oncewire_net::connect(plan.connect).await.unwrap();
    client.established(LIMIT).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let application = TcpStream::connect(client.addresses()[0]).await.unwrap();
    assert_eq!(exchange(application, b"here").await, b"here");
}

// A server that breaks every rule.

/// What a bad server sends after the client's hello; nothing if it is empty.
type Words = fn(&Hello, seed: u64) -> Vec<u8>;

fn welcome(hello: &Hello) -> Hello {
    Hello { answer: Answer::Welcome, ..hello.clone() }
}

fn after_welcome(hello: &Hello, more: &[u8]) -> Vec<u8> {
    [bytes(&welcome(hello)), more.to_vec()].concat()
}

const BAD_WORDS: &[(&str, Words)] = &[
    ("nothing", |_, _| Vec::new()),
    ("what is no hello", |_, _| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ("noise", |_, seed| incompressible(seed, 30_000)),
    ("a hello that claims to be endless", |_, _| message(HELLO, &[1 << 40])),
    ("half a hello", |hello, _| bytes(hello)[..30].to_vec()),
    ("another session", |hello, _| bytes(&Hello { session: SessionId([9; 16]), ..welcome(hello) })),
    ("another lane", |hello, _| bytes(&Hello { lane: 3, ..welcome(hello) })),
    ("the client's own words", |hello, _| bytes(hello)),
    ("it does not know the session", |hello, _| {
        bytes(&Hello { answer: Answer::Unknown, ..hello.clone() })
    }),
    ("it is busy", |hello, _| bytes(&Hello { answer: Answer::Busy, ..hello.clone() })),
    ("logs of no size", |hello, _| bytes(&Hello { send_log: 0, receive_log: 0, ..welcome(hello) })),
    ("messages received that were not sent", |hello, _| {
        bytes(&Hello { received: 99, ..welcome(hello) })
    }),
    ("everything without bounds, then noise", |hello, seed| {
        let max = u64::MAX >> 1;
        let all = Hello {
            lanes: max,
            send_log: max,
            receive_log: max,
            early_credit: max,
            max_flows: max,
            ..welcome(hello)
        };
        [bytes(&all), incompressible(seed, 10_000)].concat()
    }),
    ("acknowledgements of the future", |hello, _| {
        after_welcome(hello, &message(ACK, &[u64::MAX >> 1]))
    }),
    ("a huge log", |hello, _| after_welcome(hello, &epoch(1, 0, 0, 1 << 60))),
    ("data without a log", |hello, _| {
        after_welcome(hello, &[message(DATA, &[0]), vec![0; 100]].concat())
    }),
    ("bad frames", |hello, seed| {
        after_welcome(
            hello,
            &[epoch(3, 0, 0, 1 << 20), message(DATA, &[0]), incompressible(seed, 999)].concat(),
        )
    }),
    ("thousands of flows", |hello, _| {
        let opens = (0..5_000).flat_map(|flow| {
            let request = ["tcp:127.0.0.1:22", "listen:127.0.0.1:0", "from:127.0.0.1:1", "?"]
                [flow as usize % 4];
            open(flow * 2 + 1, request.as_bytes())
        });
        after_welcome(hello, &opens.collect::<Vec<_>>())
    }),
    ("random messages", |hello, seed| {
        let mut rng = Rng::new(seed);
        let messages = (0..200).flat_map(|_| random_message(&mut rng));
        after_welcome(hello, &messages.collect::<Vec<_>>())
    }),
    ("an accusation", |hello, _| after_welcome(hello, &with_text(CLOSE, &[1], b"\x1b[2Jyou lie"))),
];

/// Listens with the server's key, sends `words` on the first two transports, and connects later
/// ones to the real server.
async fn impostor(acceptor: TlsAcceptor, real: SocketAddr, words: Words) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for round in 0.. {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if round >= 2 {
                    let mut through = TcpStream::connect(real).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut tcp, &mut through).await;
                    return;
                }
                let mut stream = acceptor.accept(tcp).await.unwrap();
                let hello = answer(&mut stream).await.expect("the client greets first");
                let _ = stream.write_all(&words(&hello, round)).await;
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).await.is_ok_and(|len| len > 0) {}
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_survives_every_kind_of_bad_server() {
    let echo = origin(echo).await;
    let mut tasks = tokio::task::JoinSet::new();
    for &(what, words) in BAD_WORDS {
        let plan = Plan::new().impatient(Duration::from_secs(2)).forward(echo);
        let acceptor = TlsAcceptor::from(
            tls::server_config(&plan.serve.endpoint.secret, &plan.serve.endpoint.peers).unwrap(),
        );
        let server = serve(plan.serve).await.unwrap();
        let address = impostor(acceptor, server.addresses()[0], words).await;
        let client = client(plan.connect, address).await;
        tasks.spawn(async move {
            let served = async {
                loop {
                    let mut application = TcpStream::connect(client.addresses()[0]).await.unwrap();
                    let mut back = [0; 5];
                    let _ = application.write_all(b"hello").await;
                    match timeout(Duration::from_secs(4), application.read_exact(&mut back)).await {
                        Ok(Ok(_)) => return back,
                        // The client was in a session with the bad server.
                        _ => sleep(Duration::from_millis(20)).await,
                    }
                    let status = client.status();
                    assert!(status.memory < status.memory_limit, "{what}: {} bytes", status.memory);
                }
            };
            let back = timeout(LIMIT, served).await;
            assert_eq!(
                back.ok().as_ref(),
                Some(b"hello"),
                "the client is not served after a server that said: {what}"
            );
            drop(server);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}
