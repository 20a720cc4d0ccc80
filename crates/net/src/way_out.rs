//! The way out: from a flow that the peer has opened to a connection of our own, and reverse listeners.
//!
//! What a flow's target says, and who may say it, is in `docs/PROTOCOL.md`, section "Targets".

use crate::allow::AllowList;
use crate::driver::{Driver, FlowSignals};
use crate::listen::{Bind, Forward};
use crate::pump::{pump, write_all};
use crate::seldom::Seldom;
use crate::target::{Host, Target};
use crate::transport::{dial, keep_urgent, tune_application};
use crate::ways_in::Refusal;
use oncewire_session::{FlowId, OpenError, Read, ResetCode};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tracing::{debug, info, warn};

/// What a flow's target says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A TCP connection.
    Tcp(Target),
    /// Listen here, and open a flow for every connection.
    Listen(Bind),
    /// A connection that came in where the peer was asked to listen.
    From(Bind),
}

impl Wish {
    pub(crate) fn parse(target: &[u8]) -> Option<Wish> {
        let (kind, rest) = std::str::from_utf8(target).ok()?.split_once(':')?;
        match kind {
            "tcp" => rest.parse().ok().map(Wish::Tcp),
            "listen" => rest.parse().ok().map(Wish::Listen),
            "from" => rest.parse().ok().map(Wish::From),
            _ => None,
        }
    }

    pub(crate) fn target(&self) -> Vec<u8> {
        match self {
            Wish::Tcp(target) => format!("tcp:{target}"),
            Wish::Listen(bind) => format!("listen:{bind}"),
            Wish::From(bind) => format!("from:{bind}"),
        }
        .into_bytes()
    }
}

/// What the peer's flows may reach from here.
#[derive(Clone, Debug, Default)]
pub struct WayOut {
    /// Destinations.
    pub allow: AllowList,
    /// Where the peer may have this end listen.
    pub allow_listen: Vec<Bind>,
    /// Connections that come in where the peer listens for this end, and where they go.
    pub reverse: Vec<Forward>,
    /// How long a connection to one address may take.
    pub connect_timeout: Duration,
}

impl WayOut {
    /// Says so where no flow of a peer can ever get through.
    pub(crate) fn warn_if_closed(&self) {
        if self.allow.is_empty() && self.allow_listen.is_empty() {
            warn!("peers can reach nothing from here: name destinations with --allow host:port (or places with --allow-listen)");
        }
    }
}

pub(crate) fn reset_code(refusal: Refusal) -> ResetCode {
    match refusal {
        Refusal::NotAllowed => ResetCode::NotAllowed,
        Refusal::Refused => ResetCode::Refused,
        Refusal::Unreachable => ResetCode::Unreachable,
        Refusal::TimedOut => ResetCode::TimedOut,
        Refusal::NoSuchName => ResetCode::NoSuchName,
        Refusal::Busy => ResetCode::Busy,
        Refusal::NoSession | Refusal::Failed => ResetCode::Failed,
    }
}

pub(crate) fn refusal(code: ResetCode) -> Refusal {
    match code {
        ResetCode::NotAllowed => Refusal::NotAllowed,
        ResetCode::Refused => Refusal::Refused,
        ResetCode::Unreachable => Refusal::Unreachable,
        ResetCode::TimedOut => Refusal::TimedOut,
        ResetCode::NoSuchName => Refusal::NoSuchName,
        ResetCode::Busy => Refusal::Busy,
        ResetCode::Reset | ResetCode::Failed => Refusal::Failed,
    }
}

/// Carries out what a flow that the peer opened wishes.
pub(crate) async fn fulfil(driver: Arc<Driver>, flow: FlowId, target: Vec<u8>, way_out: Arc<WayOut>) {
    let Some(signals) = driver.signals(flow) else { return };
    let result = tokio::select! {
        result = reach(&driver, &signals, flow, &target, way_out.clone()) => result,
        // The peer does not want it any more.
        () = signals.gone.notified() => Ok(None),
    };
    match result {
        Ok(Some(stream)) => {
            driver.with(|session| session.accept(flow, Instant::now()));
            pump(&driver, flow, &signals, stream, None).await;
        }
        Ok(None) => driver.forget(flow),
        Err(refused) => {
            driver.refused_targets.fetch_add(1, Ordering::Relaxed);
            tell_of_refusal(&driver, &target, refused);
            driver.with(|session| session.reset(flow, reset_code(refused)));
            driver.forget(flow);
        }
    }
}

/// Logs that a flow was turned away.
fn tell_of_refusal(driver: &Driver, target: &[u8], refused: Refusal) {
    static NOT_ALLOWED: Seldom = Seldom::new();
    static UNREACHABLE: Seldom = Seldom::new();
    let (peer, address) = (driver.label(), driver.path().map(|path| path.address.to_string()).unwrap_or_default());
    // Logged as a value, which is quoted and escaped.
    let target = String::from_utf8_lossy(target).into_owned();
    let not_allowed = refused == Refusal::NotAllowed;
    match if not_allowed { &NOT_ALLOWED } else { &UNREACHABLE }.pass() {
        Some(left_out) if not_allowed => {
            warn!(peer, address, target, left_out, "connection refused: no --allow or --allow-listen rule admits its target");
        }
        Some(left_out) => warn!(peer, address, target, why = %refused, left_out, "cannot reach the target of a connection"),
        None => debug!(peer, address, target, %refused, "connection refused"),
    }
}

/// A connection for the flow, or `None` if it needed none.
async fn reach(
    driver: &Arc<Driver>,
    signals: &FlowSignals,
    flow: FlowId,
    target: &[u8],
    way_out: Arc<WayOut>,
) -> Result<Option<TcpStream>, Refusal> {
    let wish = Wish::parse(target).ok_or(Refusal::NotAllowed)?;
    if let Wish::Listen(bind) = wish {
        if !way_out.allow_listen.contains(&bind) {
            return Err(Refusal::NotAllowed);
        }
        let listener = listen(&bind).await.map_err(|error| {
            warn!(%bind, %error, "cannot listen for the peer");
            Refusal::Failed
        })?;
        serve_listener(driver, signals, flow, &bind, listener).await;
        return Ok(None);
    }
    let place = REACHING.acquire().await.map_err(|_| Refusal::Failed)?;
    let connect_timeout = way_out.connect_timeout;
    // A look-up goes on though nobody wants its answer any more, so flows opened and reset in turn must wait for each other: a task of
    // its own keeps the place until the look-up is over, whatever becomes of the flow.
    let found = tokio::spawn(async move { find(wish, &way_out).await.map(|addresses| (addresses, place)) });
    let (addresses, _place) = found.await.map_err(|_| Refusal::Failed)??;
    let stream = dial(&addresses, connect_timeout).await.map_err(|error| Refusal::of_connect(&error))?;
    tune_application(&stream).map_err(|_| Refusal::Failed)?;
    Ok(Some(stream))
}

/// Where a wish leads, if the rules admit it.
async fn find(wish: Wish, way_out: &WayOut) -> Result<Vec<SocketAddr>, Refusal> {
    match wish {
        Wish::Tcp(target) => way_out.allow.resolve(&target).await,
        Wish::From(bind) => {
            let forward = way_out.reverse.iter().find(|forward| forward.bind == bind).ok_or(Refusal::NotAllowed)?;
            lookup(forward.target.host(), forward.target.port()).await.map_err(|_| Refusal::NoSuchName)
        }
        Wish::Listen(_) => Err(Refusal::Failed),
    }
}

/// Look-ups of names and attempts to connect that may be under way at once, all peers together.
static REACHING: Semaphore = Semaphore::const_new(256);

/// Accepts connections for the peer until it ends the flow that asked for it.
async fn serve_listener(driver: &Arc<Driver>, signals: &FlowSignals, flow: FlowId, bind: &Bind, listener: TcpListener) {
    let _listening = driver.listening();
    driver.with(|session| session.accept(flow, Instant::now()));
    let bound = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
    info!(%bound, "listening for the peer");
    if !write_all(driver, flow, signals, format!("{bound}\n").as_bytes()).await {
        return;
    }
    let target = Wish::From(bind.clone()).target();
    let accept = async {
        loop {
            let stream = accept(&listener).await;
            let (driver, target) = (driver.clone(), target.clone());
            tokio::spawn(async move {
                match driver.open_soon(&target).await {
                    Ok((flow, signals)) => pump(&driver, flow, &signals, stream, None).await,
                    Err(error) => tell_of_no_flow(&error, driver.label()),
                }
            });
        }
    };
    let ended = async {
        loop {
            match driver.with(|session| session.read(flow)) {
                Some(Read::Nothing) => signals.readable.notified().await,
                // Nothing is expected; whatever comes is not kept.
                Some(Read::Data(chunk)) => {
                    driver.with(|session| session.consumed(flow, chunk.len(), Instant::now()));
                }
                Some(Read::Finished | Read::Gone) | None => return,
            }
        }
    };
    tokio::pin!(ended);
    let has_ended = tokio::select! {
        () = accept => false,
        () = &mut ended => true,
        () = driver.listeners_closed() => false,
    };
    drop(listener);
    driver.with(|session| session.finish(flow));
    if !has_ended {
        ended.await;
    }
}

/// Logs that an application's connection could not be carried.
pub(crate) fn tell_of_no_flow(error: &OpenError, peer: &str) {
    static REFUSED: Seldom = Seldom::new();
    match REFUSED.pass() {
        Some(left_out) => warn!(peer, %error, left_out, "connection refused"),
        None => debug!(peer, %error, "connection refused"),
    }
}

/// The next connection, whatever happens in between: out of descriptors, it waits for some to come back.
pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // One that is gone already fails when it is read.
                let _ = tune_application(&stream);
                return stream;
            }
            Err(error) => {
                if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
                    warn!(%error, "cannot accept connections; trying again");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

pub(crate) async fn lookup(host: &Host, port: u16) -> io::Result<Vec<SocketAddr>> {
    match host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, port)]),
        Host::Name(name) => Ok(tokio::net::lookup_host((name.as_str(), port)).await?.collect()),
    }
}

/// Listens where `bind` says.
pub(crate) async fn listen(bind: &Bind) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in lookup(&bind.host, bind.port).await? {
        match listen_at(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connections that the system may hold until they are accepted, if it lets us: a thousand at once must not be told to try again in a second.
const BACKLOG: u32 = 4096;

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart takes the port over while connections of the process before linger.
    socket.set_reuseaddr(true)?;
    keep_urgent(socket2::SockRef::from(&socket));
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_read_as_written_and_nothing_else_does() {
        for wish in [
            Wish::Tcp("origin.example:80".parse().unwrap()),
            Wish::Tcp("[2001:db8::1]:443".parse().unwrap()),
            Wish::Listen("127.0.0.1:9000".parse().unwrap()),
            Wish::From("[::1]:9000".parse().unwrap()),
        ] {
            assert_eq!(Wish::parse(&wish.target()), Some(wish));
        }
        for bad in [&b"udp:origin:53"[..], b"tcp:", b"tcp:origin", b"", b"tcp:a b:80", b"\xff", b"listen:x:70000"] {
            assert_eq!(Wish::parse(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }
}
