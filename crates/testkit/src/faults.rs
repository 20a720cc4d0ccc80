//! A TCP proxy on loopback that does what bad networks and bad peers do, when told to.
//!
//! Faults counted in bytes are exact: they happen at that byte whatever the timing. Offsets and counts are per direction, over all
//! connections; with several connections at once, which one meets the fault depends on who sends first.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Chunks that wait in one direction of one connection: with [`CHUNK`], 1 MiB.
const CHUNKS: usize = 16;
/// Bytes of each direction that [`FaultProxy::replay`] can reach back: 1 MiB.
pub const HISTORY: usize = 1 << 20;

/// A direction through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the upstream server.
    Up,
    /// From the upstream server to the client.
    Down,
}

/// Both, for loops.
pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

/// What lets bytes pass.
#[derive(Clone, Copy, Debug, Default)]
struct Gates {
    cut: bool,
    stalled: [bool; 2],
}

impl Gates {
    fn open(&self, direction: Direction) -> bool {
        !self.cut && !self.stalled[direction as usize]
    }
}

/// Faults and past of one direction.
#[derive(Debug, Default)]
struct Flow {
    delay: Duration,
    bytes_per_s: Option<u64>,
    /// Bytes that have been given their fate: the offset of the next.
    offset: u64,
    corruptions: Vec<(u64, u8)>,
    truncate_at: Option<u64>,
    duplicate: usize,
    history: VecDeque<u8>,
}

/// What a writer does next.
struct Step {
    bytes: Vec<u8>,
    /// How many of the chunk's bytes are done with.
    taken: usize,
    pause: Duration,
    close: bool,
}

impl Flow {
    fn step(&mut self, chunk: &[u8]) -> Step {
        let mut taken = chunk.len();
        let mut pause = Duration::ZERO;
        if let Some(rate) = self.bytes_per_s {
            // Fifty pieces a second, or single bytes.
            taken = taken.min((rate / 50).max(1) as usize);
            pause = Duration::from_secs_f64(taken as f64 / rate.max(1) as f64);
        }
        let mut close = false;
        if let Some(at) = self.truncate_at {
            taken = taken.min(at.saturating_sub(self.offset) as usize);
            close = self.offset + taken as u64 >= at;
        }
        let mut bytes = chunk[..taken].to_vec();
        let (start, end) = (self.offset, self.offset + taken as u64);
        self.corruptions.retain(|&(at, xor)| {
            let here = (start..end).contains(&at);
            if here {
                bytes[(at - start) as usize] ^= xor;
            }
            !here
        });
        self.history.extend(&chunk[..taken]);
        let excess = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..excess);
        self.offset = end;
        if self.duplicate > 0 && taken > 0 {
            let again = bytes[..taken.min(self.duplicate)].to_vec();
            bytes.splice(again.len()..again.len(), again.iter().copied());
            self.duplicate = 0;
        }
        if close {
            self.truncate_at = None;
        }
        Step { bytes, taken, pause, close }
    }

    fn past(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let oldest = self.offset - self.history.len() as u64;
        if range.start < oldest || range.end > self.offset || range.start > range.end {
            return None;
        }
        Some(self.history.range((range.start - oldest) as usize..(range.end - oldest) as usize).copied().collect())
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Reset,
}

struct Connection {
    id: u64,
    end: watch::Sender<Option<End>>,
    inject: [mpsc::Sender<Vec<u8>>; 2],
}

struct Shared {
    upstream: SocketAddr,
    gates: watch::Sender<Gates>,
    flows: [Mutex<Flow>; 2],
    bytes: [AtomicU64; 2],
    accepted: AtomicU64,
    connections: Mutex<Vec<Connection>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The acceptor. Its fields drop in this order: who waits for `_gone` knows that the port is closed.
struct Acceptor {
    listener: TcpListener,
    _gone: std::sync::mpsc::Sender<()>,
}

struct Listening {
    task: tokio::task::JoinHandle<()>,
    gone: std::sync::mpsc::Receiver<()>,
}

/// The proxy. Dropping it closes its port and its connections. It runs on its own thread, so that any test may use it, async or
/// not. A control has taken effect when its call returns, except for bytes that were already handed to the system.
pub struct FaultProxy {
    shared: Arc<Shared>,
    addr: SocketAddr,
    listening: Mutex<Option<Listening>>,
    runtime: Option<Runtime>,
}

impl FaultProxy {
    /// Listens on a port of 127.0.0.1 and forwards each connection to `upstream`, at first without faults.
    ///
    /// # Errors
    /// What the system said when no thread or port could be had.
    pub fn start(upstream: SocketAddr) -> io::Result<FaultProxy> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("faults").enable_all().build()?;
        let shared = Arc::new(Shared {
            upstream,
            gates: watch::Sender::new(Gates::default()),
            flows: Default::default(),
            bytes: Default::default(),
            accepted: AtomicU64::new(0),
            connections: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let proxy = FaultProxy { shared, addr, listening: Mutex::new(None), runtime: Some(runtime) };
        proxy.listen(listener)?;
        Ok(proxy)
    }

    fn listen(&self, listener: std::net::TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let _entered = runtime.enter();
        let (gone_sender, gone) = std::sync::mpsc::channel();
        let acceptor = Acceptor { listener: TcpListener::from_std(listener)?, _gone: gone_sender };
        let task = runtime.spawn(accept(acceptor, self.shared.clone()));
        *lock(&self.listening) = Some(Listening { task, gone });
        Ok(())
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// A black hole: connections stay open and nothing moves, not even their end; new ones are accepted and hang.
    pub fn cut(&self) {
        self.shared.gates.send_modify(|gates| gates.cut = true);
    }

    /// Ends [`FaultProxy::cut`] and [`FaultProxy::stall`]. What waited goes on.
    pub fn mend(&self) {
        self.shared.gates.send_replace(Gates::default());
    }

    /// Stops one direction until [`FaultProxy::mend`]; the sender's buffers fill, up to 1 MiB here besides the system's.
    pub fn stall(&self, direction: Direction) {
        self.shared.gates.send_modify(|gates| gates.stalled[direction as usize] = true);
    }

    /// Resets (RST) the connections that are open now, to both sides.
    pub fn reset_all(&self) {
        self.end_all(End::Reset);
    }

    /// Closes (FIN) the connections that are open now, to both sides; bytes under way are dropped.
    pub fn close_all(&self) {
        self.end_all(End::Close);
    }

    fn end_all(&self, end: End) {
        for connection in lock(&self.shared.connections).iter() {
            connection.end.send_replace(Some(end));
        }
    }

    /// While true, new connections are refused: nothing listens. Open ones stay.
    ///
    /// # Errors
    /// On the way back, when another process has taken the port.
    pub fn refuse(&self, refuse: bool) -> io::Result<()> {
        let listening = lock(&self.listening).take();
        match (listening, refuse) {
            (Some(listening), true) => {
                listening.task.abort();
                // Nothing is ever sent: this waits until the acceptor is dropped.
                let _ = listening.gone.recv();
                Ok(())
            }
            (None, false) => self.listen(std::net::TcpListener::bind(self.addr)?),
            (unchanged, _) => {
                *lock(&self.listening) = unchanged;
                Ok(())
            }
        }
    }

    /// Holds bytes of both directions for this long. At most 1 MiB per direction and connection is held, then the sender waits.
    pub fn delay(&self, delay: Duration) {
        for direction in BOTH {
            self.flow(direction).delay = delay;
        }
    }

    /// Limits each connection's rate in both directions; nothing is unlimited, 0 counts as 1.
    pub fn throttle(&self, bytes_per_s: Option<u64>) {
        for direction in BOTH {
            self.flow(direction).bytes_per_s = bytes_per_s;
        }
    }

    /// Changes one byte once: the `n`-th from now (0 is the next) of the direction is XORed with `xor`. Several may be pending.
    pub fn corrupt_after(&self, direction: Direction, n: u64, xor: u8) {
        let mut flow = self.flow(direction);
        let at = flow.offset + n;
        flow.corruptions.push((at, xor));
    }

    /// Delivers `n` more bytes of the direction, then closes (FIN, both sides) the connection they were on, once. With 0 the
    /// connection that sends next is closed and its bytes are dropped.
    pub fn truncate_after(&self, direction: Direction, n: u64) {
        let mut flow = self.flow(direction);
        flow.truncate_at = Some(flow.offset + n);
    }

    /// Sends bytes of the past again, on the newest connection, as they first came (before corruption). `range` counts from the
    /// first byte of the direction, over all connections; at most the last [`HISTORY`] bytes are there. False when they are not, when no
    /// connection is open, or when 16 replays are waiting already.
    pub fn replay(&self, direction: Direction, range: Range<u64>) -> bool {
        let Some(bytes) = self.flow(direction).past(range) else { return false };
        let connections = lock(&self.shared.connections);
        connections.last().is_some_and(|newest| newest.inject[direction as usize].try_send(bytes).is_ok())
    }

    /// Sends the next bytes of the direction twice, once: as many as come together, at most `n`.
    pub fn duplicate(&self, direction: Direction, n: usize) {
        self.flow(direction).duplicate = n;
    }

    /// Bytes that have gone up to the server, replayed and duplicated ones not counted.
    pub fn bytes_up(&self) -> u64 {
        self.shared.bytes[Direction::Up as usize].load(Ordering::SeqCst)
    }

    /// Bytes that have come down to clients, replayed and duplicated ones not counted.
    pub fn bytes_down(&self) -> u64 {
        self.shared.bytes[Direction::Down as usize].load(Ordering::SeqCst)
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Connections open now.
    pub fn open_connections(&self) -> usize {
        lock(&self.shared.connections).len()
    }

    fn flow(&self, direction: Direction) -> MutexGuard<'_, Flow> {
        lock(&self.shared.flows[direction as usize])
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Not a plain drop: a test that is async itself may not block here.
            runtime.shutdown_background();
        }
    }
}

async fn accept(acceptor: Acceptor, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = acceptor.listener.accept().await else {
            // Out of descriptors, most likely: some may be free soon.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let id = shared.accepted.fetch_add(1, Ordering::SeqCst);
        let (end, ended) = watch::channel(None);
        let (inject_up, injected_up) = mpsc::channel(CHUNKS);
        let (inject_down, injected_down) = mpsc::channel(CHUNKS);
        lock(&shared.connections).push(Connection { id, end, inject: [inject_up, inject_down] });
        let shared = shared.clone();
        tokio::spawn(async move {
            serve(&shared, client, ended, [injected_up, injected_down]).await;
            lock(&shared.connections).retain(|connection| connection.id != id);
        });
    }
}

async fn serve(
    shared: &Shared,
    client: TcpStream,
    mut ended: watch::Receiver<Option<End>>,
    [injected_up, injected_down]: [mpsc::Receiver<Vec<u8>>; 2],
) {
    let mut gates = shared.gates.subscribe();
    let connecting = async {
        // The proxy's gates outlive its connections: an error cannot happen.
        let _ = gates.wait_for(|gates| !gates.cut).await;
        TcpStream::connect(shared.upstream).await
    };
    let server = tokio::select! {
        end = told(&mut ended) => return finish(end, &[&client]).await,
        server = connecting => match server {
            Ok(server) => server,
            Err(_) => return finish(End::Reset, &[&client]).await,
        },
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let end = tokio::select! {
        end = told(&mut ended) => Some(end),
        end = async {
            tokio::try_join!(
                carry(shared, Direction::Up, &client, &server, injected_up),
                carry(shared, Direction::Down, &server, &client, injected_down),
            ).err()
        } => end,
    };
    if let Some(end) = end {
        finish(end, &[&client, &server]).await;
    }
}

async fn told(ended: &mut watch::Receiver<Option<End>>) -> End {
    match ended.wait_for(Option::is_some).await {
        Ok(end) => end.unwrap_or(End::Close),
        Err(_) => End::Close,
    }
}

async fn finish(end: End, sockets: &[&TcpStream]) {
    for socket in sockets {
        let socket = socket2::SockRef::from(socket);
        // Errors mean that the peer was faster.
        let _ = match end {
            End::Reset => socket.set_linger(Some(Duration::ZERO)),
            End::Close => socket.shutdown(std::net::Shutdown::Write),
        };
    }
    if end == End::Close {
        // Closing a socket with unread bytes would reset it.
        for socket in sockets {
            let _ = timeout(Duration::from_secs(1), async {
                let mut buffer = vec![0; CHUNK];
                while read(socket, &mut buffer).await.is_ok_and(|n| n > 0) {}
            })
            .await;
        }
    }
}

async fn read(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        socket.readable().await?;
        match socket.try_read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

async fn write_all(socket: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        socket.writable().await?;
        match socket.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Moves one direction of a connection until its sender has finished.
async fn carry(
    shared: &Shared,
    direction: Direction,
    from: &TcpStream,
    to: &TcpStream,
    mut injected: mpsc::Receiver<Vec<u8>>,
) -> Result<(), End> {
    let (sender, mut receiver) = mpsc::channel::<(Instant, io::Result<Vec<u8>>)>(CHUNKS);
    let flow = &shared.flows[direction as usize];
    let reading = async move {
        let mut buffer = vec![0; CHUNK];
        loop {
            let result = read(from, &mut buffer).await.map(|n| buffer[..n].to_vec());
            let last = !matches!(&result, Ok(bytes) if !bytes.is_empty());
            let due = Instant::now() + lock(flow).delay;
            if sender.send((due, result)).await.is_err() || last {
                return Ok(());
            }
        }
    };
    let writing = async {
        let mut gates = shared.gates.subscribe();
        loop {
            let (due, chunk) = tokio::select! {
                chunk = receiver.recv() => match chunk {
                    Some(chunk) => chunk,
                    None => return Ok(()),
                },
                Some(bytes) = injected.recv() => {
                    let _ = gates.wait_for(|gates| gates.open(direction)).await;
                    write_all(to, &bytes).await.map_err(|_| End::Reset)?;
                    continue;
                }
            };
            sleep_until(due).await;
            let _ = gates.wait_for(|gates| gates.open(direction)).await;
            let chunk = chunk.map_err(|_| End::Reset)?;
            if chunk.is_empty() {
                let _ = socket2::SockRef::from(to).shutdown(std::net::Shutdown::Write);
                return Ok(());
            }
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let _ = gates.wait_for(|gates| gates.open(direction)).await;
                let step = lock(flow).step(rest);
                write_all(to, &step.bytes).await.map_err(|_| End::Reset)?;
                shared.bytes[direction as usize].fetch_add(step.taken as u64, Ordering::SeqCst);
                if step.close {
                    return Err(End::Close);
                }
                rest = &rest[step.taken..];
                if !step.pause.is_zero() {
                    sleep(step.pause).await;
                }
            }
        }
    };
    tokio::try_join!(reading, writing).map(|_| ())
}
