use super::*;
use crate::keys::{AuthorizedPeers, Peer as KnownPeer};
use crate::{ConnectConfig, Endpoint, ServeConfig, allow::AllowList, connect, serve};
use oncewire_flash::store::NewLog;
use oncewire_session::{Epoch, LogHeader};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn options(disk: &tempfile::TempDir) -> StoreOptions {
    StoreOptions {
        dir: disk.path().join("store"),
        size: 1 << 30,
        log: 0,
        writes: None,
        secret: StoreSecret::default(),
    }
}

/// The disk of a server does not answer, neither when a peer comes nor when it has something to
/// store: the peer gets a session, and its content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_keeps_nobody_waiting() {
    let disk = tempfile::tempdir().unwrap();
    let origin = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = origin.local_addr().unwrap();
    let (server_key, client_key) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    let only = |key: &SecretKey| AuthorizedPeers::new([KnownPeer::from(key.public())]);
    let store = ContentStore::open(options(&disk), &server_key).unwrap();
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
        forwards: vec![format!("127.0.0.1:0:{target}").parse().unwrap()],
        ..ConnectConfig::new(
            Endpoint::new(client_key, only(&server_key)),
            server.addresses()[0].to_string().parse().unwrap(),
        )
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

/// What a session left is queued while the disk is slow: the next session of the peer waits for it.
#[test]
fn what_a_session_left_is_written_before_the_next_one_reads() {
    let disk = tempfile::tempdir().unwrap();
    let key = SecretKey::generate().unwrap();
    let store = ContentStore::open(options(&disk), &key).unwrap();
    let peer = SecretKey::generate().unwrap().public();
    let logs = Arc::new(Mutex::new(PeerLogs { owner: Some(7), ..PeerLogs::new() }));
    lock(&store.shared.peers).insert(Peer(peer.0), logs.clone());

    let slow = lock(&logs);
    let epoch = Epoch { log: 1, number: 0 };
    let begin = Unwritten::Begin(LogHeader { epoch, capacity: 1 << 20, key: 0 });
    store.queue_left(7, peer, vec![(Side::Receiving, vec![begin])]);
    let (asks, asked) = std::sync::mpsc::channel();
    let next = std::thread::spawn({
        let (store, logs) = (store.clone(), logs.clone());
        move || {
            asks.send(()).unwrap();
            store.shared.wait_for_left();
            lock(&logs).logs.values_mut().filter_map(PeerLog::disk_log).count()
        }
    });
    asked.recv().unwrap();
    drop(slow);
    assert_eq!(next.join().unwrap(), 1);
}

/// An earlier program made a file with less room for the record of a log: another one takes its place.
#[test]
fn a_log_without_room_for_its_record_begins_anew() {
    let disk = tempfile::tempdir().unwrap();
    let store = ContentStore::open(options(&disk), &SecretKey::generate().unwrap()).unwrap();
    let files = &store.shared.store;
    let (peer, epoch) = (Peer([7; 32]), Epoch { log: 1, number: 0 });
    let header = LogHeader { epoch, capacity: 1 << 20, key: 0 };
    let side = side_of(Side::Sending);
    let new = NewLog { peer, side, capacity: 1 << 20, state: 1 << 20, ..NewLog::default() };
    let small = files.create(&new, &record::Record::new(header).write(), 0).unwrap().name();
    let mut log = PeerLog::new(peer, Side::Sending, Some(small));
    log.open(files).unwrap();
    assert_eq!(log.end(), None, "its record is not used");
    let mut begin = || {
        let begun = log.apply(files, 0, Unwritten::Begin(header), Instant::now()).unwrap();
        assert_eq!((begun, log.end()), (Some(epoch), Some(0)));
        log.name().unwrap()
    };
    let next = begin();
    assert_ne!(next, small);
    assert_eq!(begin(), next, "this one has room");
    assert!(files.open_log(small).is_err(), "the file is gone");
}
