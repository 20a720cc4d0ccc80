use super::*;
use crate::keys::{AuthorizedPeers, Peer as KnownPeer};
use crate::{ConnectConfig, Endpoint, ServeConfig, allow::AllowList, connect, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The disk of a server does not answer, neither when a peer comes nor when it has something to
/// store: the peer gets a session, and its content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_keeps_nobody_waiting() {
    let disk = tempfile::tempdir().unwrap();
    let origin = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = origin.local_addr().unwrap();
    let (server_key, client_key) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    let only = |key: &SecretKey| AuthorizedPeers::new([KnownPeer::from(key.public())]);
    let options = StoreOptions {
        dir: disk.path().join("store"),
        size: 1 << 30,
        log: 0,
        secret: StoreSecret::default(),
    };
    let store = ContentStore::open(options, &server_key).unwrap();
    let mut endpoint = Endpoint::new(server_key.clone(), only(&client_key));
    endpoint.egress.allow = AllowList::parse(&[target.to_string()]).unwrap();
    endpoint.store = Some(store.clone());
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let server = serve(ServeConfig { endpoint, listen, max_sessions: 16 }).await.unwrap();

    // Whoever wants to read or write a log waits for this.
    let shared = store.shared.clone();
    let (held, is_held) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let hang = std::thread::spawn(move || {
        let _peers = lock(&shared.peers);
        held.send(()).unwrap();
        // An error means that the test is over.
        let _ = released.recv();
    });
    is_held.recv().unwrap();

    let client = connect(ConnectConfig {
        endpoint: Endpoint::new(client_key, only(&server_key)),
        server: server.addresses()[0].to_string().parse().unwrap(),
        forwards: vec![format!("127.0.0.1:0:{target}").parse().unwrap()],
        reverse: Vec::new(),
        proxies: Vec::new(),
        proxy_access: crate::proxy::ProxyAccess::default(),
        https: None,
    })
    .await
    .unwrap();
    let carried = async {
        let mut application = tokio::net::TcpStream::connect(client.addresses()[0]).await.unwrap();
        let (mut accepted, _) = origin.accept().await.unwrap();
        accepted.write_all(b"once").await.unwrap();
        let mut bytes = [0; 4];
        application.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"once");
    };
    tokio::time::timeout(Duration::from_secs(30), carried).await.expect("content arrives");
    release.send(()).unwrap();
    hang.join().unwrap();
    client.stop();
    server.stop();
}
