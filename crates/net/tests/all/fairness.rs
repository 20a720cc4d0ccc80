//! How a hub divides its work among peers that all want more than it can give.

use crate::pair::{LIMIT, Plan, client, origin};
use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
use oncewire_net::serve;
use oncewire_testkit::servers::incompressible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PEERS: usize = 20;
/// Of all peers together, in bytes, after which shares are compared.
const LEN: u64 = PEERS as u64 * (8 << 20);

/// Hub, peers and origin have one thread, so it is never the network that decides: each task gets
/// its turn after all others that are ready.
#[tokio::test]
async fn peers_at_work_get_equal_shares() {
    // Longer than a cache, so that every piece is new.
    let content: Arc<Vec<u8>> = Arc::new(incompressible(1, 24 << 20));
    let endless = move |mut stream: TcpStream| {
        let content = content.clone();
        async move { while stream.write_all(&content).await.is_ok() {} }
    };
    let mut plan = Plan::new().forward(origin(endless).await);
    let keys: Vec<_> = (0..PEERS).map(|_| SecretKey::generate().unwrap()).collect();
    plan.serve.endpoint.peers =
        AuthorizedPeers::new(keys.iter().map(|key| Peer::from(key.public())));
    plan.serve.endpoint.memory = 512 << 20;
    plan.connect.endpoint.memory = 64 << 20;
    let server = serve(plan.serve).await.unwrap();
    let mut clients = Vec::new();
    for secret in keys {
        let mut config = plan.connect.clone();
        config.endpoint.secret = secret;
        let client = client(config, server.addresses()[0]).await;
        client.established(LIMIT).await.unwrap();
        clients.push(client);
    }
    let got: Arc<Vec<AtomicU64>> = Arc::new((0..PEERS).map(|_| AtomicU64::new(0)).collect());
    let mut readers = tokio::task::JoinSet::new();
    for (at, client) in clients.iter().enumerate() {
        let mut stream = TcpStream::connect(client.addresses()[0]).await.unwrap();
        let got = got.clone();
        readers.spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            while got.iter().map(|got| got.load(Ordering::Relaxed)).sum::<u64>() < LEN {
                let len = stream.read(&mut buffer).await.unwrap();
                assert!(len > 0, "peer {at}: the end");
                got[at].fetch_add(len as u64, Ordering::Relaxed);
            }
        });
    }
    while let Some(ended) = readers.join_next().await {
        ended.unwrap();
    }
    let mut got: Vec<u64> = got.iter().map(|got| got.load(Ordering::Relaxed)).collect();
    got.sort_unstable();
    let percent = |bytes: u64| bytes * PEERS as u64 * 100 / LEN;
    let (least, most) = (percent(got[0]), percent(got[PEERS - 1]));
    println!("shares: {least} to {most} % of an equal one");
    // What 160 MB leave to chance is a tenth at most, nearly always.
    assert!(least >= 75 && most <= 125, "{least} to {most} %: {got:?}");
    server.stop();
}
