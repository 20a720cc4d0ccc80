//! TCP sockets: their options, listening, and connecting to one of a name's addresses.

use crate::listener::Bind;
#[cfg(unix)]
use crate::service;
use crate::target::Host;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tracing::warn;

/// Unsent bytes that TCP may hold on a lane. Small flows cannot overtake what the session has
/// encoded, so this is short. With less than a few of the largest frames the socket would run dry
/// between two of them.
const NOT_SENT: u32 = 256 << 10;
/// Idle time after which TCP probes the other end of a connection.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Delay before the next address is tried while earlier ones have not answered (RFC 8305 section 5,
/// Connection Attempt Delay).
const NEXT_ATTEMPT: Duration = Duration::from_millis(250);
/// Most addresses of a name that are tried.
pub(crate) const MAX_ADDRESSES: usize = 16;
/// Connections that the system may queue until they are accepted, if it allows so many. Clients
/// that find a full queue retry only after a second.
const BACKLOG: u32 = 4096;

/// Sets the options of a TCP connection that carries a lane. Buffer sizes are left to the system's
/// auto-tuning, which suits long fat paths better than any fixed size.
pub(crate) fn tune_lane(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_notsent_lowat(NOT_SENT)?;
    socket.set_tcp_keepalive(&keep_alive())
}

/// Sets the options of an application's TCP connection.
pub(crate) fn tune_application(stream: &TcpStream) -> io::Result<()> {
    tune(socket2::SockRef::from(stream))
}

fn tune(socket: socket2::SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&keep_alive())
}

/// Whether accepted connections have the options of their listener, which saves four system calls
/// for each.
const INHERITS: bool = cfg!(target_os = "linux");

fn keep_alive() -> socket2::TcpKeepalive {
    socket2::TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE / 4)
}

/// Makes dropping the stream send a reset.
pub(crate) fn reset_on_drop(stream: &TcpStream) {
    // Fails only on a socket that is closed already.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Keeps TCP's urgent byte in the stream (`SO_OOBINLINE`); out of band nobody would read it. Set it
/// before the connection exists, which may bring such a byte at once. Accepted connections inherit
/// it from their listener.
fn keep_urgent(socket: socket2::SockRef<'_>) {
    // Where the system cannot, only urgent bytes are lost.
    let _ = socket.set_out_of_band_inline(true);
}

/// Resolves a name with the system's resolver. An address resolves to itself.
pub(crate) async fn lookup(host: &Host, port: u16) -> io::Result<Vec<SocketAddr>> {
    match host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, port)]),
        Host::Name(name) => Ok(tokio::net::lookup_host((name.as_str(), port)).await?.collect()),
    }
}

/// Listens on the first address of `bind` that works.
///
/// # Errors
/// The last address's error; `NotFound` if the name has no address.
pub(crate) async fn listen(bind: &Bind) -> io::Result<TcpListener> {
    listen_on(&lookup(&bind.host, bind.port).await?, listen_at)
}

/// [`listen`] for the process as a whole: the listener survives a restart, if the service manager
/// keeps it.
pub(crate) async fn listen_lasting(bind: &Bind) -> io::Result<TcpListener> {
    let listener = listen(bind).await?;
    #[cfg(unix)]
    service::keep_listener(&listener);
    Ok(listener)
}

/// [`listen`] with another way to open a socket. A machine without IPv6 has no `[::]`; what that
/// stands for is then `0.0.0.0`.
fn listen_on<T>(
    addresses: &[SocketAddr],
    mut open: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for &address in addresses {
        let opened = match open(address) {
            // With IPv4 they would be the same.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied
                ) =>
            {
                Err(error)
            }
            Err(_) if is_everything(address) => {
                open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
            }
            opened => opened,
        };
        match opened {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether the address stands for all addresses of both families.
fn is_everything(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

/// Makes a socket that is to be bound to all addresses accept both families, whatever the default
/// of the system is (`net.ipv6.bindv6only`).
fn accept_both(socket: socket2::SockRef<'_>, address: SocketAddr) {
    if is_everything(address) {
        // Systems that cannot serve IPv6 only.
        let _ = socket.set_only_v6(false);
    }
}

/// A UDP socket at `address`; at `[::]`, for both families.
pub(crate) fn udp_at(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
    accept_both(socket2::SockRef::from(&socket), address);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn new_socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    keep_urgent(socket2::SockRef::from(&socket));
    Ok(socket)
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    #[cfg(unix)]
    if let Some(listener) = service::passed_listener(address) {
        keep_urgent(socket2::SockRef::from(&listener));
        if INHERITS {
            tune(socket2::SockRef::from(&listener))?;
        }
        listener.set_nonblocking(true)?;
        return TcpListener::from_std(listener);
    }
    let socket = new_socket(address)?;
    accept_both(socket2::SockRef::from(&socket), address);
    // After a restart the port may still have connections of the earlier process.
    socket.set_reuseaddr(true)?;
    if INHERITS {
        tune(socket2::SockRef::from(&socket))?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Returns the next connection. Retries after errors, such as a lack of file descriptors.
pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if !INHERITS {
                    // If it is gone already, reading it fails.
                    let _ = tune_application(&stream);
                }
                return stream;
            }
            Err(error) => {
                if !matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) {
                    let address = listener
                        .local_addr()
                        .map(|address| address.to_string())
                        .unwrap_or_default();
                    warn!(address, %error, "cannot accept connections; trying again");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Connects to one of `addresses`, as [`race`] does. Each attempt may take `each`.
pub(crate) async fn dial(addresses: &[SocketAddr], each: Duration) -> io::Result<TcpStream> {
    let connect = |address| async move { new_socket(address)?.connect(address).await };
    if let [address] = addresses {
        // Without a task of its own.
        let connected = tokio::time::timeout(each, connect(*address));
        return connected.await.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
    }
    race(addresses, each, connect).await
}

/// Happy Eyeballs (RFC 8305) over addresses in order of preference. Address families alternate,
/// starting with the first address's. An attempt starts when the one before has failed, or has not
/// succeeded within 250 ms. The first to succeed wins; the others are dropped.
///
/// # Errors
/// The latest error other than a time-out, because it says more; otherwise `TimedOut`, or
/// `NotFound` if there are no addresses.
pub(crate) async fn race<T, F, R>(
    addresses: &[SocketAddr],
    each: Duration,
    attempt: F,
) -> io::Result<T>
where
    T: Send + 'static,
    F: Fn(SocketAddr) -> R,
    R: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut waiting = in_turns(addresses).into_iter();
    // Dropping the set cancels the attempts in progress.
    let mut attempts = JoinSet::new();
    let mut why = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        if let Some(address) = waiting.next() {
            let attempt = attempt(address);
            attempts.spawn(async move {
                tokio::time::timeout(each, attempt)
                    .await
                    .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
            });
        }
        let next = async {
            match waiting.len() {
                0 => std::future::pending().await,
                _ => tokio::time::sleep(NEXT_ATTEMPT).await,
            }
        };
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(winner))) => return Ok(winner),
                Some(Ok(Err(error))) => {
                    if error.kind() != io::ErrorKind::TimedOut || why.kind() == io::ErrorKind::NotFound {
                        why = error;
                    }
                }
                Some(Err(error)) => why = io::Error::other(error),
                None => return Err(why),
            },
            () = next => {}
        }
    }
}

/// At most [`MAX_ADDRESSES`] with alternating families (RFC 8305 section 4), otherwise in the given
/// order.
fn in_turns(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_first_family = |address: &&SocketAddr| {
        addresses.first().is_some_and(|first| first.is_ipv4() == address.is_ipv4())
    };
    let (first, second): (Vec<&SocketAddr>, Vec<&SocketAddr>) =
        addresses.iter().partition(is_first_family);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let turns = std::iter::from_fn(|| {
        let pair: Vec<SocketAddr> =
            first.next().into_iter().chain(second.next()).copied().collect();
        (!pair.is_empty()).then_some(pair)
    });
    turns.flatten().take(MAX_ADDRESSES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tokio::time::Instant;

    const EACH: Duration = Duration::from_secs(10);

    fn addresses(text: &str) -> Vec<SocketAddr> {
        text.split_whitespace().map(|word| SocketAddr::new(word.parse().unwrap(), 1)).collect()
    }

    #[test]
    fn families_take_turns() {
        let turns = |text: &str| {
            in_turns(&addresses(text))
                .iter()
                .map(|address| address.ip().to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(turns("::1 ::2 ::3 10.0.0.1 10.0.0.2"), "::1 10.0.0.1 ::2 10.0.0.2 ::3");
        assert_eq!(turns("10.0.0.1 10.0.0.2 ::1"), "10.0.0.1 ::1 10.0.0.2");
        assert_eq!(turns("10.0.0.1 10.0.0.2"), "10.0.0.1 10.0.0.2");
        assert_eq!(turns(""), "");
        assert_eq!(in_turns(&addresses(&"::1 ".repeat(99))).len(), MAX_ADDRESSES);
    }

    /// Listens at `[::]:7077` on a machine that fails so for it; returns the addresses that were
    /// tried, and the outcome.
    fn everywhere(
        fails: Option<io::ErrorKind>,
    ) -> (Vec<String>, Result<SocketAddr, io::ErrorKind>) {
        let mut tried = Vec::new();
        let open = |address: SocketAddr| {
            tried.push(address.to_string());
            match fails {
                Some(kind) if address.is_ipv6() => Err(io::Error::from(kind)),
                _ => Ok(address),
            }
        };
        let opened = listen_on(&["[::]:7077".parse().unwrap()], open);
        (tried, opened.map_err(|error| error.kind()))
    }

    #[test]
    fn a_machine_without_ipv6_listens_on_ipv4() {
        let [both, v4] = ["[::]:7077", "0.0.0.0:7077"];
        assert_eq!(everywhere(None), (vec![both.into()], Ok(both.parse().unwrap())));
        // EAFNOSUPPORT has no kind of its own.
        for kind in [io::ErrorKind::AddrNotAvailable, io::ErrorKind::Other] {
            let expected = (vec![both.into(), v4.into()], Ok(v4.parse().unwrap()));
            assert_eq!(everywhere(Some(kind)), expected);
        }
        for kind in [io::ErrorKind::AddrInUse, io::ErrorKind::PermissionDenied] {
            assert_eq!(everywhere(Some(kind)), (vec![both.into()], Err(kind)));
        }
        // What is one address of the machine stays that.
        let mut tried = 0;
        let missing = listen_on(&["[2001:db8::1]:7077".parse().unwrap()], |_| {
            tried += 1;
            Err::<(), _>(io::ErrorKind::AddrNotAvailable.into())
        });
        assert_eq!((missing.unwrap_err().kind(), tried), (io::ErrorKind::AddrNotAvailable, 1));
    }

    /// Races on a paused clock. Of each address, `plan` has the milliseconds and the outcome of its
    /// attempt; an address that is missing never answers. Returns when each attempt began, the
    /// winner, and how long the race took, in milliseconds.
    async fn run(
        text: &str,
        plan: &'static [(&str, u64, bool)],
    ) -> (Vec<(String, u128)>, Result<String, io::ErrorKind>, u128) {
        let begun = Instant::now();
        let log = Arc::<Mutex<Vec<_>>>::default();
        let attempt = |address: SocketAddr| {
            let name = address.ip().to_string();
            log.lock().unwrap().push((name.clone(), begun.elapsed().as_millis()));
            async move {
                let Some((_, takes, succeeds)) = plan.iter().find(|(of, ..)| *of == name) else {
                    return std::future::pending().await;
                };
                tokio::time::sleep(Duration::from_millis(*takes)).await;
                if *succeeds { Ok(name) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
            }
        };
        let result = race(&addresses(text), EACH, attempt).await.map_err(|error| error.kind());
        let log = log.lock().unwrap().clone();
        (log, result, begun.elapsed().as_millis())
    }

    fn begun(list: &[(&str, u128)]) -> Vec<(String, u128)> {
        list.iter().map(|(name, at)| (name.to_string(), *at)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_silent_costs_a_quarter_of_a_second() {
        let (log, result, took) = run("::1 10.0.0.1", &[("10.0.0.1", 30, true)]).await;
        assert_eq!(
            (log, result, took),
            (begun(&[("::1", 0), ("10.0.0.1", 250)]), Ok("10.0.0.1".into()), 280)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_costs_no_time_and_a_slow_address_may_still_win() {
        let (log, result, took) =
            run("::1 10.0.0.1", &[("::1", 5, false), ("10.0.0.1", 30, true)]).await;
        assert_eq!(
            (log, result, took),
            (begun(&[("::1", 0), ("10.0.0.1", 5)]), Ok("10.0.0.1".into()), 35)
        );
        let (log, result, took) =
            run("::1 10.0.0.1", &[("::1", 260, true), ("10.0.0.1", 30, true)]).await;
        assert_eq!(
            (log, result, took),
            (begun(&[("::1", 0), ("10.0.0.1", 250)]), Ok("::1".into()), 260)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_error_that_says_most_is_returned() {
        let (_, result, took) = run("::1 10.0.0.1", &[("10.0.0.1", 1, false)]).await;
        assert_eq!((result, took), (Err(io::ErrorKind::ConnectionRefused), EACH.as_millis()));
        let (_, result, took) = run("::1 10.0.0.1", &[]).await;
        assert_eq!((result, took), (Err(io::ErrorKind::TimedOut), EACH.as_millis() + 250));
        assert_eq!(run("", &[]).await.1, Err(io::ErrorKind::NotFound));
    }

    /// A local address that does not answer, as behind a filter: its queue is full. `None` if this
    /// system answers all the same.
    fn silent() -> Option<(socket2::Socket, Vec<std::net::TcpStream>, SocketAddr)> {
        let listener =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        for _ in 0..64 {
            match std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
                Ok(stream) => queued.push(stream),
                Err(_) => return Some((listener, queued, address)),
            }
        }
        None
    }

    #[tokio::test]
    async fn a_silent_address_does_not_keep_the_next_one_waiting() {
        let Some((_listener, _queued, silent)) = silent() else {
            oncewire_testkit::skip!("a full queue answers here");
        };
        let good = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = good.local_addr().unwrap();
        // Far more time for each than the test has for both.
        let stream = tokio::time::timeout(EACH, dial(&[silent, address], EACH * 100))
            .await
            .expect("the silent address delays the next one");
        assert_eq!(stream.unwrap().peer_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn connections_of_applications_are_not_delayed_and_notice_a_dead_peer() {
        let listener = listen(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = [listener.local_addr().unwrap()];
        let (dialled, accepted) = tokio::join!(dial(&address, EACH), accept(&listener));
        let dialled = dialled.unwrap();
        tune_application(&dialled).unwrap();
        for stream in [&dialled, &accepted] {
            let socket = socket2::SockRef::from(stream);
            assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
            #[cfg(target_os = "linux")]
            assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEP_ALIVE);
        }
    }

    #[tokio::test]
    async fn urgent_bytes_stay_among_the_others() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        keep_urgent(socket2::SockRef::from(&listener));
        let address = [listener.local_addr().unwrap()];
        let (dialled, accepted) = tokio::join!(dial(&address, EACH), listener.accept());
        let (mut dialled, (mut accepted, _)) = (dialled.unwrap(), accepted.unwrap());
        urgent(&mut dialled, &mut accepted).await;
        urgent(&mut accepted, &mut dialled).await;
    }

    /// Sends five bytes, the third of them urgent, and finishes.
    async fn urgent(from: &mut TcpStream, to: &mut TcpStream) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        from.write_all(b"ab").await.unwrap();
        socket2::SockRef::from(&*from).send_out_of_band(b"C").unwrap();
        from.write_all(b"de").await.unwrap();
        from.shutdown().await.unwrap();
        let mut bytes = Vec::new();
        tokio::time::timeout(EACH, to.read_to_end(&mut bytes)).await.expect("it ends").unwrap();
        assert_eq!(bytes, b"abCde");
    }
}
