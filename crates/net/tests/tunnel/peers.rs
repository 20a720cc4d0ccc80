//! Keys decide who is served, at every moment.

use crate::pair::{LIMIT, Plan, client, echo, exchange, origin, until};
use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
use oncewire_net::{serve, tls};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

fn only(key: &SecretKey) -> AuthorizedPeers {
    AuthorizedPeers::new([Peer::from(key.public())])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_refused_and_learns_nothing() {
    let plan = Plan::new().forward(origin(echo).await);
    let stranger = SecretKey::generate().unwrap();
    let trusted = plan.connect.endpoint.peers.clone();
    let server = serve(plan.serve).await.unwrap();

    let connector = TlsConnector::from(tls::client_config(&stranger, &trusted, tls::Credential::RawKey).unwrap());
    let tcp = TcpStream::connect(server.addresses()[0]).await.unwrap();
    if let Ok(mut stream) = connector.connect(tls::server_name(), tcp).await {
        // A client has finished its handshake before the server has seen its key.
        let _ = stream.write_all(b"\x40\x00").await;
        let mut heard = Vec::new();
        let end = timeout(LIMIT, stream.read_to_end(&mut heard)).await.expect("the server hangs up");
        assert!(end.is_err() && heard.is_empty(), "{end:?}, {heard:?}");
    }
    until("the stranger is counted", || server.status().refused_transports == 1).await;

    let mut config = plan.connect;
    config.endpoint.secret = stranger;
    let client = client(config, server.addresses()[0]).await;
    let why = client.established(Duration::from_millis(1500)).await.unwrap_err();
    assert!(why.contains("know our key"), "{why}");
    let tries = server.status().refused_transports - 1;
    assert!((1..10).contains(&tries), "{tries} attempts in 1.5 s");
    assert!(server.status().sessions.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_key_is_not_spoken_to() {
    let plan = Plan::new();
    let impostor = SecretKey::generate().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let acceptor = TlsAcceptor::from(tls::server_config(&impostor, &only(&plan.connect.endpoint.secret)).unwrap());
    let client = client(plan.connect, listener.local_addr().unwrap()).await;
    let (tcp, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    assert!(timeout(LIMIT, acceptor.accept(tcp)).await.unwrap().is_err(), "the client must not go through with the handshake");
    let why = client.established(Duration::from_millis(200)).await.unwrap_err();
    assert!(why.contains("not an authorised one"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_revoked_ends_its_session_and_one_that_is_added_is_served() {
    let plan = Plan::new().forward(origin(echo).await);
    let authorized = plan.serve.endpoint.peers.clone();
    let key = plan.connect.endpoint.secret.public();
    let pair = plan.start().await;
    let mut application = pair.application().await;
    application.write_all(b"ping").await.unwrap();
    timeout(LIMIT, application.read_exact(&mut [0; 4])).await.unwrap().unwrap();

    authorized.replace([]).unwrap();
    let error = timeout(LIMIT, application.read(&mut [0; 1])).await.expect("the flow ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    until("the session is closed", || pair.server.status().sessions.is_empty()).await;
    assert_eq!(pair.server.status().kept_logs, 0, "nothing is kept for a peer that is none");
    until("the client tries again", || pair.client.status().sessions.iter().any(|session| session.phase == "greeting")).await;
    assert!(pair.client.established(Duration::from_millis(500)).await.is_err());

    authorized.replace([Peer::from(key)]).unwrap();
    pair.client.established(LIMIT).await.unwrap();
    assert_eq!(exchange(pair.application().await, b"back").await, b"back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_hangs_up_when_the_key_of_its_server_is_revoked() {
    let plan = Plan::new().forward(origin(echo).await);
    let trusted = plan.connect.endpoint.peers.clone();
    let pair = plan.start().await;
    trusted.replace([]).unwrap();
    until("the session is closed", || pair.server.status().sessions.is_empty()).await;
    until("the client tries again", || pair.client.status().sessions.iter().any(|session| session.phase == "greeting")).await;
    let why = pair.client.established(Duration::from_millis(500)).await.unwrap_err();
    assert!(why.contains("not an authorised one"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_dies_again_and_again_is_not_shut_out() {
    let plan = Plan::new().forward(origin(echo).await);
    let server = serve(plan.serve.clone()).await.unwrap();
    for _ in 0..7 {
        // Nothing says goodbye: the path is cut, and stays so.
        let proxy = oncewire_testkit::faults::FaultProxy::start(server.addresses()[0]).unwrap();
        let dead = client(plan.connect.clone(), proxy.addr()).await;
        dead.established(LIMIT).await.unwrap();
        proxy.refuse(true).unwrap();
        proxy.reset_all();
        until("the server notices", || server.status().sessions.iter().any(|session| session.lanes_up == 0)).await;
        proxy.cut();
        dead.stop();
    }
    assert!(server.status().sessions.len() <= 4);
    let alive = client(plan.connect, server.addresses()[0]).await;
    alive.established(LIMIT).await.unwrap();
    let application = TcpStream::connect(alive.addresses()[0]).await.unwrap();
    assert_eq!(exchange(application, b"alive").await, b"alive");
}
