//! What carries a lane: TLS over TCP, or a stream of a QUIC connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// Both directions of a transport.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// An authenticated and encrypted byte stream to a peer.
pub(crate) struct Transport {
    pub(crate) stream: Box<dyn Duplex>,
    pub(crate) path: Path,
}

impl Transport {
    pub(crate) fn new(stream: impl Duplex + 'static, over: &'static str, address: SocketAddr) -> Transport {
        Transport { stream: Box::new(stream), path: Path { over, address } }
    }
}

/// What a transport goes over, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// `tcp` or `quic`.
    pub(crate) over: &'static str,
    /// The peer's address.
    pub(crate) address: SocketAddr,
}

/// Which transports to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportKind {
    /// TLS 1.3 over TCP.
    #[default]
    Tcp,
    /// QUIC.
    Quic,
    /// QUIC where it can be had, else TCP.
    Auto,
}

/// Bytes that TCP may hold unsent. What the session has encoded can no longer be overtaken by small flows, so this is kept short; below
/// a few times the largest frame the socket would run dry between two of them.
const NOT_SENT: u32 = 256 << 10;
/// Silence on an application's connection after which TCP asks whether the other end is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Sets up a TCP connection that carries a lane. Buffer sizes are left to the system's auto-tuning, which suits long fat paths better
/// than any fixed size.
pub(crate) fn tune_lane(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_notsent_lowat(NOT_SENT)?;
    socket.set_tcp_keepalive(&keep_alive())
}

/// Sets up a TCP connection of an application.
pub(crate) fn tune_application(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_keepalive(&keep_alive())
}

fn keep_alive() -> socket2::TcpKeepalive {
    socket2::TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE / 4)
}

/// Makes dropping the stream send a reset.
pub(crate) fn reset_on_drop(stream: &TcpStream) {
    // A socket that is closed already cannot be told, and need not be.
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Why there is no transport to a peer.
#[derive(Debug)]
pub(crate) struct DialError {
    /// In words.
    pub(crate) why: String,
    /// The peer may know the other [`crate::tls::Credential`].
    pub(crate) other_credential: bool,
}

impl From<String> for DialError {
    fn from(why: String) -> DialError {
        DialError { why, other_credential: false }
    }
}

/// Pause before the next address is tried while those before have not answered (RFC 8305 section 5, Connection Attempt Delay).
const NEXT_ATTEMPT: Duration = Duration::from_millis(250);
/// Most addresses of a name that are tried.
pub(crate) const MAX_ADDRESSES: usize = 16;

/// Connects to one of `addresses`, as [`race`] does; each attempt may take that long.
pub(crate) async fn dial(addresses: &[SocketAddr], each: Duration) -> io::Result<TcpStream> {
    race(addresses, each, |address| async move {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        keep_urgent(socket2::SockRef::from(&socket));
        socket.connect(address).await
    })
    .await
}

/// Happy Eyeballs (RFC 8305) over addresses that are in the order of preference: families take turns, beginning with that of the first. An attempt
/// begins when the one before has failed, or has not succeeded in 250 ms. The first that succeeds wins, and the others are dropped.
///
/// # Errors
/// The latest error that is not a time-out, since it says more; if there is none, `TimedOut`, or `NotFound` without addresses.
pub(crate) async fn race<T, F, R>(addresses: &[SocketAddr], each: Duration, attempt: F) -> io::Result<T>
where
    T: Send + 'static,
    F: Fn(SocketAddr) -> R,
    R: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut waiting = in_turns(addresses).into_iter();
    // Dropping the set ends the attempts that are under way.
    let mut attempts = JoinSet::new();
    let mut why = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        if let Some(address) = waiting.next() {
            let attempt = attempt(address);
            attempts
                .spawn(async move { tokio::time::timeout(each, attempt).await.unwrap_or(Err(io::ErrorKind::TimedOut.into())) });
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

/// At most [`MAX_ADDRESSES`], with the families in turns (RFC 8305 section 4), else in the order that they have.
fn in_turns(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_first_family = |address: &&SocketAddr| addresses.first().is_some_and(|first| first.is_ipv4() == address.is_ipv4());
    let (first, second): (Vec<&SocketAddr>, Vec<&SocketAddr>) = addresses.iter().partition(is_first_family);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let turns = std::iter::from_fn(|| {
        let pair: Vec<SocketAddr> = first.next().into_iter().chain(second.next()).copied().collect();
        (!pair.is_empty()).then_some(pair)
    });
    turns.flatten().take(MAX_ADDRESSES).collect()
}

/// Leaves the byte that TCP calls urgent among the others (`SO_OOBINLINE`): elsewhere it would never be read. To be set before a connection is there,
/// since it may bring such a byte at once; what a listener accepts inherits it.
pub(crate) fn keep_urgent(socket: socket2::SockRef<'_>) {
    // Where it cannot be set, only that byte is lost, and no flow that does without.
    let _ = socket.set_out_of_band_inline(true);
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
        let turns =
            |text: &str| in_turns(&addresses(text)).iter().map(|address| address.ip().to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(turns("::1 ::2 ::3 10.0.0.1 10.0.0.2"), "::1 10.0.0.1 ::2 10.0.0.2 ::3");
        assert_eq!(turns("10.0.0.1 10.0.0.2 ::1"), "10.0.0.1 ::1 10.0.0.2");
        assert_eq!(turns("10.0.0.1 10.0.0.2"), "10.0.0.1 10.0.0.2");
        assert_eq!(turns(""), "");
        assert_eq!(in_turns(&addresses(&"::1 ".repeat(99))).len(), MAX_ADDRESSES);
    }

    /// Races on a clock that stands still unless all wait. An attempt takes so many milliseconds and ends so; what is not named never ends. Returns
    /// when each began, in milliseconds, and who won when.
    async fn run(text: &str, plan: &'static [(&str, u64, bool)]) -> (Vec<(String, u128)>, Result<String, io::ErrorKind>, u128) {
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
        assert_eq!((log, result, took), (begun(&[("::1", 0), ("10.0.0.1", 250)]), Ok("10.0.0.1".into()), 280));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_refuses_costs_nothing_and_a_slow_one_may_still_win() {
        let (log, result, took) = run("::1 10.0.0.1", &[("::1", 5, false), ("10.0.0.1", 30, true)]).await;
        assert_eq!((log, result, took), (begun(&[("::1", 0), ("10.0.0.1", 5)]), Ok("10.0.0.1".into()), 35));
        let (log, result, took) = run("::1 10.0.0.1", &[("::1", 260, true), ("10.0.0.1", 30, true)]).await;
        assert_eq!((log, result, took), (begun(&[("::1", 0), ("10.0.0.1", 250)]), Ok("::1".into()), 260));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_say_the_most_that_is_known() {
        let (_, result, took) = run("::1 10.0.0.1", &[("10.0.0.1", 1, false)]).await;
        assert_eq!((result, took), (Err(io::ErrorKind::ConnectionRefused), EACH.as_millis()));
        let (_, result, took) = run("::1 10.0.0.1", &[]).await;
        assert_eq!((result, took), (Err(io::ErrorKind::TimedOut), EACH.as_millis() + 250));
        assert_eq!(run("", &[]).await.1, Err(io::ErrorKind::NotFound));
    }

    /// An address of this machine that lets nobody in, as behind a filter: its queue is full. `None` where the system has no such thing.
    fn silent() -> Option<(socket2::Socket, Vec<std::net::TcpStream>, SocketAddr)> {
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
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
        let stream = tokio::time::timeout(EACH, dial(&[silent, address], EACH * 100)).await.expect("it waits for the silent one");
        assert_eq!(stream.unwrap().peer_addr().unwrap(), address);
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
