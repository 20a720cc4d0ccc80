//! A packet socket (packet(7)).
//!
//! pnet_datalink binds the socket and sets promiscuous mode. nix reads it, since pnet_datalink
//! reports neither the time and the direction of a packet nor the drops of the kernel.

use super::Captured;
use crate::failure::{Failure, Outcome};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockType, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use oncewire_packet::{LinkType, Nanos, Record};
use pnet_datalink::{Channel, Config, NetworkInterface};
use std::fs::read_to_string;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

/// Most bytes captured of a packet: twice an offloaded segment of 64 KiB. Longer packets (BIG TCP)
/// are truncated.
const LONGEST: usize = 128 << 10;

/// Receive buffer in the kernel, in bytes. Without CAP_NET_ADMIN, at most `net.core.rmem_max`.
const HELD: usize = 32 << 20;

/// Interval between checks for the end while no packet arrives.
const PAUSE: Duration = Duration::from_millis(100);

/// Calls `take` with every packet of the interface, until `duration` has passed, `cancel` is set or
/// `take` fails.
///
/// On the loopback, where every packet is sent and received, only the received one counts, as in
/// libpcap. A VLAN tag that the interface removed is neither seen nor counted.
pub(crate) fn capture(
    name: &str,
    duration: Option<Duration>,
    cancel: &AtomicBool,
    mut take: impl FnMut(&Record<'_>) -> Outcome,
) -> Outcome<Captured> {
    let interfaces = pnet_datalink::interfaces();
    let interface =
        interfaces.iter().find(|interface| interface.name == name).ok_or_else(|| {
            let names: Vec<&str> =
                interfaces.iter().map(|interface| interface.name.as_str()).collect();
            Failure::usage(format!("there is no interface {name}; use one of {}", names.join(", ")))
        })?;
    let link = link_type(name)?;
    let mut socket = Socket::open(interface).map_err(|error| denied(name, &error))?;
    // A separate thread drains the socket: a full one drops packets, and reports that only with a
    // later packet.
    std::thread::scope(|scope| {
        let (chunks, queue) = sync_channel(QUEUED);
        let reader = scope.spawn(move || read(&mut socket, duration, cancel, &chunks));
        // On failure the queue closes, which ends the reader.
        let taken = queue.into_iter().try_for_each(|chunk: Chunk| {
            chunk
                .packets()
                .try_for_each(|(time, wire_len, data)| take(&Record { time, link, wire_len, data }))
        });
        let captured = reader.join();
        taken?;
        match captured {
            Ok(Ok(captured)) => Ok(captured),
            Ok(Err(Errno::ENETDOWN)) => Err(Failure::failed(format!(
                "cannot capture from {name}: it is down; `ip link set {name} up` starts it"
            ))),
            Ok(Err(error)) => Err(Failure::io("capture from", name, &error.into())),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Bytes of packets handed from the reader to the study at once.
const CHUNK: usize = 1 << 20;

/// Most chunks queued for the study: 128 MiB, about 1 s at 1 Gbit/s.
const QUEUED: usize = 128;

/// Concatenated packets.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Time, length on the wire and end offset of each.
    ends: Vec<(Nanos, u32, usize)>,
}

impl Chunk {
    fn push(&mut self, packet: &Packet<'_>) {
        self.bytes.extend_from_slice(packet.data);
        self.ends.push((
            packet.time,
            u32::try_from(packet.wire_len).unwrap_or(u32::MAX),
            self.bytes.len(),
        ));
    }

    fn packets(&self) -> impl Iterator<Item = (Nanos, u32, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(time, wire_len, end)| {
            let data = &self.bytes[start..end];
            start = end;
            (time, wire_len, data)
        })
    }
}

/// Reads packets until `duration` has passed or `cancel` is set. Drops and counts those that the
/// study does not accept in time.
fn read(
    socket: &mut Socket,
    duration: Option<Duration>,
    cancel: &AtomicBool,
    queue: &SyncSender<Chunk>,
) -> Result<Captured, Errno> {
    let begun = Instant::now();
    let mut captured = Captured::default();
    let (mut dropped, mut chunk) = (0, Chunk::default());
    // Nanoseconds since the epoch: packets that arrived before count, even if they are read later.
    let mut until = None;
    loop {
        if until.is_none()
            && (cancel.load(Ordering::Relaxed)
                || duration.is_some_and(|duration| begun.elapsed() >= duration))
        {
            until = Some(now());
        }
        let left =
            duration.map_or(PAUSE, |duration| duration.saturating_sub(begun.elapsed()).min(PAUSE));
        // Hand over what has arrived before waiting for more.
        let wait = until.is_none() && chunk.ends.is_empty();
        let quiet = match socket.next(wait.then_some(left)) {
            Ok(Some(packet)) => {
                dropped = packet.dropped;
                if until.is_some_and(|until| packet.time > until) {
                    break;
                }
                if !(packet.sent && packet.loopback) {
                    captured.packets += 1;
                    chunk.push(&packet);
                }
                false
            }
            Ok(None) if until.is_some() => break,
            Ok(None) => true,
            Err(Errno::ENETDOWN | Errno::ENXIO) if captured.packets > 0 => {
                captured.went_down = true;
                break;
            }
            Err(error) => return Err(error),
        };
        if chunk.bytes.len() >= CHUNK || quiet && !chunk.ends.is_empty() {
            match queue.try_send(std::mem::take(&mut chunk)) {
                Ok(()) => {}
                Err(TrySendError::Full(full)) if full.bytes.len() < CHUNK => {
                    chunk = full;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TrySendError::Full(full)) => {
                    captured.lost += full.ends.len() as u64;
                    captured.packets -= full.ends.len() as u64;
                }
                // The study has failed.
                Err(TrySendError::Disconnected(_)) => return Ok(captured),
            }
        }
    }
    let _ = queue.send(chunk);
    captured.lost += dropped;
    Ok(captured)
}

/// A packet from the kernel.
struct Packet<'a> {
    time: Nanos,
    data: &'a [u8],
    wire_len: usize,
    /// It was sent from this host, not received.
    sent: bool,
    loopback: bool,
    /// Packets dropped by the kernel since the socket was opened.
    dropped: u64,
}

struct Socket {
    socket: OwnedFd,
    /// Keeps the interface promiscuous.
    _channel: Channel,
    buffer: Vec<u8>,
    control: Vec<u8>,
    dropped: u64,
}

impl Socket {
    fn open(interface: &NetworkInterface) -> io::Result<Socket> {
        // Without a protocol, receives nothing until it is bound to the interface.
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1)?;
        if setsockopt(&socket, sockopt::RcvBufForce, &HELD).is_err() {
            // A smaller buffer is fine: losses are reported.
            let _ = setsockopt(&socket, sockopt::RcvBuf, &HELD);
        }
        let config =
            Config { socket_fd: Some(socket.try_clone()?.into_raw_fd()), ..Config::default() };
        let channel = pnet_datalink::channel(interface, config)?;
        let control = cmsg_space!(TimeSpec, u32);
        Ok(Socket { socket, _channel: channel, buffer: vec![0; LONGEST], control, dropped: 0 })
    }

    /// The next packet, or `None` if none arrives within `wait`.
    fn next(&mut self, wait: Option<Duration>) -> Result<Option<Packet<'_>>, Errno> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        // MSG_TRUNC: returns the length of the packet even if the buffer is shorter.
        let (wire_len, address, time) = {
            let mut parts = [IoSliceMut::new(&mut self.buffer)];
            let received = recvmsg::<LinkAddr>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut self.control),
                flags,
            );
            match received {
                Ok(message) => {
                    let mut time = None;
                    for control in message.cmsgs()? {
                        match control {
                            ControlMessageOwned::ScmTimestampns(at) => {
                                time = Some(
                                    at.tv_sec()
                                        .saturating_mul(1_000_000_000)
                                        .saturating_add(at.tv_nsec()),
                                );
                            }
                            // The counter has 32 bits.
                            ControlMessageOwned::RxqOvfl(dropped) => {
                                self.dropped +=
                                    u64::from(dropped.wrapping_sub(self.dropped as u32));
                            }
                            _ => {}
                        }
                    }
                    (message.bytes, message.address, time)
                }
                Err(Errno::EAGAIN) => {
                    if let Some(wait) = wait {
                        let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
                        match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], wait)
                        {
                            Ok(_) | Err(Errno::EINTR) => {}
                            Err(error) => return Err(error),
                        }
                    }
                    return Ok(None);
                }
                Err(Errno::EINTR) => return Ok(None),
                Err(error) => return Err(error),
            }
        };
        Ok(Some(Packet {
            time: time.unwrap_or_else(now),
            data: &self.buffer[..wire_len.min(LONGEST)],
            wire_len,
            sent: address.is_some_and(|address| address.pkttype() == libc::PACKET_OUTGOING),
            loopback: address.is_some_and(|address| address.hatype() == libc::ARPHRD_LOOPBACK),
            dropped: self.dropped,
        }))
    }
}

fn now() -> Nanos {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Nanos::try_from(since.as_nanos()).unwrap_or(Nanos::MAX)
}

fn denied(name: &str, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Failure::failed(format!(
            "cannot capture from {name}: permission denied; run this as root, give the program CAP_NET_RAW (setcap cap_net_raw+ep), or pipe \
             `tcpdump -i {name} -s 0 -w -` into `oncewire study -`"
        ));
    }
    Failure::io("capture from", name, error)
}

/// The link type of an interface's packets, by the kernel's ARPHRD number.
fn link_type(name: &str) -> Outcome<LinkType> {
    let kind = read_to_string(format!("/sys/class/net/{name}/type")).unwrap_or_default();
    match kind.trim() {
        // Ethernet, and the loopback with its empty addresses.
        "1" | "772" | "" => Ok(LinkType::ETHERNET),
        // tun, PPP, IP in IP: packets begin with IP.
        "65534" | "512" | "768" | "769" | "776" => Ok(LinkType::RAW),
        "801" => Ok(LinkType::IEEE802_11),
        "803" => Ok(LinkType::IEEE802_11_RADIOTAP),
        other => Err(Failure::failed(format!(
            "cannot capture from {name}: link type ARPHRD {other} is not supported here; pipe `tcpdump -i {name} -s 0 -w -` into \
             `oncewire study -`"
        ))),
    }
}
