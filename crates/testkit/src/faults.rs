//! A TCP proxy on loopback that injects the faults of bad networks and bad peers.
//!
//! Faults at a byte offset are exact, whatever the timing. Offsets and counts are per direction,
//! over all connections. With several connections at once, timing decides which one meets the
//! fault.

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

/// Largest read, in bytes.
const CHUNK: usize = 64 << 10;
/// Chunks queued per direction of a connection: with [`CHUNK`], 1 MiB.
const CHUNKS: usize = 16;
/// Bytes per direction that [`FaultProxy::replay`] can send again: 1 MiB.
pub const HISTORY: usize = 1 << 20;

/// A direction through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the upstream server.
    Up,
    /// From the upstream server to the client.
    Down,
}

/// Both directions.
pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

/// Conditions under which bytes pass.
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

/// Pending faults and history of one direction.
#[derive(Debug, Default)]
struct Flow {
    delay: Duration,
    bytes_per_s: Option<u64>,
    /// Offset of the next byte to be processed.
    offset: u64,
    corruptions: Vec<(u64, u8)>,
    truncate_at: Option<u64>,
    duplicate: usize,
    history: VecDeque<u8>,
}

/// The next action of a writer.
struct Action {
    bytes: Vec<u8>,
    /// Bytes of the chunk that it uses up.
    consumed: usize,
    pause: Duration,
    close: bool,
}

impl Flow {
    fn next_action(&mut self, chunk: &[u8]) -> Action {
        let mut consumed = chunk.len();
        let mut pause = Duration::ZERO;
        if let Some(rate) = self.bytes_per_s {
            // Fifty pieces a second, or single bytes.
            consumed = consumed.min((rate / 50).max(1) as usize);
            pause = Duration::from_secs_f64(consumed as f64 / rate.max(1) as f64);
        }
        let mut close = false;
        if let Some(at) = self.truncate_at {
            consumed = consumed.min(at.saturating_sub(self.offset) as usize);
            close = self.offset + consumed as u64 >= at;
        }
        let mut bytes = chunk[..consumed].to_vec();
        let (start, end) = (self.offset, self.offset + consumed as u64);
        self.corruptions.retain(|&(at, xor)| {
            let here = (start..end).contains(&at);
            if here {
                bytes[(at - start) as usize] ^= xor;
            }
            !here
        });
        self.history.extend(&chunk[..consumed]);
        let excess = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..excess);
        self.offset = end;
        if self.duplicate > 0 && consumed > 0 {
            let again = bytes[..consumed.min(self.duplicate)].to_vec();
            bytes.splice(again.len()..again.len(), again.iter().copied());
            self.duplicate = 0;
        }
        if close {
            self.truncate_at = None;
        }
        Action { bytes, consumed, pause, close }
    }

    /// Bytes sent before, or `None` if the history does not have them.
    fn past(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let oldest = self.offset - self.history.len() as u64;
        if range.start < oldest || range.end > self.offset || range.start > range.end {
            return None;
        }
        Some(
            self.history
                .range((range.start - oldest) as usize..(range.end - oldest) as usize)
                .copied()
                .collect(),
        )
    }
}

/// How the proxy closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    Close,
    Reset,
}

struct Connection {
    id: u64,
    end: watch::Sender<Option<Closing>>,
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

/// Fields drop in this order, so the port is closed when `_gone` is.
struct Acceptor {
    listener: TcpListener,
    _gone: std::sync::mpsc::Sender<()>,
}

struct Listening {
    task: tokio::task::JoinHandle<()>,
    gone: std::sync::mpsc::Receiver<()>,
}

/// The proxy. Dropping it closes its port and connections. It runs on a separate thread, so that
/// blocking and async tests can use it. A control has taken effect when its call returns, except on
/// bytes already passed to the kernel.
pub struct FaultProxy {
    shared: Arc<Shared>,
    addr: SocketAddr,
    listening: Mutex<Option<Listening>>,
    runtime: Option<Runtime>,
}

impl FaultProxy {
    /// Listens on a port of 127.0.0.1 and forwards each connection to `upstream`, without faults.
    ///
    /// # Errors
    /// The system's error if no thread or port is available.
    pub fn start(upstream: SocketAddr) -> io::Result<FaultProxy> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("faults")
            .enable_all()
            .build()?;
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
        let proxy =
            FaultProxy { shared, addr, listening: Mutex::new(None), runtime: Some(runtime) };
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

    /// The address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Makes a black hole: connections stay open, but no bytes, FINs or RSTs pass. New connections
    /// are accepted and hang.
    pub fn cut(&self) {
        self.shared.gates.send_modify(|gates| gates.cut = true);
    }

    /// Ends [`FaultProxy::cut`] and [`FaultProxy::stall`]. Queued bytes are delivered.
    pub fn mend(&self) {
        self.shared.gates.send_replace(Gates::default());
    }

    /// Stops one direction until [`FaultProxy::mend`]. The sender can fill 1 MiB here, in addition
    /// to the kernel's buffers.
    pub fn stall(&self, direction: Direction) {
        self.shared.gates.send_modify(|gates| gates.stalled[direction as usize] = true);
    }

    /// Resets (RST) all open connections, on both sides.
    pub fn reset_all(&self) {
        self.end_all(Closing::Reset);
    }

    /// Closes (FIN) all open connections, on both sides. Bytes in flight are dropped.
    pub fn close_all(&self) {
        self.end_all(Closing::Close);
    }

    fn end_all(&self, end: Closing) {
        for connection in lock(&self.shared.connections).iter() {
            connection.end.send_replace(Some(end));
        }
    }

    /// While true, the port is closed and new connections are refused. Open connections stay.
    ///
    /// # Errors
    /// When the port is opened again and another process has taken it.
    pub fn refuse(&self, refuse: bool) -> io::Result<()> {
        let listening = lock(&self.listening).take();
        match (listening, refuse) {
            (Some(listening), true) => {
                listening.task.abort();
                // Nothing is ever sent: this returns when the acceptor is dropped.
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

    /// Delays the bytes of both directions. Holds at most 1 MiB per direction and connection; then
    /// the sender waits.
    pub fn delay(&self, delay: Duration) {
        for direction in BOTH {
            self.flow(direction).delay = delay;
        }
    }

    /// Limits the rate of each connection in both directions, in bytes per second. `None` is
    /// unlimited, 0 counts as 1.
    pub fn throttle(&self, bytes_per_s: Option<u64>) {
        for direction in BOTH {
            self.flow(direction).bytes_per_s = bytes_per_s;
        }
    }

    /// Corrupts one byte: the `n`-th from now (0 is the next) of the direction is XORed with `xor`.
    /// Several may be pending.
    pub fn corrupt_after(&self, direction: Direction, n: u64, xor: u8) {
        let mut flow = self.flow(direction);
        let at = flow.offset + n;
        flow.corruptions.push((at, xor));
    }

    /// Delivers `n` more bytes of the direction, then closes (FIN, both sides) the connection that
    /// carried the last of them. With 0 it closes the connection that sends next, and drops its
    /// bytes. Works once.
    pub fn truncate_after(&self, direction: Direction, n: u64) {
        let mut flow = self.flow(direction);
        flow.truncate_at = Some(flow.offset + n);
    }

    /// Sends earlier bytes again on the newest connection, as they were before corruption. `range`
    /// counts from the first byte of the direction, over all connections. Returns false if the
    /// bytes are not among the last [`HISTORY`], if no connection is open, or if 16 replays are
    /// pending.
    pub fn replay(&self, direction: Direction, range: Range<u64>) -> bool {
        let Some(bytes) = self.flow(direction).past(range) else { return false };
        let connections = lock(&self.shared.connections);
        connections
            .last()
            .is_some_and(|newest| newest.inject[direction as usize].try_send(bytes).is_ok())
    }

    /// Sends the next bytes of the direction twice: those of one read, at most `n`. Works once.
    pub fn duplicate(&self, direction: Direction, n: usize) {
        self.flow(direction).duplicate = n;
    }

    /// Bytes forwarded to the server, without replayed and duplicated ones.
    pub fn bytes_up(&self) -> u64 {
        self.shared.bytes[Direction::Up as usize].load(Ordering::SeqCst)
    }

    /// Bytes forwarded to clients, without replayed and duplicated ones.
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
            // A plain drop would block, which panics in an async test.
            runtime.shutdown_background();
        }
    }
}

async fn accept(acceptor: Acceptor, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = acceptor.listener.accept().await else {
            // Most likely out of descriptors.
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
    mut ended: watch::Receiver<Option<Closing>>,
    [injected_up, injected_down]: [mpsc::Receiver<Vec<u8>>; 2],
) {
    let mut gates = shared.gates.subscribe();
    let connecting = async {
        // Cannot fail: the proxy's gates outlive its connections.
        let _ = gates.wait_for(|gates| !gates.cut).await;
        TcpStream::connect(shared.upstream).await
    };
    let server = tokio::select! {
        end = close_requested(&mut ended) => return finish(end, &[&client]).await,
        server = connecting => match server {
            Ok(server) => server,
            Err(_) => return finish(Closing::Reset, &[&client]).await,
        },
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let end = tokio::select! {
        end = close_requested(&mut ended) => Some(end),
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

async fn close_requested(ended: &mut watch::Receiver<Option<Closing>>) -> Closing {
    match ended.wait_for(Option::is_some).await {
        Ok(end) => end.unwrap_or(Closing::Close),
        Err(_) => Closing::Close,
    }
}

async fn finish(end: Closing, sockets: &[&TcpStream]) {
    for socket in sockets {
        let socket = socket2::SockRef::from(socket);
        // Fails if the peer has closed already.
        let _ = match end {
            Closing::Reset => socket.set_linger(Some(Duration::ZERO)),
            Closing::Close => socket.shutdown(std::net::Shutdown::Write),
        };
    }
    if end == Closing::Close {
        // Closing a socket with unread bytes would send RST.
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

/// Forwards one direction of a connection until the sender closes it.
async fn carry(
    shared: &Shared,
    direction: Direction,
    from: &TcpStream,
    to: &TcpStream,
    mut injected: mpsc::Receiver<Vec<u8>>,
) -> Result<(), Closing> {
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
                    write_all(to, &bytes).await.map_err(|_| Closing::Reset)?;
                    continue;
                }
            };
            sleep_until(due).await;
            let _ = gates.wait_for(|gates| gates.open(direction)).await;
            let chunk = chunk.map_err(|_| Closing::Reset)?;
            if chunk.is_empty() {
                let _ = socket2::SockRef::from(to).shutdown(std::net::Shutdown::Write);
                return Ok(());
            }
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let _ = gates.wait_for(|gates| gates.open(direction)).await;
                let action = lock(flow).next_action(rest);
                // Counted first: a test that has its answer reads the count at once.
                shared.bytes[direction as usize]
                    .fetch_add(action.consumed as u64, Ordering::SeqCst);
                write_all(to, &action.bytes).await.map_err(|_| Closing::Reset)?;
                if action.close {
                    return Err(Closing::Close);
                }
                rest = &rest[action.consumed..];
                if !action.pause.is_zero() {
                    sleep(action.pause).await;
                }
            }
        }
    };
    tokio::try_join!(reading, writing).map(|_| ())
}
