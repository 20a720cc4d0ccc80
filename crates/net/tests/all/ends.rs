//! How tunnels end, and how long flows may be idle.

use crate::pair::{LIMIT, Pair, Plan, echo, exchange, origin, until};
use oncewire_net::serve;
use oncewire_testkit::servers::free_port;
use oncewire_testkit::servers::text_like;
use oncewire_testkit::skip;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

async fn open_flow(pair: &Pair) -> TcpStream {
    let mut application = pair.application().await;
    speak(&mut application).await;
    application
}

async fn speak(application: &mut TcpStream) {
    application.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    timeout(LIMIT, application.read_exact(&mut back)).await.expect("the flow is stuck").unwrap();
    assert_eq!(&back, b"ping");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_server_lets_flows_finish_and_accepts_no_more() {
    let pair = Plan::new().forward(origin(echo).await).start().await;
    let open = open_flow(&pair).await;
    let server = pair.server.clone();
    let draining = tokio::spawn(async move { server.drain(LIMIT).await });
    until("the client knows", || is_draining(&pair)).await;
    assert!(pair.server.status().draining);
    until("the server listens no more", || {
        std::net::TcpStream::connect(pair.server.addresses()[0]).is_err()
    })
    .await;
    // An application that connects now waits for another session, or is refused.
    let late = async {
        let mut late = TcpStream::connect(pair.client.addresses()[0]).await?;
        late.write_all(b"late").await?;
        late.read(&mut [0; 4]).await
    };
    let nothing = timeout(Duration::from_millis(300), late).await;
    assert!(!matches!(nothing, Ok(Ok(1..))), "{nothing:?}");
    let bytes = text_like(5, 500_000);
    assert!(exchange(open, &bytes).await == bytes);
    assert!(timeout(LIMIT, draining).await.unwrap().unwrap());
    until("the session ends", || pair.server.status().sessions.is_empty()).await;
}

fn is_draining(pair: &Pair) -> bool {
    pair.client.status().sessions.iter().any(|session| session.phase == "draining")
}

/// Either end drains while an application still has to read what has arrived for it.
async fn drains_beside_a_slow_reader(server_drains: bool) {
    const LEN: usize = 900_000;
    let bytes = text_like(9, LEN);
    let content = bytes.clone();
    let sender = origin(move |mut stream| {
        let content = content.clone();
        async move {
            let _ = stream.write_all(&content).await;
            let _ = stream.shutdown().await;
            let _ = stream.read(&mut [0; 1]).await;
        }
    });
    let pair = Plan::new().forward(sender.await).start().await;
    // With small segments and a small buffer the kernel takes little, so that most waits in the
    // client.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket2::SockRef::from(&socket).set_tcp_mss(536).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut application = socket.connect(pair.client.addresses()[0]).await.unwrap();
    application.shutdown().await.unwrap();
    // Everything has crossed the tunnel; the application has read nothing.
    let received = |pair: &Pair| pair.client.status().sessions[0].here.received_low;
    until("all has arrived at the client", || received(&pair) >= LEN as u64).await;
    let (server, client) = (pair.server.clone(), pair.client.clone());
    let draining = tokio::spawn(async move {
        if server_drains { server.drain(LIMIT).await } else { client.drain(LIMIT).await }
    });
    sleep(Duration::from_millis(700)).await;
    let mut got = Vec::new();
    timeout(LIMIT, application.read_to_end(&mut got)).await.unwrap().expect("nothing is reset");
    assert!(got == bytes, "{} of {LEN} bytes", got.len());
    assert!(timeout(LIMIT, draining).await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_server_loses_no_unread_bytes() {
    drains_beside_a_slow_reader(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_client_loses_no_unread_bytes() {
    drains_beside_a_slow_reader(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_successor_of_a_draining_server_takes_over_at_once() {
    let port = free_port().unwrap();
    let mut plan = Plan::new().forward(origin(echo).await);
    plan.serve.endpoint.egress.allow_listen = vec![format!("127.0.0.1:{port}").parse().unwrap()];
    plan.connect.reverse.push(format!("127.0.0.1:{port}:{}", origin(echo).await).parse().unwrap());
    let mut successor = plan.serve.clone();
    let pair = plan.start().await;
    successor.listen = vec![pair.server.addresses()[0].to_string().parse().unwrap()];
    let mut open = open_flow(&pair).await;
    let server = pair.server.clone();
    let draining = tokio::spawn(async move { server.drain(2 * LIMIT).await });
    until("the client knows", || is_draining(&pair)).await;
    // A connection made now, while there is no server, waits for the next one.
    let mut early = pair.application().await;
    early.write_all(b"early").await.unwrap();
    let successor =
        serve(successor).await.expect("the place is free though the other is still draining");
    let mut back = [0; 5];
    timeout(LIMIT, early.read_exact(&mut back)).await.expect("it gets through").unwrap();
    assert_eq!(&back, b"early");
    assert_eq!(successor.status().sessions.len(), 1);
    let reverse = async {
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await {
                return exchange(stream, b"reverse").await;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!(timeout(LIMIT, reverse).await.expect("reverse forwards move, too"), b"reverse");
    // The open connection continues to its end.
    speak(&mut open).await;
    assert!(!draining.is_finished());
    assert_eq!(exchange(open, b"the end").await, b"the end");
    assert!(timeout(LIMIT, draining).await.unwrap().unwrap());
    until("the session is forgotten", || pair.client.status().sessions.len() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_the_limit_wait_a_second_and_are_then_refused() {
    let mut plan = Plan::new().forward(origin(echo).await);
    plan.connect.endpoint.max_flows = Some(2);
    let pair = plan.start().await;
    let (first, mut second) = (open_flow(&pair).await, open_flow(&pair).await);
    let mut third = pair.application().await;
    third.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    assert!(
        timeout(Duration::from_millis(200), third.read(&mut back)).await.is_err(),
        "neither served nor turned away"
    );
    drop(first);
    timeout(LIMIT, third.read_exact(&mut back)).await.expect("there is room now").unwrap();
    let mut fourth = pair.application().await;
    let _ = fourth.write_all(b"ping").await;
    let end = timeout(LIMIT, fourth.read(&mut back)).await.expect("it is told");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    assert_eq!(pair.client.status().refused_connections, 1);
    speak(&mut second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_ends_at_its_time_limit() {
    let pair = Plan::new().forward(origin(echo).await).start().await;
    let mut open = open_flow(&pair).await;
    assert!(!timeout(LIMIT, pair.server.drain(Duration::from_millis(200))).await.unwrap());
    let error = timeout(LIMIT, open.read(&mut [0; 1])).await.expect("the flow ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_client_lets_flows_finish_and_accepts_no_more() {
    let pair = Plan::new().forward(origin(echo).await).start().await;
    let open = open_flow(&pair).await;
    let client = pair.client.clone();
    let draining = tokio::spawn(async move { client.drain(LIMIT).await });
    until("it listens no more", || {
        std::net::TcpStream::connect(pair.client.addresses()[0]).is_err()
    })
    .await;
    let bytes = text_like(6, 500_000);
    assert!(exchange(open, &bytes).await == bytes);
    assert!(timeout(LIMIT, draining).await.unwrap().unwrap());
    until("the server forgets it", || pair.server.status().sessions.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_stops_at_once_while_its_server_drains() {
    let pair = Plan::new().forward(origin(echo).await).start().await;
    let mut open = open_flow(&pair).await;
    let server = pair.server.clone();
    let draining = tokio::spawn(async move { server.drain(LIMIT).await });
    until("the client knows", || is_draining(&pair)).await;
    pair.client.stop();
    let error = timeout(LIMIT, open.read(&mut [0; 1])).await.expect("the flow ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(
        timeout(Duration::from_secs(5), draining)
            .await
            .expect("nothing is left to wait for")
            .unwrap()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_flows_outlive_many_keep_alive_times() {
    let pair =
        Plan::new().impatient(Duration::from_secs(5)).forward(origin(echo).await).start().await;
    let mut open = open_flow(&pair).await;
    sleep(Duration::from_millis(2500)).await;
    speak(&mut open).await;
    let counters = pair.client.status().sessions[0].here;
    assert_eq!((counters.transports, counters.resumes), (1, 0));
}

/// File descriptors: the limit of this process, and how many it uses.
pub(crate) fn descriptors() -> Option<(usize, usize)> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    let limit = line.split_whitespace().nth(3)?.parse().ok()?;
    Some((limit, std::fs::read_dir("/proc/self/fd").ok()?.count()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifteen_hundred_idle_flows_do_not_delay_an_active_one() {
    const FLOWS: usize = 1500;
    // Every flow has four sockets in this process; other tests need some, too.
    match descriptors() {
        Some((limit, used)) if limit < used + 4 * FLOWS + 2000 => {
            skip!("{limit} descriptors are too few for {FLOWS} flows in one process")
        }
        _ => {}
    }
    let mut plan = Plan::new().forward(origin(echo).await);
    for endpoint in [&mut plan.serve.endpoint, &mut plan.connect.endpoint] {
        endpoint.memory = 512 << 20;
    }
    let pair = plan.start().await;
    let mut open = Vec::new();
    for _ in 0..FLOWS / 50 {
        // As many at once as fit into a listener's queue.
        let mut batch = Vec::new();
        for _ in 0..50 {
            batch.push(pair.application().await);
        }
        for mut application in batch {
            speak(&mut application).await;
            open.push(application);
        }
    }
    assert_eq!(pair.server.status().sessions[0].here.flows, FLOWS as u64);
    let memory = pair.server.status().memory;
    assert!(memory < 64 << 20, "{memory} bytes for {FLOWS} idle flows");
    let started = Instant::now();
    for _ in 0..20 {
        speak(&mut open_flow(&pair).await).await;
    }
    assert!(started.elapsed() < Duration::from_secs(4), "{:?} for 20 new flows", started.elapsed());
    for application in open.iter_mut().step_by(100) {
        speak(application).await;
    }
    drop(open);
    until("all are forgotten", || pair.server.status().sessions[0].here.flows == 0).await;
}
