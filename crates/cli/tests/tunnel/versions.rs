//! Ends of different versions: both say which one to update, and nobody tries again.

use crate::support::*;
use oncewire_net::keys::{AuthorizedPeers, Peer, PublicKey, SecretKey};
use oncewire_net::tls;
use oncewire_session::{Answer, Hello, SessionId, VERSIONS};
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use tempfile::TempDir;

const OLDER: &str = "the other end speaks version 1 of the tunnel's protocol, this end version 3: \
                     the other end is older; update the other end";
const NEWER: &str = "the other end speaks versions 8 to 9 of the tunnel's protocol, this end \
                     version 3: this end is older; update this end";

fn hello(answer: Answer, (oldest, newest): (u64, u64)) -> Vec<u8> {
    let hello = Hello {
        oldest,
        newest,
        lanes: 1,
        send_log: 16 << 20,
        receive_log: 16 << 20,
        early_credit: 16 << 10,
        max_flows: 512,
        contexts: 4,
        agent: "oncewire 0.9".into(),
        ..Hello::new(SessionId([7; 16]), answer)
    };
    let mut out = Vec::new();
    hello.write(&mut out);
    out
}

/// A hello of the current version as a build had it in which the last field did not exist yet.
fn without_the_last_field() -> Vec<u8> {
    let whole = hello(Answer::New, (*VERSIONS.start(), *VERSIONS.end()));
    let last = [14, 1, 0];
    let at = whole.windows(3).position(|bytes| bytes == last).expect("SHARING");
    let mut bytes = [&whole[..at], &whole[at + 3..]].concat();
    // The length, after the first byte.
    bytes[1] -= 3;
    bytes
}

#[test]
fn a_server_tells_each_client_of_another_version_and_its_log_once() {
    let dir = TempDir::new().unwrap();
    let server_file = dir.path().join("serve.key");
    let server_key: PublicKey = keygen(&server_file).parse().unwrap();
    let clients = [(); 4].map(|()| SecretKey::generate().unwrap());
    let keys = clients.each_ref().map(|key| key.public().to_string());
    let mut args =
        ["serve", "--listen", "127.0.0.1:0", "--key", server_file.to_str().unwrap()].to_vec();
    keys.iter().for_each(|key| args.extend(["--peer", key]));
    let args: Vec<_> = args.into_iter().map(String::from).collect();
    let serve = End::start(dir.path(), "serve", &args, None);

    let answer_to = |client: &SecretKey, hello: &[u8]| {
        let trusted = AuthorizedPeers::new([Peer::from(server_key)]);
        let config = tls::client_config(client, &trusted, tls::Credential::RawKey).unwrap();
        let connection = ClientConnection::new(config, tls::server_name()).unwrap();
        let mut stream = StreamOwned::new(connection, application(serve.listening[0]));
        stream.write_all(hello).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("an answer, and the end of the connection");
        Hello::read(&back).unwrap().expect("a whole hello").0
    };
    let cases = [
        (hello(Answer::New, (1, 1)), OLDER, ""),
        (hello(Answer::Resume, (8, 9)), NEWER, ""),
        (without_the_last_field(), "malformed hello: field 14", "malformed hello: field 14"),
    ];
    for ((bytes, ..), client) in cases.iter().zip(&clients) {
        for _ in 0..3 {
            let answer = answer_to(client, bytes);
            assert_eq!(answer.answer, Answer::Version);
            assert_eq!(answer.oldest..=answer.newest, VERSIONS);
        }
    }
    for ((bytes, _, reason), client) in cases.iter().zip(&clients) {
        assert_eq!(answer_to(client, bytes).reason, *reason);
    }
    // Lines come in order, so this one is the last.
    answer_to(&clients[3], &cases[0].0);
    wait_until("the last client is in the log", || serve.said().contains(&keys[3]));
    let said = serve.said();
    for ((_, text, _), key) in cases.iter().zip(&keys) {
        let lines: Vec<_> = said.lines().filter(|line| line.contains(key.as_str())).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(lines[0].contains(text) && lines[0].contains("WARN"), "{}", lines[0]);
    }
}

#[test]
fn a_client_of_another_version_says_so_and_ends() {
    let dir = TempDir::new().unwrap();
    let client_file = dir.path().join("connect.key");
    let client_key: PublicKey = keygen(&client_file).parse().unwrap();
    let server = SecretKey::generate().unwrap();
    let trusted = AuthorizedPeers::new([Peer::from(client_key)]);
    let config = tls::server_config(&server, &trusted).unwrap();
    let mut refusal = Vec::new();
    let unreadable = "cannot read this client's first message (field 15 is missing)";
    let current = hello(Answer::Version, (*VERSIONS.start(), *VERSIONS.end()));
    Hello { reason: "field 15 is missing".into(), ..parsed(&current) }.write(&mut refusal);
    for (answer, text) in [
        (hello(Answer::Version, (1, 1)), OLDER),
        (hello(Answer::Version, (8, 9)), NEWER),
        (refusal, unreadable),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (answering, config) = (listener.try_clone().unwrap(), config.clone());
        let thread = std::thread::spawn(move || {
            let (tcp, _) = answering.accept().unwrap();
            let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), tcp);
            stream.read_exact(&mut [0; 100]).unwrap();
            stream.write_all(&answer).unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        });
        let output = finish(
            Command::new(ONCEWIRE)
                .args(["connect", &address, "--peer", &server.public().to_string(), "--key"])
                .arg(&client_file)
                .args(["-L", "127.0.0.1:0:origin.example:80"])
                .env_remove("XDG_RUNTIME_DIR"),
        );
        thread.join().unwrap();
        let said = self::text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap();
        assert!(last.starts_with("oncewire: ") && last.contains(text), "{said}");
        // One line in the log, too, and no other attempt.
        assert_eq!(said.matches(text).count(), 2, "{said}");
        listener.set_nonblocking(true).unwrap();
        let more = listener.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(more, Err(ErrorKind::WouldBlock), "it came again");
    }
}

fn parsed(bytes: &[u8]) -> Hello {
    Hello::read(bytes).unwrap().unwrap().0
}
