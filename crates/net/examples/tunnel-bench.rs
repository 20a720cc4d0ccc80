//! Speed of the tunnel, next to a plain relay that makes the same hops over the same transport with
//! the same libraries.
//!
//! ```text
//! cargo run --release -p oncewire-net --example tunnel-bench [-- ROUNDS [FILE...]]
//! ```
//!
//! Client, both ends and origin share this process and its threads, one per core. For every
//! connection of an application the relay takes a TLS connection from a pool filled beforehand, so
//! that it never waits for a handshake. Direct connection, relay and tunnel take turns; the program
//! prints medians. If files are named, it also downloads them in sequence, twice.

use oncewire_net::allow::AllowList;
use oncewire_net::keys::{AuthorizedPeers, Peer, SecretKey};
use oncewire_net::{ConnectConfig, Connection, Endpoint, ServeConfig, Server, connect, serve, tls};
use oncewire_testkit::content::incompressible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What the origin serves. A request has four bytes of an index and four of a byte count.
struct Content {
    /// Larger than the tunnel's cache, so that none of it is found again.
    fresh: Vec<u8>,
    /// Smaller, and sent repeatedly.
    repeated: Vec<u8>,
    files: Vec<Vec<u8>>,
}

const FRESH: u32 = 0;
const REPEATED: u32 = 1;
const FILES: u32 = 2;
/// The default of [`Endpoint::memory`], in bytes.
const MEMORY: u64 = 512 << 20;

// More than 100 lines: the rows of its table, in their order.
#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let files = args.map(std::fs::read).collect::<std::io::Result<Vec<_>>>()?;
    let content = Arc::new(Content {
        fresh: incompressible(1, 192 << 20),
        repeated: incompressible(2, 16 << 20),
        files,
    });
    let origin = origin(content.clone()).await?;

    let (here, there) = (SecretKey::generate()?, SecretKey::generate()?);
    let relay = Relay::start(&here, &there, origin).await?;
    let tunnel = Tunnel::start(&here, &there, origin, MEMORY).await?;
    let ways = [("direct", origin), ("relay", relay.address), ("oncewire", tunnel.address())];

    println!(
        "median of {rounds} rounds, taking turns; 2 x TCP and TLS hops for relay and oncewire"
    );
    for (name, index, bytes) in [
        ("incompressible, first time", FRESH, content.fresh.len()),
        ("repeated", REPEATED, content.repeated.len() * 16),
    ] {
        let mut rates = vec![Vec::new(); ways.len()];
        for round in 0..=rounds {
            for (way, rates) in ways.iter().zip(&mut rates) {
                relay.fill(1).await?;
                let begun = Instant::now();
                fetch(way.1, index, bytes).await?;
                let rate = bytes as f64 / begun.elapsed().as_secs_f64();
                // The first round warms up.
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
        let rates: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
        println!("{name}, {} MB:", bytes / 1_000_000);
        for ((way, _), rate) in ways.iter().zip(&rates) {
            println!(
                "  {way:<9} {:>8.0} MB/s {:>6.2} Gbit/s  {:>5.2} x relay",
                rate / 1e6,
                rate * 8.0 / 1e9,
                rate / rates[1]
            );
        }
    }

    println!("small request, new connection, 200-byte answer that repeats:");
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for (way, times) in ways.iter().zip(&mut times) {
            relay.fill(REQUESTS).await?;
            for _ in 0..REQUESTS {
                let begun = Instant::now();
                fetch(way.1, REPEATED, 200).await?;
                times.push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    let direct = percentile(&mut times[0], 50);
    let added = percentile(&mut times[1], 50) - direct;
    for ((way, _), times) in ways.iter().zip(&mut times) {
        let (p50, p99) = (percentile(times, 50), percentile(times, 99));
        println!(
            "  {way:<9} median {p50:>6.0} us, p99 {p99:>6.0} us, added at the median {:>5.0} us = {:.2} x relay",
            p50 - direct,
            (p50 - direct) / added
        );
    }

    println!("1,000 connections at once, 100 KB each:");
    for (way, address) in ways {
        relay.fill(1000).await?;
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..1000 {
            tasks.spawn(fetch(address, REPEATED, 100_000));
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        println!("  {way:<9} {:>6.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    }

    if !content.files.is_empty() {
        let sum: usize = content.files.iter().map(Vec::len).sum();
        let tunnel = Tunnel::start(&here, &there, origin, sum as u64 * 5).await?;
        println!("{} files, {:.1} MB, through one tunnel:", content.files.len(), sum as f64 / 1e6);
        for pass in ["cold", "again", "third"] {
            let before = tunnel.client.status();
            let begun = Instant::now();
            for (index, file) in content.files.iter().enumerate() {
                fetch(tunnel.address(), FILES + index as u32, file.len()).await?;
            }
            let (time, after) = (begun.elapsed().as_secs_f64(), tunnel.client.status());
            let frames = after.sessions[0].here.wire_received_bytes
                - before.sessions[0].here.wire_received_bytes;
            let tls = after.transport_received + after.transport_sent
                - before.transport_received
                - before.transport_sent;
            println!(
                "  {pass:<6} {:>12} bytes of messages received, {:>12} with TLS, both ways; {:.0} MB/s",
                frames,
                tls,
                sum as f64 / 1e6 / time
            );
        }
        let begun = Instant::now();
        for _ in 0..100 {
            fetch(tunnel.address(), FILES, 15_000).await?;
        }
        println!(
            "  15 KB object, repeated on new connections: {:.2} ms each",
            begun.elapsed().as_secs_f64() * 10.0
        );
    }
    Ok(())
}

const REQUESTS: usize = 200;

fn median(values: &mut [f64]) -> f64 {
    percentile(values, 50)
}

fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * percent / 100]
}

/// With a backlog for all connections at once: a client that finds a full queue retries only after
/// a second.
fn listen() -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    socket.listen(4096)
}

async fn origin(content: Arc<Content>) -> Result<SocketAddr> {
    let listener = listen()?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let content = content.clone();
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let (Ok(index), Ok(mut left)) = (stream.read_u32().await, stream.read_u32().await)
                else {
                    return;
                };
                let source = match index {
                    FRESH => &content.fresh,
                    REPEATED => &content.repeated,
                    file => &content.files[(file - FILES) as usize],
                };
                while left > 0 {
                    let len = source.len().min(left as usize);
                    if stream.write_all(&source[..len]).await.is_err() {
                        return;
                    }
                    left -= len as u32;
                }
            });
        }
    });
    Ok(address)
}

async fn fetch(address: SocketAddr, index: u32, bytes: usize) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut request = index.to_be_bytes().to_vec();
    request.extend_from_slice(&(bytes as u32).to_be_bytes());
    stream.write_all(&request).await?;
    let mut buffer = vec![0; 256 << 10];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer[..(bytes + 1).min(256 << 10)]).await? {
            0 if total == bytes => return Ok(()),
            0 => return Err(format!("{total} of {bytes} bytes").into()),
            len => total += len,
        }
    }
}

fn trust(key: &SecretKey) -> AuthorizedPeers {
    AuthorizedPeers::new([Peer::from(key.public())])
}

struct Tunnel {
    client: Connection,
    _server: Server,
}

impl Tunnel {
    async fn start(
        here: &SecretKey,
        there: &SecretKey,
        origin: SocketAddr,
        memory: u64,
    ) -> Result<Tunnel> {
        let mut endpoint = Endpoint::new(there.clone(), trust(here));
        endpoint.egress.allow = AllowList::parse(&["127.0.0.0/8:*"])?;
        endpoint.memory = memory;
        let server =
            serve(ServeConfig { endpoint, listen: vec!["127.0.0.1:0".parse()?], max_sessions: 4 })
                .await?;
        let mut endpoint = Endpoint::new(here.clone(), trust(there));
        endpoint.memory = memory;
        let client = connect(ConnectConfig {
            forwards: vec![format!("127.0.0.1:0:{origin}").parse()?],
            ..ConnectConfig::new(endpoint, server.addresses()[0].to_string().parse()?)
        })
        .await?;
        client.established(Duration::from_secs(10)).await?;
        Ok(Tunnel { client, _server: server })
    }

    fn address(&self) -> SocketAddr {
        self.client.addresses()[0]
    }
}

/// A pair of relays that makes the same hops and nothing else.
struct Relay {
    address: SocketAddr,
    connector: TlsConnector,
    far: SocketAddr,
    pool: mpsc::UnboundedSender<client::TlsStream<TcpStream>>,
}

const BUFFER: usize = 64 << 10;

impl Relay {
    async fn start(here: &SecretKey, there: &SecretKey, origin: SocketAddr) -> Result<Relay> {
        let acceptor = TlsAcceptor::from(tls::server_config(there, &trust(here))?);
        let listener = listen()?;
        let far = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    let _ = Relay::far(acceptor.accept(stream).await?, origin).await;
                    std::io::Result::Ok(())
                });
            }
        });
        let near = listen()?;
        let address = near.local_addr()?;
        let (pool, taken) = mpsc::unbounded_channel();
        let taken = Arc::new(Mutex::new(taken));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = near.accept().await {
                let taken = taken.clone();
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    let next = taken.lock().await.recv().await;
                    let Some(mut far): Option<client::TlsStream<TcpStream>> = next else { return };
                    let _ =
                        copy_bidirectional_with_sizes(&mut stream, &mut far, BUFFER, BUFFER).await;
                });
            }
        });
        let connector =
            TlsConnector::from(tls::client_config(here, &trust(there), tls::Credential::RawKey)?);
        Ok(Relay { address, connector, far, pool })
    }

    /// One connection of the far end. It connects to the origin once bytes arrive, as an
    /// application's connection does.
    async fn far(mut stream: server::TlsStream<TcpStream>, origin: SocketAddr) -> Result<()> {
        let mut first = vec![0; BUFFER];
        let len = stream.read(&mut first).await?;
        let mut onward = TcpStream::connect(origin).await?;
        onward.set_nodelay(true)?;
        onward.write_all(&first[..len]).await?;
        copy_bidirectional_with_sizes(&mut stream, &mut onward, BUFFER, BUFFER).await?;
        Ok(())
    }

    /// Opens connections for the next applications.
    async fn fill(&self, count: usize) -> Result<()> {
        for _ in 0..count {
            let stream = TcpStream::connect(self.far).await?;
            stream.set_nodelay(true)?;
            self.pool
                .send(self.connector.connect(tls::server_name(), stream).await?)
                .map_err(|_| "the relay has ended")?;
        }
        Ok(())
    }
}
