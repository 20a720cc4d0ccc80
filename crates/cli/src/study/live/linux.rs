//! A packet socket (packet(7)).
//!
//! pnet_datalink binds it and asks for promiscuous mode; nix reads it, since pnet_datalink tells neither the time of a packet, nor its
//! direction, nor what the kernel dropped.

use super::Captured;
use crate::failure::{Failure, Outcome};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockType, recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use oncewire_packet::{LinkType, Nanos, Record};
use pnet_datalink::{Channel, Config, NetworkInterface};
use std::fs::read_to_string;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Bytes of a packet that are taken: an offloaded segment of 64 KiB with its headers, and twice that. Of longer ones (BIG TCP), the first.
const LONGEST: usize = 128 << 10;

/// Bytes of packets that the kernel may hold for us: some 0.3 s at 1 Gbit/s. Without CAP_NET_ADMIN it is `net.core.rmem_max` if that is less.
const HELD: usize = 32 << 20;

/// How often the end is looked for when nothing comes.
const PAUSE: Duration = Duration::from_millis(100);

/// Gives every packet of the interface to `take`, until `duration` has passed, `enough` is set or `take` fails.
///
/// On the loopback every packet is sent and received: it is taken once, as it is received, as libpcap does. A VLAN tag that the interface
/// has taken off is not seen, nor are its 4 bytes counted.
pub(crate) fn capture(
    name: &str,
    duration: Option<Duration>,
    enough: &AtomicBool,
    mut take: impl FnMut(&Record<'_>) -> Outcome,
) -> Outcome<Captured> {
    let interfaces = pnet_datalink::interfaces();
    let interface = interfaces.iter().find(|interface| interface.name == name).ok_or_else(|| {
        let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
        Failure::usage(format!("there is no interface {name}; use one of {}", names.join(", ")))
    })?;
    let link = link_type(name)?;
    let mut socket = Socket::open(interface).map_err(|error| denied(name, &error))?;
    let begun = Instant::now();
    let mut captured = Captured::default();
    // Nanoseconds since the epoch: what came until then is taken, though it be read later.
    let mut until = None;
    loop {
        if until.is_none() && (enough.load(Ordering::Relaxed) || duration.is_some_and(|duration| begun.elapsed() >= duration)) {
            until = Some(now());
        }
        let left = duration.map_or(PAUSE, |duration| duration.saturating_sub(begun.elapsed()).min(PAUSE));
        match socket.next(until.is_none().then_some(left)) {
            Ok(Some(packet)) => {
                captured.lost = packet.lost;
                if until.is_some_and(|until| packet.time > until) {
                    break;
                }
                if packet.sent && packet.loopback {
                    continue;
                }
                captured.packets += 1;
                let wire_len = u32::try_from(packet.wire_len).unwrap_or(u32::MAX);
                take(&Record { time: packet.time, link, wire_len, data: packet.data })?;
            }
            Ok(None) if until.is_some() => break,
            Ok(None) => {}
            Err(Errno::ENETDOWN | Errno::ENXIO) if captured.packets > 0 => {
                captured.went_down = true;
                break;
            }
            Err(Errno::ENETDOWN) => {
                return Err(Failure::failed(format!(
                    "cannot capture from {name}: it is down; `ip link set {name} up` starts it"
                )));
            }
            Err(error) => return Err(Failure::io("capture from", name, &error.into())),
        }
    }
    Ok(captured)
}

/// A packet as the kernel hands it out.
struct Packet<'a> {
    time: Nanos,
    data: &'a [u8],
    wire_len: usize,
    /// It was sent from this host, not received.
    sent: bool,
    loopback: bool,
    /// Packets dropped since the socket was opened.
    lost: u64,
}

struct Socket {
    socket: OwnedFd,
    /// Keeps the interface promiscuous.
    _channel: Channel,
    buffer: Vec<u8>,
    control: Vec<u8>,
    lost: u64,
}

impl Socket {
    fn open(interface: &NetworkInterface) -> io::Result<Socket> {
        // Without a protocol it receives nothing until it is bound to the interface.
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1)?;
        if setsockopt(&socket, sockopt::RcvBufForce, &HELD).is_err() {
            // Losses are reported, so less is no error.
            let _ = setsockopt(&socket, sockopt::RcvBuf, &HELD);
        }
        let config = Config { socket_fd: Some(socket.try_clone()?.into_raw_fd()), ..Config::default() };
        let channel = pnet_datalink::channel(interface, config)?;
        let control = cmsg_space!(TimeSpec, u32);
        Ok(Socket { socket, _channel: channel, buffer: vec![0; LONGEST], control, lost: 0 })
    }

    /// The next packet. If there is none, waits for as long as given; then `None`.
    fn next(&mut self, wait: Option<Duration>) -> Result<Option<Packet<'_>>, Errno> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        // MSG_TRUNC: the length is the packet's, also where the buffer was too short.
        let (wire_len, address, time) = {
            let mut parts = [IoSliceMut::new(&mut self.buffer)];
            let received = recvmsg::<LinkAddr>(self.socket.as_raw_fd(), &mut parts, Some(&mut self.control), flags);
            match received {
                Ok(message) => {
                    let mut time = None;
                    for control in message.cmsgs()? {
                        match control {
                            ControlMessageOwned::ScmTimestampns(at) => {
                                time = Some(at.tv_sec().saturating_mul(1_000_000_000).saturating_add(at.tv_nsec()));
                            }
                            // The counter has 32 bits.
                            ControlMessageOwned::RxqOvfl(lost) => {
                                self.lost += u64::from(lost.wrapping_sub(self.lost as u32));
                            }
                            _ => {}
                        }
                    }
                    (message.bytes, message.address, time)
                }
                Err(Errno::EAGAIN) => {
                    if let Some(wait) = wait {
                        let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
                        match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], wait) {
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
            lost: self.lost,
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
            "cannot capture from {name}: it needs the right to; run it as root, give the program CAP_NET_RAW (setcap cap_net_raw+ep), or pipe \
             `tcpdump -i {name} -s 0 -w -` into `oncewire study -`"
        ));
    }
    Failure::io("capture from", name, error)
}

/// What the packets of an interface begin with, by the kernel's ARPHRD number.
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
            "cannot capture from {name}: its packets are of a kind (ARPHRD {other}) that only tcpdump knows; pipe `tcpdump -i {name} -s 0 -w -` into \
             `oncewire study -`"
        ))),
    }
}
