//! Each control of the fault proxy does what it says.

use oncewire_testkit::faults::{Direction, FaultProxy};
use oncewire_testkit::servers::incompressible;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Longer than any step takes on a loaded machine.
const LONG: Duration = Duration::from_secs(20);
/// How long a test waits to see that nothing arrives.
const SHORT: Duration = Duration::from_millis(150);

/// An echo server, and the proxy in front of it.
fn echo() -> FaultProxy {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let addr = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut writer = stream.try_clone()?;
                std::io::copy(&mut &stream, &mut writer)?;
                writer.shutdown(Shutdown::Write)
            });
        }
    });
    FaultProxy::start(addr).expect("starts")
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("connects");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream
}

fn expect(stream: &mut TcpStream, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    stream.read_exact(&mut got).expect("bytes come");
    assert!(got == bytes, "other bytes came");
}

fn expect_nothing(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(SHORT)).expect("a timeout");
    let error = stream.read(&mut [0]).expect_err("nothing comes");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
}

fn exchange(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).expect("sends");
    expect(stream, bytes);
}

#[test]
fn without_faults_it_is_a_plain_relay() {
    let proxy = echo();
    let content = incompressible(1, 5_000_000);
    let mut stream = connect(proxy.addr());
    let mut writer = stream.try_clone().expect("a second handle");
    let sent = content.clone();
    let sender = std::thread::spawn(move || {
        writer.write_all(&sent).expect("sends");
        writer.shutdown(Shutdown::Write).expect("half-closes");
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).expect("ends");
    sender.join().expect("sent");
    assert!(got == content);
    assert_eq!(
        (proxy.bytes_up(), proxy.bytes_down(), proxy.connections()),
        (5_000_000, 5_000_000, 1)
    );
}

#[test]
fn a_cut_moves_nothing_and_keeps_everything() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    exchange(&mut stream, b"before");
    proxy.cut();
    stream.write_all(b"during").expect("the system takes it");
    expect_nothing(&mut stream);
    let mut second = connect(proxy.addr());
    second.write_all(b"second").expect("the system takes it");
    expect_nothing(&mut second);
    assert_eq!(proxy.bytes_up(), 6);
    proxy.mend();
    expect(&mut stream, b"during");
    expect(&mut second, b"second");
}

#[test]
fn a_stall_stops_one_direction() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    exchange(&mut stream, b"before");
    proxy.stall(Direction::Down);
    stream.write_all(b"during").expect("sends");
    expect_nothing(&mut stream);
    assert_eq!((proxy.bytes_up(), proxy.bytes_down()), (12, 6));
    proxy.mend();
    expect(&mut stream, b"during");
}

#[test]
fn connections_are_reset() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    exchange(&mut stream, b"x");
    proxy.reset_all();
    assert_eq!(stream.read(&mut [0]).expect_err("reset").kind(), ErrorKind::ConnectionReset);
    exchange(&mut connect(proxy.addr()), b"the next one works");
}

#[test]
fn connections_are_closed() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    exchange(&mut stream, b"x");
    proxy.close_all();
    assert_eq!(stream.read(&mut [0]).expect("an orderly end"), 0);
}

#[test]
fn an_end_of_either_side_passes() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let proxy = FaultProxy::start(listener.local_addr().expect("an address")).expect("starts");
    let mut client = connect(proxy.addr());
    let (server, _) = listener.accept().expect("a connection");
    socket2::SockRef::from(&server).set_linger(Some(Duration::ZERO)).expect("linger");
    drop(server);
    assert_eq!(client.read(&mut [0]).expect_err("reset").kind(), ErrorKind::ConnectionReset);
    // The upstream server has closed its port.
    drop(listener);
    let mut client = connect(proxy.addr());
    assert_eq!(client.read(&mut [0]).expect_err("reset").kind(), ErrorKind::ConnectionReset);
}

#[test]
fn connections_are_refused() {
    let proxy = echo();
    let mut open = connect(proxy.addr());
    exchange(&mut open, b"x");
    proxy.refuse(true).expect("refuses");
    proxy.refuse(true).expect("still refuses");
    assert_eq!(
        TcpStream::connect(proxy.addr()).expect_err("refused").kind(),
        ErrorKind::ConnectionRefused
    );
    exchange(&mut open, b"open ones stay");
    proxy.refuse(false).expect("listens again");
    exchange(&mut connect(proxy.addr()), b"y");
}

#[test]
fn bytes_are_delayed() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    exchange(&mut stream, b"x");
    proxy.delay(Duration::from_millis(60));
    let started = Instant::now();
    exchange(&mut stream, b"y");
    assert!(started.elapsed() >= Duration::from_millis(120));
}

#[test]
fn bytes_are_throttled() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    proxy.throttle(Some(100_000));
    let started = Instant::now();
    exchange(&mut stream, &[1; 20_000]);
    // The pause after the last piece may not have ended: 180 ms, less the timer's resolution.
    assert!(started.elapsed() >= Duration::from_millis(170));
    proxy.throttle(None);
    exchange(&mut stream, &[2; 1_000_000]);
}

#[test]
fn one_byte_is_corrupted() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    exchange(&mut stream, b"abc");
    proxy.corrupt_after(Direction::Up, 2, 0x20);
    proxy.corrupt_after(Direction::Down, 0, 0x01);
    stream.write_all(b"abcd").expect("sends");
    expect(&mut stream, b"`bCd");
    exchange(&mut stream, b"once only");
}

#[test]
fn a_stream_is_truncated() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    exchange(&mut stream, b"abc");
    proxy.truncate_after(Direction::Down, 5);
    stream.write_all(b"0123456789").expect("sends");
    let mut got = Vec::new();
    stream.read_to_end(&mut got).expect("an orderly end");
    assert_eq!(got, b"01234");
    assert_eq!(proxy.bytes_down(), 8);
    exchange(&mut connect(proxy.addr()), b"once only");
}

#[test]
fn the_past_is_replayed() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    exchange(&mut stream, b"abcdef");
    assert!(proxy.replay(Direction::Up, 2..5));
    expect(&mut stream, b"cde");
    assert!(!proxy.replay(Direction::Up, 4..7), "the future");
    let content = incompressible(2, 2 << 20);
    let mut reader = stream.try_clone().expect("a second handle");
    let sent = content.clone();
    let sender = std::thread::spawn(move || stream.write_all(&sent).expect("sends"));
    expect(&mut reader, &content);
    sender.join().expect("sent");
    assert!(!proxy.replay(Direction::Up, 0..3), "longer ago than is kept");
    assert_eq!(proxy.bytes_up(), 6 + (2 << 20));
}

#[test]
fn bytes_are_duplicated() {
    let proxy = echo();
    let mut stream = connect(proxy.addr());
    exchange(&mut stream, b"abc");
    proxy.duplicate(Direction::Up, 2);
    stream.write_all(b"xyz").expect("sends");
    expect(&mut stream, b"xyxyz");
    exchange(&mut stream, b"once only");
}

#[tokio::test]
async fn it_may_be_used_and_dropped_in_an_async_test() {
    let proxy = echo();
    proxy.refuse(true).expect("refuses");
    proxy.refuse(false).expect("listens");
    let stream = tokio::net::TcpStream::connect(proxy.addr()).await.expect("connects");
    drop(proxy);
    drop(stream);
}

#[test]
fn connections_leave_nothing_behind() {
    let proxy = echo();
    for _ in 0..50 {
        let mut stream = connect(proxy.addr());
        exchange(&mut stream, b"x");
        stream.shutdown(Shutdown::Write).expect("half-closes");
        assert_eq!(stream.read(&mut [0]).expect("an end"), 0);
    }
    let started = Instant::now();
    while proxy.open_connections() > 0 && started.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!((proxy.open_connections(), proxy.connections()), (0, 50));
}
