//! Measures latency and throughput of a path, without ping or iperf: `serve` in one namespace,
//! `ping` or `send` in the other.

use oncewire_testkit::servers::incompressible;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: oncewire-path-probe serve ADDR:PORT
       oncewire-path-probe ping ADDR:PORT COUNT INTERVAL_US
       oncewire-path-probe send ADDR:PORT BYTES";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["serve", addr] => serve(addr),
        ["ping", addr, count, interval] => match (count.parse(), interval.parse()) {
            (Ok(count), Ok(interval)) => ping(addr, count, Duration::from_micros(interval)),
            _ => usage(),
        },
        ["send", addr, bytes] => match bytes.parse() {
            Ok(bytes) => send(addr, bytes),
            _ => usage(),
        },
        _ => usage(),
    };
    if let Err(e) = result {
        eprintln!("oncewire-path-probe: {}: {e}", args.join(" "));
        std::process::exit(1);
    }
}

fn usage() -> std::io::Result<()> {
    eprintln!("{USAGE}");
    std::process::exit(2);
}

/// The content of TCP transfers, repeated.
fn pattern() -> Vec<u8> {
    incompressible(1, 1 << 20)
}

/// Echoes UDP. Reads TCP to its end and answers with the number of bytes, or with `u64::MAX` if any
/// byte was wrong.
fn serve(addr: &str) -> std::io::Result<()> {
    let udp = UdpSocket::bind(addr)?;
    let tcp = TcpListener::bind(addr)?;
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        loop {
            if let Ok((n, from)) = udp.recv_from(&mut buffer) {
                let _ = udp.send_to(&buffer[..n], from);
            }
        }
    });
    for stream in tcp.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || -> std::io::Result<()> {
            let pattern = pattern();
            let mut buffer = vec![0; pattern.len()];
            let (mut total, mut at, mut wrong) = (0u64, 0, false);
            loop {
                // `buffer[at..]` ends where the pattern ends.
                let n = stream.read(&mut buffer[at..])?;
                if n == 0 {
                    return stream.write_all(&if wrong { u64::MAX } else { total }.to_be_bytes());
                }
                wrong |= buffer[at..at + n] != pattern[at..at + n];
                at = (at + n) % pattern.len();
                total += n as u64;
            }
        });
    }
    Ok(())
}

/// Prints `sent N received M median_us T`. Ends when all are back, or when none has arrived for 2
/// s.
fn ping(addr: &str, count: u64, interval: Duration) -> std::io::Result<()> {
    let any = match addr.parse::<SocketAddr>() {
        Ok(SocketAddr::V6(_)) => "[::]:0",
        _ => "0.0.0.0:0",
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(addr)?;
    let receiver = socket.try_clone()?;
    receiver.set_read_timeout(Some(Duration::from_secs(2)))?;
    let epoch = Instant::now();
    let listener = std::thread::spawn(move || {
        let mut times = Vec::new();
        let mut buffer = [0; 16];
        while (times.len() as u64) < count {
            match receiver.recv(&mut buffer) {
                Ok(16) => {
                    let sent = u64::from_be_bytes(buffer[8..].try_into().unwrap_or_default());
                    times.push((epoch.elapsed().as_micros() as u64).saturating_sub(sent));
                }
                Ok(_) => {}
                // The server has not started yet.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
        }
        times
    });
    for n in 0..count {
        let mut packet = [0; 16];
        packet[..8].copy_from_slice(&n.to_be_bytes());
        packet[8..].copy_from_slice(&(epoch.elapsed().as_micros() as u64).to_be_bytes());
        let _ = socket.send(&packet);
        std::thread::sleep(interval);
    }
    let mut times = listener.join().unwrap_or_default();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or(0);
    println!("sent {count} received {} median_us {median}", times.len());
    Ok(())
}

/// Prints `bytes N seconds S mbit R`, from the first byte sent to the receiver's answer.
fn send(addr: &str, bytes: u64) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(addr)?;
    let buffer = pattern();
    let started = Instant::now();
    let mut left = bytes;
    while left > 0 {
        let n = left.min(buffer.len() as u64);
        stream.write_all(&buffer[..n as usize])?;
        left -= n;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer)?;
    let seconds = started.elapsed().as_secs_f64();
    let total = u64::from_be_bytes(answer);
    if total != bytes {
        return Err(std::io::Error::other(format!(
            "the server did not receive the {bytes} bytes that were sent"
        )));
    }
    println!("bytes {total} seconds {seconds:.3} mbit {:.1}", total as f64 * 8.0 / seconds / 1e6);
    Ok(())
}
