//! Proxies, addresses, rules and reverse forwards.

use crate::ends::descriptors;
use crate::pair::{LIMIT, Pair, Plan, echo, exchange, is_reset, origin, until};
use oncewire_net::Egress;
use oncewire_net::allow::AllowList;
use oncewire_testkit::servers::free_port;
use oncewire_testkit::{need_tool, skip};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

const BODY: &str = "once over the wire\n";

/// Answers one request of HTTP.
async fn web(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{BODY}",
        BODY.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    let _ = stream.read_to_end(&mut head).await;
}

/// Like [`origin`], on the IPv6 loopback; `None` without IPv6.
async fn web6() -> Option<SocketAddr> {
    let listener = TcpListener::bind("[::1]:0").await.ok()?;
    let address = listener.local_addr().ok()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(web(stream));
        }
    });
    Some(address)
}

/// A port without a listener: it was free a moment ago.
fn closed() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()))
}

async fn with_proxy(rules: &[&str]) -> (Pair, SocketAddr) {
    let mut plan = Plan::new();
    plan.serve.endpoint.egress.allow = AllowList::parse(rules).unwrap();
    plan.connect.proxies.push("127.0.0.1:0".parse().unwrap());
    let pair = plan.start().await;
    let proxy = pair.client.addresses()[0];
    (pair, proxy)
}

/// What curl prints for `url` with `options`, with the status codes of the response and of the
/// proxy's response to CONNECT.
async fn fetch(curl: &Path, options: &[String], url: &str) -> (String, String) {
    let mut command = tokio::process::Command::new(curl);
    command.args([
        "--silent",
        "--max-time",
        "15",
        "--noproxy",
        "",
        "--write-out",
        "|%{http_code} %{http_connect}",
    ]);
    let output = timeout(LIMIT, command.args(options).arg(url).kill_on_drop(true).output())
        .await
        .unwrap()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, codes) = text.rsplit_once('|').unwrap();
    (body.to_string(), codes.to_string())
}

fn ways(proxy: SocketAddr) -> [Vec<String>; 4] {
    let socks =
        ["--socks5", "--socks5-hostname"].map(|option| vec![option.to_string(), proxy.to_string()]);
    let http = vec!["--proxy".to_string(), format!("http://{proxy}")];
    let connect = [http.clone(), vec!["--proxytunnel".to_string()]].concat();
    let [by_address, by_name] = socks;
    [by_address, by_name, http, connect]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_proxy_protocol_reaches_the_origin() {
    let curl = need_tool!("curl");
    let (_pair, proxy) = with_proxy(&["127.0.0.0/8:*", "[::1]:*", "localhost:*"]).await;
    let web = origin(web).await;
    let mut urls = vec![format!("http://{web}/"), format!("http://localhost:{}/", web.port())];
    match web6().await {
        Some(web) => urls.push(format!("http://{web}/")),
        None => oncewire_testkit::skipped!("this machine has no IPv6"),
    }
    for options in ways(proxy) {
        for url in &urls {
            let (body, codes) = fetch(&curl, &options, url).await;
            assert!(
                body == BODY && codes.starts_with("200 "),
                "{options:?} {url}: {body:?} {codes}"
            );
        }
    }
}

/// The reply code of SOCKS5 for a name, or for an address written as a name.
async fn socks(proxy: SocketAddr, host: &str, port: u16) -> u8 {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    let mut request = vec![5, 1, 0, 5, 1, 0, 3, host.len() as u8];
    request.extend_from_slice(host.as_bytes());
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request).await.unwrap();
    let mut answer = [0; 12];
    timeout(LIMIT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    answer[3]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refusal_has_its_reply() {
    let curl = need_tool!("curl");
    let (refused, web) = (closed(), origin(web).await);
    let (allowed, unknown) = (format!("127.0.0.1:{}", refused.port()), "nothing.invalid:80");
    let (pair, proxy) = with_proxy(&[&allowed, unknown]).await;
    // Listeners that are not allowed, and allowed ones under a name that is not.
    for (host, port, reply, code) in [
        ("127.0.0.1", refused.port(), 5, "502"),
        ("127.0.0.1", web.port(), 2, "403"),
        ("localhost", web.port(), 2, "403"),
        ("[::1]", web.port(), 2, "403"),
        ("nothing.invalid", 80, 4, "502"),
        ("nothing.invalid", 81, 2, "403"),
    ] {
        assert_eq!(socks(proxy, host.trim_matches(['[', ']']), port).await, reply, "{host}:{port}");
        let [_, by_name, http, connect] = ways(proxy);
        let url = format!("http://{host}:{port}/");
        let (body, codes) = fetch(&curl, &http, &url).await;
        assert!(
            codes.starts_with(code) && body.starts_with("oncewire: "),
            "{url}: {body:?} {codes}"
        );
        let (_, codes) = fetch(&curl, &connect, &url).await;
        assert_eq!(codes, format!("000 {code}"), "{url}");
        assert_eq!(fetch(&curl, &by_name, &url).await.1, "000 000", "{url}");
    }
    until("no flow is left", || pair.server.status().sessions[0].here.flows == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_allowed_targets_are_reached() {
    let (listed, other) = (origin(echo).await, origin(echo).await);
    let mut plan = Plan::new().forward(listed).forward(other);
    let egress = |rules: &[String]| Egress {
        allow: AllowList::parse(rules).unwrap(),
        connect_timeout: Duration::from_secs(5),
        ..Egress::default()
    };
    plan.serve.endpoint.egress = egress(&[listed.to_string()]);
    let pair = plan.start().await;
    let [to_listed, to_other] = [0, 1].map(|forward| pair.client.addresses()[forward]);
    assert_eq!(exchange(pair.application().await, b"listed").await, b"listed");
    assert!(is_reset(to_other).await);

    // The rules change without a restart; open flows continue.
    let mut open = pair.application().await;
    open.write_all(b"a").await.unwrap();
    timeout(LIMIT, open.read_exact(&mut [0])).await.unwrap().unwrap();
    pair.server.set_egress(egress(&[]));
    assert!(is_reset(to_listed).await && is_reset(to_other).await, "an empty list refuses all");
    assert_eq!(exchange(open, b"goes on").await, b"goes on");
    pair.server.set_egress(egress(&[other.to_string()]));
    assert_eq!(exchange(TcpStream::connect(to_other).await.unwrap(), b"other").await, b"other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reverse_forward_listens_at_the_server_while_the_client_is_connected() {
    let port = free_port().unwrap();
    let mut plan = Plan::new();
    plan.connect.reverse.push(format!("127.0.0.1:{port}:{}", origin(echo).await).parse().unwrap());
    plan.serve.endpoint.egress.allow_listen.push(format!("127.0.0.1:{port}").parse().unwrap());
    let pair = plan.start().await;
    let started = tokio::time::Instant::now();
    let application = loop {
        match TcpStream::connect(("127.0.0.1", port)).await {
            Ok(stream) => break stream,
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
        assert!(started.elapsed() < LIMIT, "the server does not listen");
    };
    let bytes = oncewire_testkit::servers::text_like(1, 300_000);
    assert!(exchange(application, &bytes).await == bytes);
    pair.client.stop();
    until("the server listens no more", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reverse_forward_that_is_not_allowed_does_not_listen() {
    let port = free_port().unwrap();
    let target = origin(echo).await;
    let mut plan = Plan::new().forward(target);
    plan.connect.reverse.push(format!("127.0.0.1:{port}:{target}").parse().unwrap());
    plan.serve.endpoint.egress.allow_listen.push(format!("127.0.0.2:{port}").parse().unwrap());
    let pair = plan.start().await;
    until("the request is refused", || pair.server.status().sessions[0].here.flows_reset > 0).await;
    for host in ["127.0.0.1", "127.0.0.2"] {
        assert!(TcpStream::connect((host, port)).await.is_err(), "{host}");
    }
    assert_eq!(exchange(pair.application().await, b"and yet").await, b"and yet");
}

/// Whether a SOCKS5 greeting is answered.
async fn is_answered(client: &mut TcpStream) -> bool {
    let mut method = [0; 2];
    client.write_all(b"\x05\x01\x00").await.is_ok()
        && client.read_exact(&mut method).await.is_ok()
        && method == [5, 0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_silent_client_is_dropped() {
    const IDLE: usize = 1024;
    // Each has two sockets in this process; other tests need some, too.
    match descriptors() {
        Some((limit, used)) if limit < used + 2 * IDLE + 2000 => {
            skip!("{limit} descriptors are too few for {IDLE} clients")
        }
        _ => {}
    }
    let (pair, proxy) = with_proxy(&["127.0.0.0/8:*"]).await;
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(TcpStream::connect(proxy).await.unwrap());
    }
    assert_eq!(pair.client.status().displaced_proxy_clients, 0);
    // A new client is answered, and the oldest is dropped.
    let mut late = TcpStream::connect(proxy).await.unwrap();
    assert!(timeout(LIMIT, is_answered(&mut late)).await.expect("it has to wait"));
    assert_eq!(pair.client.status().displaced_proxy_clients, 1);
    let end = timeout(LIMIT, idle[0].read(&mut [0; 1])).await.expect("the oldest stays");
    assert!(!matches!(end, Ok(1..)));
    assert!(
        timeout(LIMIT, is_answered(&mut idle[1])).await.unwrap()
            && timeout(LIMIT, is_answered(&mut idle[IDLE - 1])).await.unwrap()
    );
}
