use super::*;
use tokio::io::{DuplexStream, duplex};

const TIME: Duration = Duration::from_secs(20);

/// Sends pieces without waiting. Returns what was negotiated, and both ends of the connection.
async fn ask(pieces: &[&[u8]]) -> (Result<Request, ProxyError>, DuplexStream, DuplexStream) {
    let (mut client, mut server) = duplex(1 << 20);
    let send = async {
        for piece in pieces {
            client.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let (request, ()) = tokio::join!(negotiate(&mut server, None, MAX_HEAD, TIME), send);
    (request, client, server)
}

/// The first bytes of the answer to `bytes` where a password is required, and who the client is.
#[cfg(unix)]
async fn with_password(bytes: &[u8]) -> (Result<Option<Vec<u8>>, ProxyError>, Vec<u8>) {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users");
    std::fs::write(&path, "alice:open sesame\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let passwords = Passwords::load(&path).unwrap();
    let (mut client, mut server) = duplex(1 << 16);
    client.write_all(bytes).await.unwrap();
    let request = negotiate(&mut server, Some(&passwords), MAX_HEAD, TIME).await;
    drop(server);
    (request.map(|request| request.user), received_by(client).await)
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn passwords_are_required_where_there_are_some() {
    const REQUEST: &[u8] = b"\x05\x01\x00\x03\x01o\x00\x50";
    let socks = |name: &[u8], password: &[u8]| {
        let [name, password] = [name, password].map(|text| [&[text.len() as u8], text].concat());
        [b"\x05\x02\x00\x02\x01", &name[..], &password, REQUEST].concat()
    };
    let alice = Some(b"alice".to_vec());
    let (user, answer) = with_password(&socks(b"alice", b"open sesame")).await;
    assert_eq!((user.unwrap(), &answer[..]), (alice.clone(), &[5, 2, 1, 0][..]));
    for (name, password) in
        [(&b"alice"[..], &b"open sesam"[..]), (b"bob", b"open sesame"), (b"", b"")]
    {
        let (user, answer) = with_password(&socks(name, password)).await;
        assert!(user.unwrap_err().is_unauthorized());
        assert_eq!(answer, [5, 2, 1, 1]);
    }
    // One that cannot show a name learns so at once.
    let (user, answer) = with_password(&[b"\x05\x01\x00", REQUEST].concat()).await;
    assert!(user.unwrap_err().is_unauthorized());
    assert_eq!(answer, [5, 0xff]);

    let http = |line: &str, header: &str| format!("{line} HTTP/1.1\r\n{header}\r\n");
    for line in ["CONNECT o:443", "GET http://o/"] {
        // alice:open sesame
        let right = "Proxy-Authorization: basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n";
        let (user, _) = with_password(http(line, right).as_bytes()).await;
        assert_eq!(user.unwrap(), alice);
        for wrong in [
            "",
            "Proxy-Authorization: Basic YWxpY2U6b3BlbiBzZXNhbQ==\r\n",
            "Proxy-Authorization: Basic YWxpY2U=\r\n",
            "Proxy-Authorization: Basic !\r\n",
            "Proxy-Authorization: Bearer YWxpY2U6b3BlbiBzZXNhbWU=\r\n",
            "Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n",
        ] {
            let (user, answer) = with_password(http(line, wrong).as_bytes()).await;
            assert!(user.unwrap_err().is_unauthorized(), "{wrong}");
            let answer = String::from_utf8(answer).unwrap();
            let head = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic ";
            assert!(answer.starts_with(head), "{answer}");
        }
    }
}

/// Everything that the client receives until the proxy shuts down its side.
async fn received_by(mut client: DuplexStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test(start_paused = true)]
async fn one_port_serves_both() {
    let (socks, mut client, mut server) =
        ask(&[b"\x05\x01\x00", b"\x05\x01\x00\x03\x01o\x00\x50early"]).await;
    let socks = socks.unwrap();
    let want = Request {
        protocol: ProxyProtocol::Socks5,
        target: "o:80".parse().unwrap(),
        user: None,
        first: b"early".to_vec(),
        rest: None,
    };
    assert_eq!(socks, want);
    accept(&mut server, &socks).await.unwrap();
    let mut reply = [0; 12];
    client.read_exact(&mut reply).await.unwrap();
    assert_eq!(reply, [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);

    let (connect, mut client, mut server) = ask(&[b"CONNECT o:443 HTTP/1.1\r\n\r\nearly"]).await;
    let connect = connect.unwrap();
    assert_eq!(
        (connect.protocol, connect.first.as_slice()),
        (ProxyProtocol::Connect, b"early".as_slice())
    );
    accept(&mut server, &connect).await.unwrap();
    let mut reply = [0; 13];
    client.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"HTTP/1.1 200 ");

    let (plain, client, mut server) = ask(&[b"\r\nGET http://o/ HTTP/1.1\r\n\r\n"]).await;
    let plain = plain.unwrap();
    assert_eq!(plain.protocol, ProxyProtocol::Http);
    accept(&mut server, &plain).await.unwrap();
    drop(server);
    assert_eq!(received_by(client).await, b"");
}

#[tokio::test(start_paused = true)]
async fn one_byte_at_a_time() {
    for whole in [
        b"\x05\x02\x01\x00\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x50".as_slice(),
        b"\x05\x02\x00\x02\x01\x05alice\x02pw\x05\x01\x00\x01\x0a\x00\x00\x01\x00\x50",
        b"GET http://10.0.0.1/ HTTP/1.1\r\na: b\r\n\r\n",
    ] {
        let pieces: Vec<_> = whole.chunks(1).collect();
        assert_eq!(ask(&pieces).await.0.unwrap().target.to_string(), "10.0.0.1:80");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_may_say_who_it_is() {
    let ask_socks = b"\x05\x02\x00\x02\x01\x05alice\x02pw\x05\x01\x00\x03\x01o\x00\x50more";
    let (socks, mut client, mut server) = ask(&[ask_socks]).await;
    let socks = socks.unwrap();
    assert_eq!((socks.user.as_deref(), &socks.first[..]), (Some(&b"alice"[..]), &b"more"[..]));
    accept(&mut server, &socks).await.unwrap();
    let mut reply = [0; 5];
    client.read_exact(&mut reply).await.unwrap();
    // The method, welcome, and granted.
    assert_eq!(reply, [5, 2, 1, 0, 5]);
}

#[tokio::test(start_paused = true)]
async fn refusals_are_sent() {
    let (socks, client, mut server) = ask(&[b"\x05\x01\x00\x05\x01\x00\x03\x01o\x00\x50"]).await;
    let (sent, reply) = tokio::join!(
        async { refuse(&mut server, &socks.unwrap(), Refusal::Refused).await },
        received_by(client)
    );
    sent.unwrap();
    assert_eq!(reply, [5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    for head in [b"CONNECT o:80 HTTP/1.1\r\n\r\n".as_slice(), b"GET http://o/ HTTP/1.1\r\n\r\n"] {
        let (request, client, mut server) = ask(&[head]).await;
        let (sent, reply) = tokio::join!(
            async { refuse(&mut server, &request.unwrap(), Refusal::NotAllowed).await },
            received_by(client)
        );
        sent.unwrap();
        let reply = String::from_utf8(reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{reply}");
        assert!(
            reply.ends_with(
                "\r\n\r\noncewire: cannot connect to o:80: the other end does not allow it\n"
            ),
            "{reply}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn errors_are_sent() {
    for (bytes, reply) in [
        (b"\x05\x01\x03".as_slice(), b"\x05\xff".as_slice()),
        (b"\x05\x01\x02\x02\x00\x00", b"\x05\x02\x01\x01"),
        (b"\x05\x01\x00\x05\x02", b"\x05\x00\x05\x07\x00\x01\0\0\0\0\0\0"),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
        (b"\x16\x03\x01", b""),
        (b"\x04\x01\x00\x50\x0a\x00\x00\x01\x00", b"\x00\x5b\0\0\0\0\0\0"),
    ] {
        let (request, client, server) = ask(&[bytes]).await;
        request.unwrap_err();
        drop(server);
        let got = received_by(client).await;
        assert!(got.starts_with(reply) && got.is_empty() == reply.is_empty(), "{bytes:?}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_head_is_cut_off() {
    let (request, client, server) =
        ask(&[b"GET http://o/ HTTP/1.1\r\n", &b"a: b\r\n".repeat(20_000)]).await;
    assert!(matches!(request, Err(ProxyError::Http(HttpError::TooLong { limit: MAX_HEAD }))));
    drop(server);
    assert!(received_by(client).await.starts_with(b"HTTP/1.1 431 "));
}

#[tokio::test(start_paused = true)]
async fn silent_and_departed_clients() {
    let begun = tokio::time::Instant::now();
    for bytes in [
        b"".as_slice(),
        b"\x05",
        b"\x05\x01\x00\x05\x01\x00\x03\xff",
        b"GET http://o/ HTTP/1.1\r\n",
    ] {
        let (request, client, server) = ask(&[bytes]).await;
        assert!(matches!(request, Err(ProxyError::TimedOut(TIME))), "{bytes:?}");
        drop((client, server));
        let (mut client, mut server) = duplex(1 << 10);
        client.write_all(bytes).await.unwrap();
        drop(client);
        let request = negotiate(&mut server, None, MAX_HEAD, TIME).await;
        assert!(matches!(request, Err(ProxyError::Ended { .. } | ProxyError::Io(_))), "{bytes:?}");
    }
    assert!(begun.elapsed() < 5 * (TIME + LINGER_TIME));
}

#[tokio::test(start_paused = true)]
async fn noise_gives_errors_and_no_panic() {
    // A linear congruential generator gives the same noise in every run.
    let mut state = 1u32;
    let mut noise = |len: usize| -> Vec<u8> {
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..len).map(|_| byte()).collect()
    };
    for round in 0..2_000 {
        let bytes = noise(round % 300);
        for front in [
            b"".as_slice(),
            b"\x05\x01\x00",
            b"\x05\x01\x00\x05\x01\x00\x03",
            b"GET http://",
            b"GET http://o/ HTTP/1.1\r\n",
        ] {
            let (mut client, mut server) = duplex(1 << 12);
            client.write_all(&[front, &bytes, b"\r\n\r\n"].concat()).await.unwrap();
            client.shutdown().await.unwrap();
            let _ = negotiate(&mut server, None, MAX_HEAD, TIME).await;
        }
    }
}

#[test]
fn tasks_can_be_spawned_with_them() {
    fn sent<T: Send>(_: T) {}
    let (mut client, mut server) = duplex(1);
    sent(negotiate(&mut server, None, MAX_HEAD, TIME));
    let request = Request {
        protocol: ProxyProtocol::Connect,
        target: "o:80".parse().unwrap(),
        user: None,
        first: Vec::new(),
        rest: None,
    };
    sent(refuse(&mut client, &request, Refusal::Failed));
    sent(crate::allow::AllowList::default().resolve(&request.target));
}
