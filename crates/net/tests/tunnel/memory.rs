//! A hub with many peers stays within its memory.

use crate::pair::{LIMIT, Plan, client, echo, exchange, origin};
use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
use oncewire_net::serve;
use oncewire_testkit::servers::incompressible;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::sleep;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_stays_within_its_memory_and_every_byte_is_right() {
    const PEERS: u64 = 16;
    const LEN: usize = 6_000_000;
    let mut plan = Plan::new().forward(origin(echo).await);
    let keys: Vec<_> = (0..PEERS).map(|_| SecretKey::generate().unwrap()).collect();
    plan.serve.endpoint.peers = AuthorizedPeers::new(keys.iter().map(|key| Peer::from(key.public())));
    plan.serve.endpoint.memory = 128 << 20;
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
        assert!(status.memory <= limit, "{} of {}, shrunk {} times", status.memory, status.memory_limit, status.shrunk);
        match tokio::time::timeout(Duration::from_millis(20), tasks.join_next()).await {
            Ok(Some(client)) => clients.push(client.unwrap()),
            Ok(None) => break,
            Err(_) => {}
        }
    }
    assert!(most > 16 << 20, "the test is of no use: {most} bytes at most");
    // Peers that have gone leave logs, which are bounded as well.
    for client in clients.iter().step_by(2) {
        client.stop();
    }
    sleep(Duration::from_millis(500)).await;
    let status = server.status();
    assert!(status.kept_logs > 0 && status.memory <= status.memory_limit, "{} bytes, {} logs", status.memory, status.kept_logs);
}
