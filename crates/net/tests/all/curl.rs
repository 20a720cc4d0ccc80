//! The proxy, tested with curl over real sockets: every kind of proxy that both support.

use oncewire_net::Refusal;
use oncewire_net::proxy::{HANDSHAKE_TIME, MAX_HEAD, accept, negotiate, refuse};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

/// An origin that returns the head of the request and the length of the body.
async fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let head = loop {
                    if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                        break end + 4;
                    }
                    assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
                };
                let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
                if text.contains("Expect: 100-continue") {
                    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
                }
                let length = text
                    .lines()
                    .find_map(|line| line.strip_prefix("Content-Length: "))
                    .map_or(0, |n| n.parse().unwrap());
                while bytes.len() < head + length {
                    assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
                }
                let body = format!("{text}body={}", bytes.len() - head);
                let reply =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                stream.write_all(reply.as_bytes()).await.unwrap();
            });
        }
    });
    address
}

/// A proxy without a tunnel behind it. It connects to `origin` for every target, and refuses the
/// host `forbidden.example`.
async fn proxy(origin: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let request = negotiate(&mut stream, None, MAX_HEAD, HANDSHAKE_TIME).await.unwrap();
                if request.target.host().to_string() == "forbidden.example" {
                    return refuse(&mut stream, &request, Refusal::NotAllowed).await.unwrap();
                }
                let mut out = TcpStream::connect(origin).await.unwrap();
                accept(&mut stream, &request).await.unwrap();
                out.write_all(&request.first).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut out).await;
            });
        }
    });
    address
}

async fn curl(args: &[&str]) -> (bool, String) {
    let out = Command::new("curl")
        .args(["-sS", "-m", "20", "--noproxy", ""])
        .args(args)
        .output()
        .await
        .unwrap();
    (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

#[tokio::test]
async fn curl_reaches_the_origin_through_each_proxy_protocol() {
    if Command::new("curl").arg("--version").output().await.is_err() {
        oncewire_testkit::skipped!("there is no curl here");
        return;
    }
    let origin = origin().await;
    let proxy = proxy(origin).await;
    let (socks_by_address, socks, http) =
        (format!("socks5://{proxy}"), format!("socks5h://{proxy}"), format!("http://{proxy}"));
    let by_address = format!("http://{origin}/a?b=c");
    let big = "x".repeat(3 << 20);
    let file = std::env::temp_dir().join(format!("oncewire-net-curl-{}", std::process::id()));
    std::fs::write(&file, &big).unwrap();
    let upload = format!("@{}", file.display());
    for (way, tunnelled) in
        [(socks_by_address.as_str(), true), (&socks, true), (&http, true), (&http, false)]
    {
        let mut args = vec!["-x", way];
        if tunnelled && way == http {
            args.push("-p");
        }
        let (ok, text) = curl(&[&args[..], &[by_address.as_str()]].concat()).await;
        assert!(
            ok && text.starts_with("GET /a?b=c HTTP/1.1\r\n") && text.ends_with("body=0"),
            "{way}: {text}"
        );
        assert!(
            text.contains(&format!("Host: {origin}\r\n")) && !text.contains("Proxy-"),
            "{way}: {text}"
        );
        assert_eq!(text.contains("Connection: close"), !tunnelled, "{way}: {text}");
        let headers = ["-H", "Expect: 100-continue", "--data-binary", &upload];
        let (ok, text) = curl(&[&args[..], &headers[..], &[by_address.as_str()]].concat()).await;
        assert!(ok && text.ends_with(&format!("body={}", big.len())), "{way}: {text}");
        if way != socks_by_address {
            let (ok, text) =
                curl(&[&args[..], &["http://origin.example/", "http://other.example/"]].concat())
                    .await;
            assert!(
                ok && text.contains("Host: origin.example\r\n")
                    && text.contains("Host: other.example\r\n"),
                "{way}: {text}"
            );
            let (ok, text) = curl(
                &[&args[..], &["--data-binary", &upload, "http://forbidden.example/"]].concat(),
            )
            .await;
            assert_eq!(ok, !tunnelled, "{way}: {text}");
            assert_eq!(
                text.contains("the other end does not allow it"),
                !tunnelled,
                "{way}: {text}"
            );
        }
    }
    std::fs::remove_file(&file).unwrap();
}
