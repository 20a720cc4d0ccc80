//! A hub with many peers stays within its memory.

use crate::pair::{LIMIT, Plan, client, echo, exchange, origin, until};
use oncewire_codec::EncoderBuilder;
use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
use oncewire_net::store::{ContentStore, StoreOptions, StoreSecret};
use oncewire_net::{Connection, Server, serve};
use oncewire_session::StoreFor;
use oncewire_testkit::servers::incompressible;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::sleep;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_stays_within_its_memory_and_every_byte_is_right() {
    const PEERS: u64 = 16;
    const LEN: usize = 6_000_000;
    let mut plan = Plan::new().forward(origin(echo).await);
    let keys: Vec<_> = (0..PEERS).map(|_| SecretKey::generate().unwrap()).collect();
    let peers: Vec<_> = keys.iter().map(SecretKey::public).collect();
    let authorized = AuthorizedPeers::new(peers.iter().copied().map(Peer::from));
    plan.serve.endpoint.peers = authorized.clone();
    // Just enough for this many sessions with the smallest logs.
    plan.serve.endpoint.memory = 152 << 20;
    plan.connect.endpoint.memory = 64 << 20;
    let server = serve(plan.serve).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for (seed, secret) in keys.into_iter().enumerate() {
        let mut config = plan.connect.clone();
        config.endpoint.secret = secret;
        let client = client(config, server.addresses()[0]).await;
        tasks.spawn(async move {
            client.established(LIMIT).await.unwrap();
            for round in 0..2 {
                let bytes = incompressible(seed as u64 * 10 + round, LEN);
                let application = TcpStream::connect(client.addresses()[0]).await.unwrap();
                assert!(exchange(application, &bytes).await == bytes, "peer {seed}, round {round}");
            }
            client
        });
    }
    let mut most = 0;
    let mut clients = Vec::new();
    loop {
        let status = server.status();
        most = most.max(status.memory);
        let limit = status.memory_limit + status.memory_limit / 10;
        assert!(
            status.memory <= limit,
            "{} of {}, shrunk {} times",
            status.memory,
            status.memory_limit,
            status.shrunk
        );
        match tokio::time::timeout(Duration::from_millis(20), tasks.join_next()).await {
            Ok(Some(client)) => clients.push(client.unwrap()),
            Ok(None) => break,
            Err(_) => {}
        }
    }
    assert!(most > 16 << 20, "the test is of no use: {most} bytes at most");
    // Logs of peers that have gone are kept within the limit.
    for client in clients.iter().step_by(2) {
        client.stop();
    }
    sleep(Duration::from_millis(500)).await;
    let status = server.status();
    assert!(
        status.kept_logs > 0 && status.memory <= status.memory_limit,
        "{} bytes, {} logs",
        status.memory,
        status.kept_logs
    );

    // The remaining peers get the memory of the others, once they can use it.
    let gone: Vec<_> = clients.iter().step_by(2).map(|client| client.status().key).collect();
    authorized
        .replace(peers.into_iter().filter(|peer| !gone.contains(&peer.to_string())).map(Peer::from))
        .unwrap();
    let stay: Vec<_> = clients.iter().skip(1).step_by(2).take(2).collect();
    for client in clients.iter().skip(1).step_by(2).skip(2) {
        client.stop();
    }
    until("the others are gone", || server.status().sessions.len() == 2).await;
    for round in 0..4 {
        for (seed, client) in stay.iter().enumerate() {
            let bytes = incompressible(1000 + 10 * round + seed as u64, LEN);
            let application = TcpStream::connect(client.addresses()[0]).await.unwrap();
            assert!(exchange(application, &bytes).await == bytes);
        }
    }
    let after = server.status();
    // A sixteenth of the memory has room for logs of 3 MiB.
    assert!(smallest(&after) >= 8 << 20, "{} bytes, grown {} times", smallest(&after), after.grown);
    assert!(after.grown > 0 && after.memory <= after.memory_limit);
}

/// The smallest log of all sessions that send something.
fn smallest(status: &oncewire_net::status::Status) -> u64 {
    status.sessions.iter().map(|session| session.here.log_capacity).min().unwrap_or(0)
}

/// A sampling period of 4 needs a table larger than the log. The log shrinks, and the memory limit
/// holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_larger_table_has_a_smaller_log() {
    let mut capacities = Vec::new();
    for period in [32, 4] {
        let mut plan = Plan::new().forward(origin(echo).await);
        for endpoint in [&mut plan.serve.endpoint, &mut plan.connect.endpoint] {
            endpoint.encoder = EncoderBuilder::default().period(period);
            endpoint.memory = 64 << 20;
        }
        let pair = plan.start().await;
        let bytes = incompressible(period as u64, 40_000_000);
        assert!(exchange(pair.application().await, &bytes).await == bytes);
        let status = pair.server.status();
        let here = status.sessions[0].here;
        assert!(here.log_end > here.log_capacity, "the log is full");
        assert_eq!(
            (here.large_flows, here.large_flow_bytes),
            (1, 40_000_000),
            "a flow larger than the cache is told of"
        );
        let small = incompressible(1, 1_000_000);
        assert!(exchange(pair.application().await, &small).await == small);
        let status = pair.server.status();
        assert_eq!(
            (status.sessions[0].here.large_flows, status.sessions[0].here.large_flow_bytes),
            (1, 40_000_000)
        );
        assert!(
            status.memory <= status.memory_limit,
            "period {period}: {} of {}",
            status.memory,
            status.memory_limit
        );
        // The memory that the codec reports for such an encoder and decoder is included.
        let memory = EncoderBuilder::default().period(period).cache(here.log_capacity).memory();
        assert!(
            status.memory >= (2 * memory.log + memory.table) as u64,
            "period {period}: {} bytes",
            status.memory
        );
        capacities.push(here.log_capacity);
    }
    assert!(capacities[1] * 4 < capacities[0] * 3, "{capacities:?}");
}

/// Far more peers than there is memory for at once, which take turns: each is served, with its cache
/// as far as there is room, and those that rest give theirs up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_peers_share_a_hub_by_taking_turns() {
    const PEERS: u64 = 60;
    let mut plan = Plan::new().forward(origin(echo).await);
    let keys: Vec<_> = (0..PEERS).map(|_| SecretKey::generate().unwrap()).collect();
    plan.serve.endpoint.peers =
        AuthorizedPeers::new(keys.iter().map(|key| Peer::from(key.public())));
    // Enough for seven sessions at work.
    plan.serve.endpoint.memory = 96 << 20;
    plan.connect.endpoint.memory = 64 << 20;
    let server = serve(plan.serve).await.unwrap();
    let mut clients = Vec::new();
    for (seed, secret) in (0..).zip(keys) {
        let mut config = plan.connect.clone();
        config.endpoint.secret = secret;
        let client = client(config, server.addresses()[0]).await;
        client.established(LIMIT).await.unwrap();
        clients.push((seed, client));
    }
    assert_eq!(server.status().sessions.len() as u64, PEERS);
    for round in 0..2 {
        for (seed, client) in &clients {
            let bytes = incompressible(*seed, 300_000);
            for _ in 0..2 {
                let application = TcpStream::connect(client.addresses()[0]).await.unwrap();
                assert!(exchange(application, &bytes).await == bytes, "peer {seed}, {round}");
            }
        }
        let status = server.status();
        assert!(status.memory <= status.memory_limit, "{}", status.memory);
    }
    let status = server.status();
    assert_eq!(status.sessions.len() as u64, PEERS, "none was closed");
    for session in &status.sessions {
        let here = session.here;
        // The second of two transfers was sent as references, in each round.
        assert!(here.matched_bytes >= 2 * 290_000, "{here:?}");
        assert_eq!(here.failures, 0, "{here:?}");
    }
    // They had to begin anew, and many hold nothing now.
    assert!(status.shrunk >= PEERS, "{} gave way", status.shrunk);
    let resting = status.sessions.iter().filter(|one| one.here.memory_bytes < 1 << 20).count();
    assert!((10..PEERS as usize).contains(&resting), "{resting} hold nothing");
}

/// A hub whose memory is short, and its peers; all keep their logs on disk.
struct Stored {
    server: Server,
    hub: ContentStore,
    clients: Vec<(Connection, ContentStore)>,
}

impl Stored {
    async fn start(
        disk: &Path,
        hub_key: &SecretKey,
        keys: &[SecretKey],
        to: std::net::SocketAddr,
        writes: Option<u64>,
    ) -> Stored {
        Stored::start_with(disk, hub_key, keys, to, writes, 8 << 20).await
    }

    /// As [`Stored::start`], with `log` bytes of each log on disk.
    async fn start_with(
        disk: &Path,
        hub_key: &SecretKey,
        keys: &[SecretKey],
        to: std::net::SocketAddr,
        writes: Option<u64>,
        log: u64,
    ) -> Stored {
        let open = |name: String, key: &SecretKey, writes: Option<u64>| {
            let options = StoreOptions {
                dir: disk.join(name),
                size: 4 << 30,
                log,
                writes,
                secret: StoreSecret::default(),
            };
            ContentStore::open(options, key).unwrap()
        };
        let mut plan = Plan::new().forward(to);
        let hub = open("hub".into(), hub_key, writes);
        plan.serve.endpoint.secret = hub_key.clone();
        plan.serve.endpoint.store = Some(hub.clone());
        plan.serve.endpoint.peers =
            AuthorizedPeers::new(keys.iter().map(|key| Peer::from(key.public())));
        // Enough for two or three sessions at work.
        plan.serve.endpoint.memory = 32 << 20;
        plan.connect.endpoint.memory = 64 << 20;
        // Loopback may be faster than the disk.
        plan.serve.endpoint.store_for = StoreFor::Bytes;
        plan.connect.endpoint.store_for = StoreFor::Bytes;
        plan.connect.endpoint.peers = AuthorizedPeers::new([Peer::from(hub_key.public())]);
        let server = serve(plan.serve).await.unwrap();
        let mut clients = Vec::new();
        for (nth, secret) in keys.iter().enumerate() {
            let store = open(format!("peer{nth}"), secret, None);
            let mut config = plan.connect.clone();
            config.endpoint.secret = secret.clone();
            config.endpoint.store = Some(store.clone());
            let client = client(config, server.addresses()[0]).await;
            client.established(LIMIT).await.unwrap();
            clients.push((client, store));
        }
        Stored { server, hub, clients }
    }

    /// Each peer sends its content and gets it back. Returns the bytes that this took, of each.
    async fn turn(&self) -> Vec<u64> {
        let mut costs = Vec::new();
        for (seed, (client, _)) in (0..).zip(&self.clients) {
            let wire = || {
                let here = client.status().sessions[0].here;
                here.wire_sent_bytes + here.wire_received_bytes
            };
            let before = wire();
            let bytes = incompressible(seed, 400_000);
            let application = TcpStream::connect(client.addresses()[0]).await.unwrap();
            assert!(exchange(application, &bytes).await == bytes, "peer {seed}");
            costs.push(wire() - before);
        }
        costs
    }

    async fn stop(self) {
        self.server.stop();
        self.clients.iter().for_each(|(client, _)| client.stop());
        let stores = self.clients.iter().map(|(_, store)| store.clone()).chain([self.hub.clone()]);
        for store in stores {
            tokio::task::spawn_blocking(move || store.release()).await.unwrap();
        }
    }
}

/// A hub short of memory takes memory back from its peers, not what they have on disk: they find
/// that while the session lasts, and after a restart of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_short_of_memory_keeps_what_its_peers_have_on_disk() {
    const PEERS: usize = 12;
    let disk = tempfile::tempdir().unwrap();
    let hub_key = SecretKey::generate().unwrap();
    let keys: Vec<_> = (0..PEERS).map(|_| SecretKey::generate().unwrap()).collect();
    let to = origin(echo).await;
    let logs = || {
        let files = std::fs::read_dir(disk.path().join("hub")).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let hub = Stored::start(disk.path(), &hub_key, &keys, to, None).await;
    let first = hub.turn().await;
    let begun = logs();
    // Both directions of each peer, and the file `store`.
    assert_eq!(begun.len(), 2 * PEERS + 1);
    let sum = |costs: &[u64]| costs.iter().sum::<u64>();
    let mut again = Vec::new();
    for _ in 0..3 {
        again.extend(hub.turn().await);
    }
    let (all, once) = (sum(&again) / 3, sum(&first));
    eprintln!("{PEERS} peers took {once} bytes on the wire, then {all} a turn");
    // A disk that is slow for a moment costs savings, so there is room.
    assert!(all < once / 2, "{again:?} bytes after {first:?}");
    let status = hub.server.status();
    assert!(status.shrunk >= 2 * PEERS as u64, "{} gave memory back", status.shrunk);
    assert!(status.memory <= status.memory_limit, "{}", status.memory);
    let read: u64 = status.sessions.iter().map(|one| one.here.recalled_bytes).sum();
    assert!(read > PEERS as u64 * 300_000, "{read} bytes came from disk");
    assert!(status.sessions.iter().all(|one| one.here.failures == 0));
    assert_eq!(logs(), begun, "no log was deleted or begun anew");
    let store = status.store.expect("a store");
    let [hour, day, older] = [store.recalled_hour, store.recalled_day, store.recalled_older];
    assert!(hour >= read && (day, older) == (0, 0), "{hour} of {read} bytes: all are new");
    assert!(store.oldest.is_some_and(|age| age < 600) && store.read > 2 * read);
    // Units are written several at a time, so of each log some wait.
    assert!(store.device_written > store.written / 2, "{store:?}");
    assert_eq!(store.day_written, store.device_written);
    hub.stop().await;

    let hub = Stored::start(disk.path(), &hub_key, &keys, to, None).await;
    let again = hub.turn().await;
    eprintln!("after a restart {}", sum(&again));
    assert!(sum(&again) < once / 2, "{again:?} bytes after a restart");
    assert_eq!(logs(), begun);
    hub.stop().await;
}

/// A hub keeps to what it may write in a day, and tells its peer what it does not have: the peer, which
/// has all of it, refers to none of that, so no frame fails. The logs stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_written_to_disk_than_is_allowed() {
    const DAY: u64 = 96 << 20;
    let disk = tempfile::tempdir().unwrap();
    let hub_key = SecretKey::generate().unwrap();
    let keys = [SecretKey::generate().unwrap()];
    let to = origin(echo).await;
    let pair = Stored::start(disk.path(), &hub_key, &keys, to, Some(DAY)).await;
    let (client, store) = &pair.clients[0];
    let send = async |seed: u64, len: usize| {
        let bytes = incompressible(seed, len);
        let application = TcpStream::connect(client.addresses()[0]).await.unwrap();
        assert!(exchange(application, &bytes).await == bytes, "{seed}");
        let here = client.status().sessions[0].here;
        here.wire_sent_bytes + here.wire_received_bytes
    };
    let first = send(0, 1_000_000).await;
    let kept = || pair.hub.status().written >= 2_000_000;
    until("it is on disk", kept).await;
    for seed in 1..6 {
        send(seed, 2_000_000).await;
    }
    let passed = || pair.hub.status().lost > 12_000_000 && store.status().written > 21_000_000;
    until("more than allowed came", passed).await;
    let status = pair.hub.status();
    // One piece more, and a commit of each log a few times.
    let most = DAY / 24 + (1 << 20);
    assert!(status.device_written <= most, "{} of {most}", status.device_written);
    assert!(status.lost_ranges <= 4, "{} ranges", status.lost_ranges);
    assert_eq!(status.failure, None);
    assert!(store.status().device_written > 3 * most, "the peer has no limit");
    // What was not kept is sent again, and nobody asks for it.
    let before = send(7, 1000).await;
    let again = send(2, 2_000_000).await - before;
    assert!(again > 3_000_000, "{again} bytes of what neither disk nor memory has");
    let sessions = [client.status(), pair.server.status()].map(|status| status.sessions[0].here);
    for here in sessions {
        assert_eq!((here.failures, here.transports), (0, 1), "{here:?}");
    }
    assert!(first > 2_000_000);
    pair.stop().await;
    let pair = Stored::start(disk.path(), &hub_key, &keys, to, None).await;
    let files = std::fs::read_dir(disk.path().join("hub")).unwrap().count();
    assert_eq!(files, 3, "both logs, and `store`");
    let ends = [pair.clients[0].0.status(), pair.server.status()];
    let warm = ends.map(|status| status.sessions[0].here.warm_starts);
    assert_eq!(warm, [1, 1], "both logs went on, though one end had not stored them");
    pair.stop().await;
}

/// Content that repeats is not written to disk again, whether memory has it or it is read from there;
/// after a restart it is read where it lies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_repeats_is_written_to_disk_once() {
    const LEN: usize = 6_000_000;
    let disk = tempfile::tempdir().unwrap();
    let (hub_key, keys) = (SecretKey::generate().unwrap(), [SecretKey::generate().unwrap()]);
    let to = origin(echo).await;
    let start = || Stored::start_with(disk.path(), &hub_key, &keys, to, None, 128 << 20);
    let pair = start().await;
    let stores = [&pair.hub, &pair.clients[0].1];
    // Sends content, which comes back. Returns what the devices wrote until `bytes` were stored.
    let send = async |seed: u64, len: usize, bytes: usize| {
        let stored = |store: &ContentStore| {
            let status = store.status();
            let all = status.written + status.repeated + status.lost;
            (all, status.pending, status.device_written)
        };
        let before = stores.map(stored);
        let application = TcpStream::connect(pair.clients[0].0.addresses()[0]).await.unwrap();
        let content = incompressible(seed, len);
        assert!(exchange(application, &content).await == content, "{seed}");
        let is_stored = || {
            let now = stores.map(stored);
            (0..2).all(|end| now[end].0 - before[end].0 >= bytes as u64 && now[end].1 == 0)
        };
        until("it is stored", is_stored).await;
        [0, 1].map(|end| stored(stores[end]).2 - before[end].2)
    };
    // Both directions of 6 MB.
    let first = send(0, LEN, 2 * LEN).await;
    let from_memory = send(0, LEN, 2 * LEN).await;
    // More than memory has room for, and less at once, for the disk may be slow.
    for seed in 1..6 {
        send(seed, LEN, 2 * LEN).await;
    }
    // What is recalled is what is sent.
    let from_disk = send(0, LEN, 2 * LEN).await;
    eprintln!("6 MB each way: {first:?} bytes written to the devices of both ends");
    eprintln!("the same from memory: {from_memory:?}, from disk: {from_disk:?}");
    let recalled = pair.clients[0].0.status().sessions[0].here.recalled_bytes;
    assert!(recalled > 5_000_000, "{recalled}");
    for end in 0..2 {
        assert!(from_memory[end] < first[end] / 5, "{from_memory:?} of {first:?}");
        assert!(from_disk[end] < first[end] / 4, "{from_disk:?} of {first:?}");
    }
    pair.stop().await;

    // Each of these lies only on disk by the time that it comes again, some of it where it was
    // first. After a restart its hooks are made bit by bit.
    let pair = start().await;
    let client = &pair.clients[0].0;
    let mut recalled = 0;
    for seed in (0..6).cycle().take(60) {
        let before = client.status().sessions[0].here.recalled_bytes;
        let application = TcpStream::connect(client.addresses()[0]).await.unwrap();
        let content = incompressible(seed, LEN);
        assert!(exchange(application, &content).await == content, "{seed}");
        recalled = client.status().sessions[0].here.recalled_bytes - before;
        if recalled > 5_000_000 {
            break;
        }
    }
    let here = client.status().sessions[0].here;
    assert!(here.warm_starts == 1 && recalled > 5_000_000, "{recalled} {here:?}");
    pair.stop().await;
}

/// A file system that goes with the test.
struct Mounted<'d>(&'d Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

/// The disk of a hub is full: every byte arrives, and the store says why it keeps nothing. One that can
/// only be read is refused and stays as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_costs_no_byte_and_one_to_read_only_is_refused() {
    let disk = tempfile::tempdir().unwrap();
    let hub_dir = disk.path().join("hub");
    std::fs::create_dir(&hub_dir).unwrap();
    let mount = |options: &str| {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&hub_dir);
        mount.stderr(std::process::Stdio::null()).status().is_ok_and(|done| done.success())
    };
    // A store fits, and no log of a peer.
    if !mount("size=1M,mode=0700") {
        oncewire_testkit::skip!("no file system can be mounted")
    }
    let _mounted = Mounted(&hub_dir);
    let (hub_key, keys) = (SecretKey::generate().unwrap(), [SecretKey::generate().unwrap()]);
    let pair = Stored::start(disk.path(), &hub_key, &keys, origin(echo).await, None).await;
    let first = pair.turn().await[0];
    let again = pair.turn().await[0];
    assert!(again < first / 20, "memory works: {again} after {first}");
    let status = pair.hub.status();
    let why = status.failure.expect("it says so");
    assert!(why.contains("space") && !why.contains('\n'), "{why}");
    assert_eq!((status.written, pair.clients[0].1.status().failure), (0, None));
    pair.stop().await;

    let names = || std::fs::read_dir(&hub_dir).unwrap().count();
    let before = names();
    assert!(mount("remount,ro"));
    let options = StoreOptions {
        dir: hub_dir.clone(),
        size: 1 << 30,
        log: 0,
        writes: None,
        secret: StoreSecret::default(),
    };
    let refused = ContentStore::open(options, &hub_key).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("hub") && !refused.contains('\n'), "{refused}");
    assert_eq!(names(), before);
}
