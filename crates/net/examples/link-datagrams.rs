//! Should packets travel in sealed datagrams of our own, or in the DATAGRAM frames of QUIC (RFC 9221)?
//!
//! ```text
//! cargo run --release -p oncewire-net --example link-datagrams [-- TURNS MEGABYTES]
//! ```
//!
//! Packets of 1,400 bytes go from one task to another over loopback, on two threads. The ways take
//! turns:
//!
//! - `own`: the halves of the packet link, sealed by AES-256-GCM, with the kernel's segmentation and
//!   joining of UDP (GSO, GRO), as `oncewire link --match none` sends them;
//! - `own, single`: the same with one system call for each datagram;
//! - `quinn`: DATAGRAM frames of a connection with the same cipher and quinn's defaults, which
//!   include GSO, GRO and a congestion control around that of the packets;
//! - `quinn, flat`: the same with a congestion window that never changes.
//!
//! Prints medians: bytes of packets that arrived for each second of CPU time of the process, which
//! has both ends, and the share that arrived. Our own datagrams have no congestion control, as the
//! flows in them have theirs. Here, the sender keeps [`WINDOW`] datagrams in flight instead.

use cpu_time::ProcessTime;
use oncewire_codec::Domain;
use oncewire_session::link::{
    Batch, Delivered, HEADER, Implied, Inbound, Receiver, SEAL, Sender, TAG,
};
use quinn::congestion::{Controller, ControllerFactory};
use quinn::udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::any::Any;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of an inner packet, and of its IPv4 and UDP headers.
const PACKET: usize = 1400;
const HEADERS: usize = 28;
/// Packets that are enqueued before they are sent.
const BACKLOG: u64 = 64;
/// Datagrams in flight of our own ways when a backlog is added: both fit the default receive buffer of
/// Linux.
const WINDOW: u64 = 64;
/// IPv4's limit without its headers and UDP's.
const MOST_BYTES: usize = 65_507;
/// Bytes that one read may return.
const READ: usize = 65_536;
/// Silence after which the rest is lost.
const SILENCE: Duration = Duration::from_millis(500);
/// The congestion window of `quinn, flat`, in bytes.
const FLAT: u64 = 256 << 10;

const WAYS: [&str; 4] = ["own", "own, single", "quinn", "quinn, flat"];

/// What arrived, and what it took.
struct Outcome {
    bytes: u64,
    cpu: Duration,
}

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let turns: usize = args.next().map_or(Ok(5), |turns| turns.parse())?;
    let megabytes: u64 = args.next().map_or(Ok(500), |megabytes| megabytes.parse())?;
    let packets = megabytes * 1_000_000 / PACKET as u64;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut outcomes: [Vec<Outcome>; WAYS.len()] = Default::default();
    // The first turn warms up.
    for turn in 0..=turns {
        for (way, outcomes) in outcomes.iter_mut().enumerate() {
            let outcome = runtime.block_on(async {
                match way {
                    0 | 1 => own(packets, way == 1).await,
                    _ => quinns(packets, way == 3).await,
                }
            })?;
            if turn > 0 {
                outcomes.push(outcome);
            }
        }
    }
    let sent = (packets * PACKET as u64) as f64;
    let median = |outcomes: &[Outcome], of: fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = outcomes.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let speeds: Vec<f64> = outcomes
        .iter()
        .map(|outcomes| median(outcomes, |one| one.bytes as f64 / one.cpu.as_secs_f64()))
        .collect();
    println!("{packets} packets of {PACKET} bytes, medians of {turns} turns\n");
    println!("| way | GB per CPU second | to quinn | arrived |\n|---|---:|---:|---:|");
    for ((way, outcomes), speed) in WAYS.iter().zip(&outcomes).zip(&speeds) {
        println!(
            "| {way} | {:.2} | {:.2} | {:.1} % |",
            speed / 1e9,
            speed / speeds[2],
            100.0 * median(outcomes, |one| one.bytes as f64) / sent,
        );
    }
    Ok(())
}

/// The key that both ends of our own datagrams have.
fn key() -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("a key of 32 bytes"))
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// A socket, bound to a free port, for groups of datagrams.
fn socket() -> io::Result<(UdpSocket, UdpSocketState)> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let state = UdpSocketState::new((&socket).into())?;
    Ok((UdpSocket::from_std(socket)?, state))
}

/// What both tasks know of a transfer.
#[derive(Default)]
struct Progress {
    /// The highest counter that arrived, plus 1.
    next: AtomicU64,
    moved: Notify,
}

async fn own(packets: u64, single: bool) -> Result<Outcome, Error> {
    let begun = ProcessTime::now();
    let (to, to_state) = socket()?;
    let address = to.local_addr()?;
    let progress = Arc::new(Progress::default());
    let receiving = tokio::spawn(receive(to, to_state, packets, progress.clone()));
    send(packets, single, address, &progress).await?;
    let bytes = receiving.await??;
    Ok(Outcome { bytes, cpu: begun.elapsed() })
}

async fn send(
    packets: u64,
    single: bool,
    address: SocketAddr,
    progress: &Progress,
) -> Result<(), Error> {
    let (socket, state) = socket()?;
    let key = key();
    let content = [b'x'; PACKET];
    let (header, payload) = content.split_at(HEADERS);
    // Room for one packet in each datagram.
    let mut sender = Sender::new(PACKET + SEAL + 4);
    let mut batch = Batch::default();
    let mut sent = 0;
    while sent < packets {
        let count = BACKLOG.min(packets - sent);
        for _ in 0..count {
            sender.enqueue(Inbound {
                header,
                open_checksum: false,
                implied: Implied::Nothing,
                segment: None,
                payload,
                domain: Domain::COMMON,
            })?;
        }
        sent += count;
        sender.transmit(Instant::now(), &mut batch);
        for (counter, datagram) in batch.datagrams_mut() {
            let header = (8 | counter << 32).to_le_bytes();
            let (head, rest) = datagram.split_at_mut(HEADER);
            head.copy_from_slice(&header);
            let (records, tag) = rest.split_at_mut(rest.len() - TAG);
            let sealed = key.seal_in_place_separate_tag(nonce(counter), Aad::from(header), records);
            tag.copy_from_slice(sealed.map_err(|_| "too long to seal")?.as_ref());
        }
        let most = if single { 1 } else { state.max_gso_segments() };
        for (range, size, _) in batch.groups(most, MOST_BYTES) {
            let contents = &batch.bytes()[range];
            let transmit = Transmit {
                destination: address,
                ecn: None,
                contents,
                segment_size: (contents.len() > size).then_some(size),
                src_ip: None,
            };
            loop {
                match socket
                    .try_io(Interest::WRITABLE, || state.try_send((&socket).into(), &transmit))
                {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        socket.writable().await?;
                    }
                    result => break result?,
                }
            }
        }
        while sent.saturating_sub(progress.next.load(Relaxed)) > WINDOW {
            // What was lost at the end of a window is not waited for.
            if tokio::time::timeout(SILENCE, progress.moved.notified()).await.is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Returns the bytes of packets that arrived.
async fn receive(
    socket: UdpSocket,
    state: UdpSocketState,
    packets: u64,
    progress: Arc<Progress>,
) -> Result<u64, Error> {
    let key = key();
    let mut bytes = vec![0; READ * BATCH_SIZE];
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    let mut receiver = Receiver::default();
    let mut delivered = Delivered::with_room(0);
    loop {
        match tokio::time::timeout(SILENCE, socket.readable()).await {
            Ok(ready) => ready?,
            Err(_) => break,
        }
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] = {
            let mut chunks = bytes.chunks_mut(READ);
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()))
        };
        let read = socket
            .try_io(Interest::READABLE, || state.recv((&socket).into(), &mut slices, &mut metas));
        let count = match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            read => read?,
        };
        delivered.clear();
        for (meta, buffer) in metas.iter().zip(bytes.chunks_mut(READ)).take(count) {
            for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                let (head, sealed) =
                    datagram.split_first_chunk_mut::<HEADER>().ok_or("a short datagram")?;
                let low = u64::from_le_bytes(*head) >> 32;
                let counter = receiver.window().restore(low as u32);
                if !receiver.admits(counter) {
                    continue;
                }
                let plain = key.open_in_place(nonce(counter), Aad::from(*head), sealed);
                let plain = plain.map_err(|_| "a forged datagram")?;
                receiver.receive(counter, plain, 0, Instant::now(), &mut delivered)?;
            }
        }
        progress.next.store(receiver.window().next(), Relaxed);
        progress.moved.notify_one();
        if receiver.window().next() == packets {
            break;
        }
    }
    Ok(receiver.stats().inner_bytes)
}

/// A congestion window that never changes.
#[derive(Clone, Debug)]
struct Flat;

impl Controller for Flat {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        FLAT
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        FLAT
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for Flat {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Flat)
    }
}

async fn quinns(packets: u64, flat: bool) -> Result<Outcome, Error> {
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let chain = vec![certificate.cert.der().clone()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(chain[0].clone())?;
    let secret =
        rustls::pki_types::PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der());
    let transport = || {
        let mut transport = TransportConfig::default();
        // As long as our own datagrams, without a search for the MTU of loopback.
        transport.initial_mtu(1452).mtu_discovery_config(None);
        if flat {
            transport.congestion_controller_factory(Arc::new(Flat));
        }
        Arc::new(transport)
    };
    let mut server = ServerConfig::with_single_cert(chain, secret.into())?;
    server.transport_config(transport());
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(transport());
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(server, any)?;
    let near = Endpoint::client(any)?;
    let connecting = near.connect_with(client, server.local_addr()?, "localhost")?;
    let (to, from) = tokio::join!(
        async { Ok::<_, Error>(server.accept().await.ok_or("closed")?.await?) },
        connecting
    );
    let (to, from) = (to?, from?);
    let begun = ProcessTime::now();
    let receiving = tokio::spawn(receive_quinn(to, packets));
    for _ in 0..packets {
        // Copied once, as into a batch.
        from.send_datagram_wait(vec![b'x'; PACKET].into()).await?;
    }
    let bytes = receiving.await??;
    Ok(Outcome { bytes, cpu: begun.elapsed() })
}

async fn receive_quinn(connection: Connection, packets: u64) -> Result<u64, Error> {
    let (mut bytes, mut count) = (0, 0);
    while count < packets {
        let Ok(read) = tokio::time::timeout(SILENCE, connection.read_datagram()).await else {
            break;
        };
        bytes += read?.len() as u64;
        count += 1;
    }
    Ok(bytes)
}
