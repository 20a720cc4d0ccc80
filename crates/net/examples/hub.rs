//! A hub with many peers: memory while they rest, and how it divides its work while some transfer.
//!
//! ```text
//! cargo run --release -p oncewire-net --example hub -- PROGRAM [PEERS [BUSY [SECONDS [MEMORY]]]]
//! ```
//!
//! Starts `PROGRAM serve` with `MEMORY` (1G), and 500 peers in this process. Each transfers 300 kB
//! twice, and rests. Then 20 of them download content that never repeats, at once, for 10 seconds.
//! Hub, peers and origin share this machine.

use oncewire_net::keys::{AuthorizedPeers, Peer, PublicKey, SecretKey};
use oncewire_net::{ConnectConfig, Connection, Endpoint, connect};
use oncewire_testkit::content::incompressible;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Bytes of a peer's first transfers.
const FIRST: u32 = 300_000;

/// Ends the hub with the program.
struct Hub {
    process: Child,
    address: SocketAddr,
    key: PublicKey,
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Hub {
    fn start(program: &str, peers: &[SecretKey], memory: &str, origin: SocketAddr) -> Result<Hub> {
        let directory = tempfile::tempdir()?;
        let (key, list) = (directory.path().join("hub.key"), directory.path().join("peers"));
        let secret = SecretKey::generate()?;
        secret.save(&key)?;
        let lines = peers.iter().map(|peer| format!("{}\n", peer.public()));
        fs::write(&list, lines.collect::<String>())?;
        let mut process = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "info", "--memory", memory])
            .arg("--key")
            .arg(&key)
            .arg("--authorized-peers")
            .arg(&list)
            .args(["--allow", &origin.to_string()])
            .stderr(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(process.stderr.take().ok_or("no log")?).lines();
        let address = loop {
            let line = lines.next().ok_or("the hub does not listen")??;
            let found = line.split_whitespace().find_map(|field| field.strip_prefix("address="));
            if let Some(address) = found {
                break address.parse()?;
            }
        };
        // What it says must not fill the pipe.
        std::thread::spawn(move || lines.map_while(|line| line.ok()).for_each(drop));
        Ok(Hub { process, address, key: secret.public() })
    }

    /// Resident memory in bytes, and CPU time used so far.
    fn cost(&self) -> Result<(u64, Duration)> {
        let of = format!("/proc/{}", self.process.id());
        let status = fs::read_to_string(format!("{of}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes =
            resident.and_then(|text| text.trim().strip_suffix(" kB")).ok_or("no VmRSS")?;
        let stat = fs::read_to_string(format!("{of}/stat"))?;
        let fields: Vec<&str> =
            stat.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok((kilobytes.trim().parse::<u64>()? * 1024, Duration::from_millis(ticks * 10)))
    }
}

/// Sends as many bytes as asked for, by a seed and a length of four bytes each.
async fn origin() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (seed, len) = (stream.read_u32().await?, stream.read_u32().await?);
                for part in 0..len.div_ceil(1 << 20) {
                    let left = (len - (part << 20)).min(1 << 20);
                    let seed = u64::from(seed) << 32 | u64::from(part);
                    stream.write_all(&incompressible(seed, left as usize)).await?;
                }
                stream.shutdown().await
            });
        }
    });
    Ok(address)
}

/// Downloads for at most as long as given. Returns the bytes.
async fn fetch(peer: &Connection, seed: u32, len: u32, limit: Duration) -> Result<u64> {
    let mut stream = TcpStream::connect(peer.addresses()[0]).await?;
    stream.write_all(&[seed.to_be_bytes(), len.to_be_bytes()].concat()).await?;
    let (mut got, mut buffer) = (0, vec![0; 256 << 10]);
    let read = async {
        loop {
            match stream.read(&mut buffer).await? {
                0 => return std::io::Result::Ok(()),
                len => got += len as u64,
            }
        }
    };
    if let Ok(ended) = tokio::time::timeout(limit, read).await {
        ended?;
    }
    Ok(got)
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let program = args.next().ok_or("hub PROGRAM [PEERS [BUSY [SECONDS [MEMORY]]]]")?;
    let peers: usize = args.next().map_or(Ok(500), |peers| peers.parse())?;
    let busy: usize = args.next().map_or(Ok(20), |busy| busy.parse())?;
    let seconds: u64 = args.next().map_or(Ok(10), |seconds| seconds.parse())?;
    let memory = args.next().unwrap_or_else(|| "1G".into());

    let keys =
        (0..peers).map(|_| SecretKey::generate()).collect::<std::result::Result<Vec<_>, _>>()?;
    let origin = origin().await?;
    let hub = Hub::start(&program, &keys, &memory, origin)?;
    println!("hub alone: {:.1} MB resident", mb(hub.cost()?.0));

    let mut clients = Vec::new();
    for secret in keys {
        let trusted = AuthorizedPeers::new([Peer::from(hub.key)]);
        let client = connect(ConnectConfig {
            forwards: vec![format!("127.0.0.1:0:{origin}").parse()?],
            ..ConnectConfig::new(
                Endpoint { memory: 64 << 20, ..Endpoint::new(secret, trusted) },
                hub.address.to_string().parse()?,
            )
        })
        .await?;
        client.established(Duration::from_secs(30)).await?;
        clients.push(client);
    }
    println!("{peers} connected: {:.1} MB", mb(hub.cost()?.0));

    let whole = Duration::from_secs(60);
    for (seed, client) in (0..).zip(&clients) {
        for _ in 0..2 {
            let got = fetch(client, seed, FIRST, whole).await?;
            if got != u64::from(FIRST) {
                return Err(format!("peer {seed} got {got} bytes").into());
            }
        }
    }
    println!("{peers} after their first transfers: {:.1} MB", mb(hub.cost()?.0));
    let before = hub.cost()?.1;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (resident, cpu) = hub.cost()?;
    let idle = (cpu - before).as_secs_f64() / seconds as f64;
    println!("{peers} at rest: {:.1} MB, {:.2} % of a core", mb(resident), 100.0 * idle);

    let begun = Instant::now();
    let limit = Duration::from_secs(seconds);
    let mut tasks = tokio::task::JoinSet::new();
    for (seed, client) in (1 << 20..).zip(clients.iter().take(busy).cloned()) {
        tasks.spawn(async move { fetch(&client, seed, 2_000_000_000, limit).await });
    }
    let mut got = Vec::new();
    while let Some(bytes) = tasks.join_next().await {
        got.push(bytes??);
    }
    got.sort_unstable();
    let (all, (resident, cpu_then)) = (got.iter().sum::<u64>(), hub.cost()?);
    let mean = all as f64 / busy.max(1) as f64;
    let share = |bytes: Option<&u64>| 100.0 * bytes.map_or(0.0, |&bytes| bytes as f64 / mean);
    println!(
        "{busy} of them download for {:.1} s: {:.1} MB/s in all; least {:.0} %, most {:.0} % of an equal share; hub {:.1} MB, {:.0} % of a core",
        begun.elapsed().as_secs_f64(),
        mb(all) / begun.elapsed().as_secs_f64(),
        share(got.first()),
        share(got.last()),
        mb(resident),
        100.0 * (cpu_then - cpu).as_secs_f64() / begun.elapsed().as_secs_f64(),
    );
    Ok(())
}
