//! Whoever closes a connection early still owns it, and names of one client are its own affair.

use crate::pair::{LIMIT, Plan, echo, exchange, origin, until};
use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_testkit::content::incompressible;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Connects through a SOCKS5 proxy up to the point where it waits for the request.
async fn greet(proxy: std::net::SocketAddr, user: &str) -> TcpStream {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    let greeting = [&[5, 1, 2, 1, user.len() as u8], user.as_bytes(), &[1, b'x']].concat();
    stream.write_all(&greeting).await.unwrap();
    let mut answer = [0; 4];
    timeout(LIMIT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, [5, 2, 1, 0]);
    stream
}

fn socks_request(origin: std::net::SocketAddr) -> Vec<u8> {
    [&[5, 1, 0, 1, 127, 0, 0, 1], &origin.port().to_be_bytes()[..]].concat()
}

/// Ends that keep domains apart, and a proxy.
fn apart() -> Plan {
    let mut plan = Plan::new();
    for endpoint in [&mut plan.serve.endpoint, &mut plan.connect.endpoint] {
        endpoint.encoder = EncoderBuilder::default().sharing(Sharing::None);
    }
    plan.connect.proxies.push("127.0.0.1:0".parse().unwrap());
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_and_closes_is_still_itself() {
    let (sender, mut arrived) = mpsc::unbounded_channel();
    let origin = origin(move |mut stream: TcpStream| {
        let sender = sender.clone();
        async move {
            let mut content = Vec::new();
            let _ = stream.read_to_end(&mut content).await;
            let _ = sender.send(content);
        }
    })
    .await;
    let pair = apart().start().await;
    let proxy = pair.client.addresses()[0];
    let content = incompressible(3, 20_000);
    let rounds = 8;
    for _ in 0..rounds {
        // It was accepted, and closes before its request can be read.
        let mut stream = greet(proxy, "alice").await;
        let all = [socks_request(origin), content.clone()].concat();
        stream.write_all(&all).await.unwrap();
        drop(stream);
        let got = timeout(LIMIT, arrived.recv()).await.unwrap().unwrap();
        // An answer to a closed socket resets the connection; what was read by then has arrived.
        assert!(content.starts_with(&got));
    }
    let here = pair.client.status().sessions[0].here;
    assert_eq!((here.unowned_flows, here.domains), (0, 1), "{here:?}");
    pair.client.stop();
    pair.server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_names_at_the_proxy_make_nobody_elses_cache_forgotten() {
    let origin = origin(echo).await;
    let mut plan = apart().forward(origin);
    let rule = format!("127.0.0.1:0:{origin},domain=other");
    plan.connect.forwards.push(rule.parse().unwrap());
    let pair = plan.start().await;
    // Forwards come before proxies.
    let [_, other, proxy] = pair.client.addresses()[..] else { panic!("three listeners") };
    let content = incompressible(4, 100_000);
    let connect = || async move { TcpStream::connect(other).await.unwrap() };
    assert!(exchange(connect().await, &content).await == content);
    let names = 4300;
    for name in 0..names {
        let mut stream = greet(proxy, &format!("name {name}")).await;
        stream.write_all(&socks_request(origin)).await.unwrap();
        let mut answer = [0; 10];
        timeout(LIMIT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(answer[1], 0);
    }
    let counters = || pair.client.status().sessions[0].here;
    until("all flows are over", || counters().flows == 0).await;
    let before = counters();
    assert!(before.forgotten_domains >= names - 256 && before.domains <= 258, "{before:?}");
    assert!(exchange(connect().await, &content).await == content);
    let sent = counters().wire_sent_bytes - before.wire_sent_bytes;
    assert!(sent < 5_000, "{sent} bytes for a repeat");
    pair.client.stop();
    pair.server.stop();
}
