//! Leaders with three members of etcd, which Debian's package `etcd-server` has.

use super::*;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// Three members, which may be killed and started again.
struct Cluster {
    members: Vec<Option<Child>>,
    /// Ports for clients, and for each other.
    ports: Vec<(u16, u16)>,
    directory: tempfile::TempDir,
}

impl Cluster {
    /// None, with the reason, if etcd is not installed.
    fn start() -> Option<Cluster> {
        let found = Command::new("etcd").arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            println!("skipped: several controllers: they need etcd (Debian: etcd-server)");
            return None;
        }
        // Held together, so that all differ.
        let held: Vec<TcpListener> =
            (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |at: usize| held[at].local_addr().unwrap().port();
        let ports = (0..3).map(|member| (port(member), port(member + 3))).collect();
        drop(held);
        let directory = tempfile::tempdir().unwrap();
        let mut cluster = Cluster { members: vec![None, None, None], ports, directory };
        (0..3).for_each(|member| cluster.run(member));
        Some(cluster)
    }

    fn run(&mut self, member: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let name = |(at, ports): (usize, &(u16, u16))| format!("m{at}={}", url(ports.1));
        let all: Vec<String> = self.ports.iter().enumerate().map(name).collect();
        let (client, peer) = self.ports[member];
        let child = Command::new("etcd")
            .args(["--name", &format!("m{member}"), "--initial-cluster", &all.join(",")])
            .arg("--data-dir")
            .arg(self.directory.path().join(member.to_string()))
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.members[member] = Some(child.unwrap());
    }

    fn kill(&mut self, member: usize) {
        let mut child = self.members[member].take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn at(&self) -> EtcdAt {
        let endpoints = self.ports.iter().map(|port| format!("127.0.0.1:{}", port.0)).collect();
        EtcdAt { endpoints, prefix: "test/net".into() }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.members.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn record(names: usize, first: &str) -> Record {
    let drained = (0..names).map(|n| format!("{first} {n:030}")).collect();
    Record { drained, ..Record::default() }
}

/// One leads; what it writes outlives it and a member of etcd; the next one goes on with it, and the one
/// before writes nothing any more.
#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_another_follows() {
    let Some(mut cluster) = Cluster::start() else { return };
    let at = cluster.at();
    let nobody = |_: &str| {};
    let first = lead(&at, "first", nobody).await;
    assert_eq!(first.read().await.unwrap(), Record::default());
    // Of several pieces.
    let large = record(60_000, "large");
    first.write(&large.to_json()).await.unwrap();
    assert_eq!(first.read().await.unwrap(), large);

    // The second one waits for the first.
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let waiting = tokio::spawn({
        let at = at.clone();
        async move { lead(&at, "second", |why| told.send(why.to_owned()).unwrap()).await }
    });
    assert_eq!(heard.recv().await.unwrap(), "first leads");
    // Not the one that leads the members: they may choose another for longer than the lease lives.
    let mut follower = 0;
    for member in 0..3 {
        let mut client = Client::connect([&at.endpoints[member]], None).await.unwrap();
        let status = client.status().await.unwrap();
        if status.leader() != status.header().unwrap().member_id() {
            follower = member;
        }
    }
    cluster.kill(follower);
    let small = record(2, "small");
    first.write(&small.to_json()).await.unwrap();
    assert!(!waiting.is_finished(), "two lead");

    // As if it were killed: its lease is not renewed, nor given back.
    first.keeping.abort();
    let killed = Instant::now();
    let second = waiting.await.unwrap();
    println!("another leads {:.1} s after the leader was killed", killed.elapsed().as_secs_f64());
    assert!(second.epoch() > first.epoch());
    assert_eq!(second.read().await.unwrap(), small);
    // It does not know yet, and comes back.
    let late = first.write(&large.to_json()).await;
    assert!(matches!(late, Err(ControllerStoreError::Deposed)), "{late:?}");
    first.lost().await;
    assert_eq!(second.read().await.unwrap(), small);

    // What a leader left that was killed while it wrote is deleted.
    let stray = at.key("record/1-1/0");
    second.guarded(&[TxnOp::put(stray.clone(), "piece", None)]).await.unwrap();
    second.resign().await;
    let third = lead(&at, "third", nobody).await;
    assert_eq!(third.read().await.unwrap(), small);
    let options = GetOptions::new().with_prefix().with_count_only();
    // A member is down: another is asked then.
    let left = retried(|| {
        let (mut client, key, options) = (third.client.clone(), at.key("record/"), options.clone());
        async move { client.get(key, Some(options)).await }
    });
    let left = left.await.unwrap();
    assert_eq!(left.count(), 1, "the record has one piece");

    // Without most members nobody leads, and nobody writes.
    let another = (follower + 1) % 3;
    cluster.kill(another);
    third.lost().await;
    assert!(third.write(&large.to_json()).await.is_err());
    [follower, another].into_iter().for_each(|member| cluster.run(member));
    let fourth = lead(&at, "fourth", nobody).await;
    assert!(fourth.epoch() > third.epoch());
    assert_eq!(fourth.read().await.unwrap(), small);
    // Another network's controllers do not see it.
    let other = EtcdAt { prefix: "test/other".into(), ..at };
    let other = lead(&other, "other", nobody).await;
    assert_eq!(other.read().await.unwrap(), Record::default());
}
