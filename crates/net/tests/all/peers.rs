//! Keys decide who is served at any moment.

use crate::pair::{LIMIT, Plan, client, echo, exchange, is_reset, origin, until};
use oncewire_net::allow::AllowList;
use oncewire_net::keys::{AuthorizedPeers, Peer, Reload, SecretKey};
use oncewire_net::{Egress, HandshakeError, Server, serve, tls};
use oncewire_testkit::faults::FaultProxy;
use oncewire_testkit::servers::{free_port, incompressible};
use std::io::ErrorKind;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

fn only(key: &SecretKey) -> AuthorizedPeers {
    AuthorizedPeers::new([Peer::from(key.public())])
}

/// Ends the path for good, once the server has noticed that nobody is on it.
async fn lose(proxy: &FaultProxy, server: &Server) {
    proxy.refuse(true).unwrap();
    proxy.reset_all();
    until("the server notices", || {
        server.status().sessions.iter().any(|session| session.lanes_up == 0)
    })
    .await;
    proxy.cut();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_refused_and_learns_nothing() {
    let plan = Plan::new().forward(origin(echo).await);
    let stranger = SecretKey::generate().unwrap();
    let trusted = plan.connect.endpoint.peers.clone();
    let server = serve(plan.serve).await.unwrap();

    let connector = TlsConnector::from(
        tls::client_config(&stranger, &trusted, tls::Credential::RawKey).unwrap(),
    );
    let tcp = TcpStream::connect(server.addresses()[0]).await.unwrap();
    if let Ok(mut stream) = connector.connect(tls::server_name(), tcp).await {
        // In TLS 1.3 the client completes its handshake before the server has seen its key.
        let _ = stream.write_all(b"\x40\x00").await;
        let mut heard = Vec::new();
        let end =
            timeout(LIMIT, stream.read_to_end(&mut heard)).await.expect("the server hangs up");
        assert!(end.is_err() && heard.is_empty(), "{end:?}, {heard:?}");
    }
    until("the stranger is counted", || server.status().refused_transports == 1).await;

    let mut config = plan.connect;
    config.endpoint.secret = stranger;
    let client = client(config, server.addresses()[0]).await;
    let why = client.established(Duration::from_millis(1500)).await.unwrap_err();
    assert!(
        matches!(&*why, HandshakeError::NoHello { ours, .. } if ours.to_string() == client.status().key),
        "{why:?}"
    );
    let tries = server.status().refused_transports - 1;
    assert!((1..10).contains(&tries), "{tries} attempts in 1.5 s");
    assert!(server.status().sessions.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_refuses_a_server_with_another_key() {
    let plan = Plan::new();
    let impostor = SecretKey::generate().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let acceptor = TlsAcceptor::from(
        tls::server_config(&impostor, &only(&plan.connect.endpoint.secret)).unwrap(),
    );
    let client = client(plan.connect, listener.local_addr().unwrap()).await;
    let (tcp, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    assert!(
        timeout(LIMIT, acceptor.accept(tcp)).await.unwrap().is_err(),
        "the client must not go through with the handshake"
    );
    let why = client.established(Duration::from_millis(200)).await.unwrap_err();
    assert!(
        matches!(*why, HandshakeError::UnknownKey { key } if key == impostor.public()),
        "{why:?}"
    );
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
    let error =
        timeout(LIMIT, application.read(&mut [0; 1])).await.expect("the flow ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    until("the session is closed", || pair.server.status().sessions.is_empty()).await;
    assert_eq!(pair.server.status().kept_logs, 0, "nothing is kept for a peer that is none");
    until("the client tries again", || {
        pair.client.status().sessions.iter().any(|session| session.phase == "handshake")
    })
    .await;
    assert!(pair.client.established(Duration::from_millis(500)).await.is_err());

    authorized.replace([Peer::from(key)]).unwrap();
    pair.client.established(LIMIT).await.unwrap();
    assert_eq!(exchange(pair.application().await, b"back").await, b"back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_expires_ends_its_session() {
    for at_server in [true, false] {
        let mut plan = Plan::new().forward(origin(echo).await);
        let (serve, connect) = (&mut plan.serve.endpoint, &mut plan.connect.endpoint);
        let (keeper, key) = if at_server {
            (&mut serve.peers, connect.secret.public())
        } else {
            (&mut connect.peers, serve.secret.public())
        };
        let peers = keeper.clone();
        let pair = plan.start().await;
        assert_eq!(exchange(pair.application().await, b"before").await, b"before");
        let expires = Some(SystemTime::now() + Duration::from_millis(300));
        let reload = peers.replace([Peer { expires, ..Peer::from(key) }]).unwrap();
        assert_eq!(reload, Reload::default());
        until("the session is closed", || pair.server.status().sessions.is_empty()).await;
        assert!(!peers.contains(&key));
        assert!(pair.client.established(Duration::from_millis(500)).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_with_rules_of_its_own_has_only_those() {
    let (ours, theirs) = (origin(echo).await, origin(echo).await);
    let plan = Plan::new().forward(ours).forward(theirs);
    let authorized = plan.serve.endpoint.peers.clone();
    let key = plan.connect.endpoint.secret.public();
    let pair = plan.start().await;
    let [first, second] = pair.client.addresses()[..] else { panic!("two forwards") };
    let connect = async |address| TcpStream::connect(address).await.unwrap();
    assert_eq!(exchange(connect(second).await, b"shared").await, b"shared");

    let allow = Some(AllowList::parse(&[ours.to_string()]).unwrap());
    authorized.replace([Peer { allow, ..Peer::from(key) }]).unwrap();
    assert_eq!(exchange(connect(first).await, b"own").await, b"own");
    assert!(is_reset(second).await);

    // They may also reach what others may not.
    pair.server.set_egress(Egress::default());
    assert!(is_reset(second).await);
    pair.server.set_egress(Egress { connect_timeout: LIMIT, ..Egress::default() });
    assert_eq!(exchange(connect(first).await, b"still").await, b"still");
    authorized.replace([Peer::from(key)]).unwrap();
    assert!(is_reset(first).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_hangs_up_when_the_key_of_its_server_is_revoked() {
    let plan = Plan::new().forward(origin(echo).await);
    let trusted = plan.connect.endpoint.peers.clone();
    let pair = plan.start().await;
    trusted.replace([]).unwrap();
    until("the session is closed", || pair.server.status().sessions.is_empty()).await;
    until("the client tries again", || {
        pair.client.status().sessions.iter().any(|session| session.phase == "handshake")
    })
    .await;
    let why = pair.client.established(Duration::from_millis(500)).await.unwrap_err();
    let server = pair.server.status().key;
    assert!(
        matches!(*why, HandshakeError::UnknownKey { key } if key.to_string() == server),
        "{why:?}"
    );
}

/// A client dies without a goodbye and comes back as a new process with the same key. `silent`: its
/// connection stays open at the server.
async fn comes_back(silent: bool) {
    let port = free_port().unwrap();
    let mut plan = Plan::new().forward(origin(echo).await);
    // Time-outs are long, so that both notice only explicit events.
    for endpoint in [&mut plan.serve.endpoint, &mut plan.connect.endpoint] {
        (endpoint.keep_alive, endpoint.dead_after, endpoint.grace) =
            (20 * LIMIT, 60 * LIMIT, 60 * LIMIT);
    }
    plan.serve.endpoint.egress.allow_listen = vec![format!("127.0.0.1:{port}").parse().unwrap()];
    plan.connect.reverse.push(format!("127.0.0.1:{port}:{}", origin(echo).await).parse().unwrap());
    let server = serve(plan.serve.clone()).await.unwrap();
    let proxy = FaultProxy::start(server.addresses()[0]).unwrap();
    let dead = client(plan.connect.clone(), proxy.addr()).await;
    dead.established(LIMIT).await.unwrap();
    // Fill its cache.
    let bytes = incompressible(1, 3_000_000);
    assert!(
        exchange(TcpStream::connect(dead.addresses()[0]).await.unwrap(), &bytes).await == bytes
    );
    let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    until("the server listens for it", listens).await;
    if silent {
        proxy.cut();
    } else {
        lose(&proxy, &server).await;
    }

    let again = client(plan.connect, server.addresses()[0]).await;
    again.established(LIMIT).await.unwrap();
    until("the old session is gone", || server.status().sessions.len() == 1).await;
    let reverse = async {
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await
                && exchange(stream, b"reverse").await == b"reverse"
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LIMIT, reverse).await.expect("its reverse forward is served by the new session");
    // The cache grows back to its size with the traffic.
    for round in 0..20 {
        let bytes = incompressible(2 + round, 2_000_000);
        assert!(
            exchange(TcpStream::connect(again.addresses()[0]).await.unwrap(), &bytes).await
                == bytes
        );
    }
    let log = server.status().sessions[0].here.log_capacity;
    assert!(log > 31 << 20, "{log} bytes");
    dead.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_client_that_comes_back_gets_its_listener_and_its_memory() {
    comes_back(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_does_one_whose_machine_lost_power() {
    comes_back(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_with_one_key_live_side_by_side() {
    let plan = Plan::new().forward(origin(echo).await);
    let server = serve(plan.serve.clone()).await.unwrap();
    let (one, two) = (
        client(plan.connect.clone(), server.addresses()[0]).await,
        client(plan.connect, server.addresses()[0]).await,
    );
    for (round, client) in [&one, &two, &one, &two].into_iter().enumerate() {
        client.established(LIMIT).await.unwrap();
        let bytes = incompressible(round as u64, 12_000_000);
        assert!(
            exchange(TcpStream::connect(client.addresses()[0]).await.unwrap(), &bytes).await
                == bytes
        );
    }
    // Longer than a session lasts that does not answer a PING.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let status = server.status();
    assert_eq!(status.sessions.len(), 2);
    let logs: Vec<_> = status.sessions.iter().map(|session| session.here.log_capacity).collect();
    assert!(logs.iter().all(|&log| log >= 8 << 20), "each has its share: {logs:?}");
    let promised: u64 = status.sessions.iter().map(|session| 2 * session.here.log_capacity).sum();
    assert!(promised <= status.memory_limit, "{logs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_dies_repeatedly_is_not_locked_out() {
    let plan = Plan::new().forward(origin(echo).await);
    let server = serve(plan.serve.clone()).await.unwrap();
    for _ in 0..7 {
        // The path is cut for good, so the client cannot say goodbye.
        let proxy = FaultProxy::start(server.addresses()[0]).unwrap();
        let dead = client(plan.connect.clone(), proxy.addr()).await;
        dead.established(LIMIT).await.unwrap();
        lose(&proxy, &server).await;
        dead.stop();
    }
    assert!(server.status().sessions.len() <= 4);
    let alive = client(plan.connect, server.addresses()[0]).await;
    alive.established(LIMIT).await.unwrap();
    let application = TcpStream::connect(alive.addresses()[0]).await.unwrap();
    assert_eq!(exchange(application, b"alive").await, b"alive");
}
