//! A flow behaves as through a plain TCP proxy.

use crate::pair::{LIMIT, Plan, client, echo, exchange, is_reset, origin, until};
use oncewire_net::{TransportKind, serve};
use oncewire_testkit::servers::{incompressible, text_like};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_echo_returns_the_same_bytes() {
    let pair = Plan::new().forward(origin(echo).await).start().await;
    for (seed, len) in [(1, 0), (2, 1), (3, 100), (4, 65_536), (5, 3_000_000)] {
        for bytes in [incompressible(seed, len), text_like(seed, len)] {
            let back = exchange(pair.application().await, &bytes).await;
            assert!(back == bytes, "{} of {len} bytes came back, seed {seed}", back.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quic_carries_lanes_as_tcp_does() {
    for lanes in [1, 3] {
        let mut plan = Plan::new().forward(origin(echo).await);
        for endpoint in [&mut plan.serve.endpoint, &mut plan.connect.endpoint] {
            endpoint.transport = TransportKind::Quic;
            endpoint.lanes = lanes;
        }
        let pair = plan.start().await;
        for seed in 0..6 {
            let bytes = incompressible(seed, 2_000_000);
            assert!(exchange(pair.application().await, &bytes).await == bytes);
        }
        let status = pair.client.status();
        assert_eq!(status.sessions[0].lanes, lanes);
        assert!(status.transport_sent > 12_000_000, "{}", status.transport_sent);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_listens_on_both_families() {
    for transport in [TransportKind::Tcp, TransportKind::Quic] {
        let mut plan = Plan::new().forward(origin(echo).await);
        plan.serve.listen = vec!["*:0".parse().unwrap()];
        for endpoint in [&mut plan.serve.endpoint, &mut plan.connect.endpoint] {
            endpoint.transport = transport;
        }
        let (server, connect) = (serve(plan.serve).await.unwrap(), plan.connect);
        let at = server.addresses()[0];
        for local in ["127.0.0.1", "::1"] {
            if std::net::TcpListener::bind((local, 0)).is_err() {
                oncewire_testkit::skipped!("this machine has no IPv6");
                continue;
            }
            let client =
                client(connect.clone(), SocketAddr::new(local.parse().unwrap(), at.port())).await;
            client.established(LIMIT).await.unwrap();
            let application = TcpStream::connect(client.addresses()[0]).await.unwrap();
            assert_eq!(exchange(application, b"hello").await, b"hello");
            // IPv4 peers are shown as such.
            let seen = server.status().sessions[0].address.unwrap();
            assert_eq!(seen.ip().to_string(), local, "{transport:?}");
            client.stop();
            until("the session is over", || server.status().sessions.is_empty()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn auto_uses_tcp_if_the_server_has_no_quic() {
    let mut plan = Plan::new().forward(origin(echo).await);
    plan.connect.endpoint.transport = TransportKind::Auto;
    plan.serve.endpoint.transport = TransportKind::Tcp;
    let pair = plan.start().await;
    assert_eq!(exchange(pair.application().await, b"hello").await, b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_costs_next_to_nothing() {
    let bytes = incompressible(7, 8_000_000);
    let content = bytes.clone();
    let pair = Plan::new()
        .forward(
            origin(move |mut stream| {
                let content = content.clone();
                async move {
                    let _ = stream.write_all(&content).await;
                }
            })
            .await,
        )
        .start()
        .await;
    let wire = |pair: &crate::pair::Pair| pair.client.status().sessions[0].here.wire_received_bytes;
    let before = wire(&pair);
    assert!(exchange(pair.application().await, b"").await == bytes);
    let cold = wire(&pair) - before;
    assert!(exchange(pair.application().await, b"").await == bytes);
    let warm = wire(&pair) - before - cold;
    assert!(cold < bytes.len() as u64 * 1001 / 1000 + 4096, "{cold} bytes for {}", bytes.len());
    assert!(warm < cold / 20, "{warm} bytes for the repeat of {cold}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_side_may_finish_first() {
    // The origin answers only after the client has finished, and the client still receives
    // everything.
    let address = origin(|mut stream| async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        stream.write_all(format!("{} bytes", all.len()).as_bytes()).await.unwrap();
    })
    .await;
    let pair = Plan::new().forward(address).start().await;
    assert_eq!(exchange(pair.application().await, &[7; 100_000]).await, b"100000 bytes");

    // The origin finishes at once, and still receives everything.
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let address = origin(move |mut stream| {
        let tell = tell.clone();
        async move {
            stream.shutdown().await.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            tell.send(all.len()).unwrap();
        }
    })
    .await;
    let pair = Plan::new().forward(address).start().await;
    let mut application = pair.application().await;
    let mut nothing = [0; 1];
    assert_eq!(timeout(LIMIT, application.read(&mut nothing)).await.unwrap().unwrap(), 0);
    application.write_all(&[1; 50_000]).await.unwrap();
    application.shutdown().await.unwrap();
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(50_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_connection_and_a_reset_arrive_as_resets() {
    // A port that was free a moment ago.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let pair = Plan::new().forward(closed).start().await;
    assert!(is_reset(pair.client.addresses()[0]).await);

    let address = origin(|mut stream| async move {
        let _ = stream.read(&mut [0; 10]).await;
        #[expect(deprecated, reason = "a time of zero does not block")]
        stream.set_linger(Some(Duration::ZERO)).unwrap();
    })
    .await;
    let pair = Plan::new().forward(address).start().await;
    let mut application = pair.application().await;
    application.write_all(b"x").await.unwrap();
    let error = timeout(LIMIT, application.read(&mut [0; 1])).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_of_the_application_reaches_the_origin() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let address = origin(move |mut stream| {
        let tell = tell.clone();
        async move {
            stream.write_all(b"hello").await.unwrap();
            let end = loop {
                match stream.read(&mut [0; 100]).await {
                    Ok(0) => break None,
                    Ok(_) => {}
                    Err(error) => break Some(error.kind()),
                }
            };
            tell.send(end).unwrap();
        }
    })
    .await;
    let pair = Plan::new().forward(address).start().await;
    let mut application = pair.application().await;
    application.read_exact(&mut [0; 5]).await.unwrap();
    application.write_all(b"some").await.unwrap();
    #[expect(deprecated, reason = "a time of zero does not block")]
    application.set_linger(Some(Duration::ZERO)).unwrap();
    drop(application);
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(Some(ErrorKind::ConnectionReset)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_before_the_end_of_the_request_arrives() {
    // Like a web server that refuses an upload: it answers, and closes with most of it unread.
    let address = origin(|mut stream| async move {
        stream.read_exact(&mut [0; 1000]).await.unwrap();
        stream.write_all(b"413 too large").await.unwrap();
        stream.shutdown().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
    .await;
    let pair = Plan::new().forward(address).start().await;
    let (mut reader, mut writer) = pair.application().await.into_split();
    let upload = tokio::spawn(async move { while writer.write_all(&[1; 10_000]).await.is_ok() {} });
    let mut answer = Vec::new();
    let _ = timeout(LIMIT, reader.read_to_end(&mut answer)).await.expect("the answer ends");
    assert_eq!(answer, b"413 too large");
    timeout(LIMIT, upload).await.expect("the upload is not taken for ever").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_byte_at_a_time_arrives_one_byte_at_a_time() {
    let pair = Plan::new().forward(origin(echo).await).start().await;
    let mut application = pair.application().await;
    for byte in 0..=255u8 {
        application.write_all(&[byte]).await.unwrap();
        let mut back = [0; 1];
        timeout(LIMIT, application.read_exact(&mut back))
            .await
            .expect("nothing waits for more")
            .unwrap();
        assert_eq!(back, [byte]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_application_does_not_delay_others() {
    let bytes = incompressible(3, 20_000_000);
    let content = bytes.clone();
    let address = origin(move |mut stream| {
        let content = content.clone();
        async move {
            let _ = stream.write_all(&content).await;
        }
    })
    .await;
    let pair = Plan::new().forward(address).start().await;
    // Several applications that do not read.
    let stalled = [pair.application().await, pair.application().await, pair.application().await];
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(exchange(pair.application().await, b"").await == bytes);
    let memory = pair.client.status().memory;
    assert!(memory < 128 << 20, "{memory}");
    // Once they read, they get everything.
    for application in stalled {
        assert!(exchange(application, b"").await == bytes);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_flows_at_once() {
    let pair = Plan::new().forward(origin(echo).await).start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for seed in 0..300u64 {
        let application = pair.application().await;
        tasks.spawn(async move {
            let bytes = text_like(seed % 10, 20_000 + seed as usize * 100);
            assert!(exchange(application, &bytes).await == bytes, "flow {seed}");
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    timeout(LIMIT, async {
        while pair.client.status().sessions[0].here.flows > 0
            || pair.server.status().sessions[0].here.flows > 0
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("flows that are over are forgotten at both ends");
}

/// Sends five bytes, the third of them urgent, and finishes.
async fn with_urgent_byte(stream: &mut TcpStream) {
    stream.write_all(b"ab").await.unwrap();
    socket2::SockRef::from(&*stream).send_out_of_band(b"C").unwrap();
    stream.write_all(b"de").await.unwrap();
    stream.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urgent_bytes_arrive_with_the_others() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let origin = origin(move |mut stream| {
        let tell = tell.clone();
        async move {
            // At once, before the receiver can set options.
            with_urgent_byte(&mut stream).await;
            let mut got = Vec::new();
            let _ = stream.read_to_end(&mut got).await;
            let _ = tell.send(got);
        }
    });
    let pair = Plan::new().forward(origin.await).start().await;
    for _ in 0..20 {
        let mut application = pair.application().await;
        with_urgent_byte(&mut application).await;
        let mut back = Vec::new();
        timeout(LIMIT, application.read_to_end(&mut back)).await.expect("it ends").unwrap();
        assert_eq!(back, b"abCde");
        assert_eq!(timeout(LIMIT, told.recv()).await.unwrap().unwrap(), b"abCde");
    }
}
