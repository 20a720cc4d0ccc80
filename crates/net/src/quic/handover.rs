//! A UDP port that passes from a process to its successor, with connections that stay behind.
//!
//! The service manager keeps the socket, so both processes have it. The successor reads it; the
//! predecessor, which finishes its connections, only sends. All connection IDs of a process begin with
//! its tag, so that the successor recognizes datagrams for another process, as a load balancer would
//! (draft-ietf-quic-load-balancers section 3). It passes them on by a Unix datagram socket whose
//! abstract name has the port and the tag. Only a process that has given way has such a socket.
//!
//! A stranger may send datagrams with any tag: they cost a look-up of a name, or reach a process that
//! the port was for moments ago, as they would have then. QUIC authenticates what it carries.

use crate::sync::lock;
use crate::writable::{HasSocket, WhenWritable};
use nix::sys::socket::{MsgFlags, UnixAddr, sendto, setsockopt, sockopt};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, ConnectionId, UdpPoller};
use quinn_proto::{ConnectionIdGenerator, RandomConnectionIdGenerator};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixSocketAddr, UnixDatagram as StdUnixDatagram};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixDatagram;

/// Bytes of a connection ID, as quinn has it otherwise, and those that name the process.
const CID: usize = 8;
const TAG: usize = 3;
/// The first byte of a packet with a long header has this bit; its connection ID has a length (RFC 9000
/// section 17.2), which is a byte after four of a version.
const LONG: u8 = 0x80;
/// Before the datagrams of a message from one process to another: the format, ECN bits, the size of
/// each datagram, the sender's address, and this machine's.
const HEADER: usize = 1 + 1 + 4 + ADDRESS + ADDRESS;
/// Family, address, port and scope.
const ADDRESS: usize = 1 + 16 + 2 + 4;
/// The format of these messages. Another one is ignored: it came from another version.
const FORMAT: u8 = 1;
/// Bytes on their way to other processes that the kernel may keep; it gives what it allows.
const BUFFER: usize = 4 << 20;

type Tag = [u8; TAG];

/// Connection IDs of a process.
struct Ids(Tag);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = random();
        id[..TAG].copy_from_slice(&self.0);
        id
    }

    fn cid_len(&self) -> usize {
        CID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn random() -> ConnectionId {
    RandomConnectionIdGenerator::new(CID).generate_cid()
}

/// The process that a datagram is for, if it says so.
fn tag_of(datagram: &[u8]) -> Option<Tag> {
    let at = match datagram.first()? & LONG {
        0 => 1,
        _ if usize::from(*datagram.get(5)?) == CID => 6,
        // The ID is the client's choice: it begins a connection.
        _ => return None,
    };
    datagram.get(at..at + TAG)?.try_into().ok()
}

/// The socket of a port that may pass to a successor.
pub(super) struct SharedPort {
    /// The system tells of what arrives even if it is not read: that is a wake of a process that drains.
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    address: SocketAddr,
    tag: Tag,
    receiving: Mutex<Receiving>,
    others: StdUnixDatagram,
}

/// Where datagrams come from.
enum Receiving {
    /// The port, and the task that waits for it.
    Port(Option<Waker>),
    /// A successor reads that, and passes on what is for this process.
    Successor(UnixDatagram),
}

impl SharedPort {
    pub(super) fn new(socket: UdpSocket) -> io::Result<Arc<SharedPort>> {
        let [a, b, c, ..] = *random() else { return Err(io::ErrorKind::InvalidData.into()) };
        let others = StdUnixDatagram::unbound()?;
        others.set_nonblocking(true)?;
        // The system's size serves, too.
        let _ = setsockopt(&others, sockopt::SndBuf, &BUFFER);
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Arc::new(SharedPort {
            address: socket.local_addr()?,
            io: tokio::net::UdpSocket::from_std(socket)?,
            state,
            tag: [a, b, c],
            receiving: Mutex::new(Receiving::Port(None)),
            others,
        }))
    }

    /// The connection IDs of the process.
    pub(super) fn ids(&self) -> Box<dyn ConnectionIdGenerator> {
        Box::new(Ids(self.tag))
    }

    /// Reads the port no more. The connections get what the successor passes on.
    pub(super) fn give_way(&self) -> io::Result<()> {
        let name = UnixSocketAddr::from_abstract_name(self.name(self.tag))?;
        let own = StdUnixDatagram::bind_addr(&name)?;
        own.set_nonblocking(true)?;
        let own = Receiving::Successor(UnixDatagram::from_std(own)?);
        if let Receiving::Port(Some(waker)) = std::mem::replace(&mut *lock(&self.receiving), own) {
            waker.wake();
        }
        Ok(())
    }

    fn name(&self, [a, b, c]: Tag) -> String {
        format!("oncewire-quic-{}-{a:02x}{b:02x}{c:02x}", self.address.port())
    }

    /// Passes on what is for other processes. What is left keeps its order.
    fn sort(&self, bytes: &mut [u8], meta: &mut RecvMeta) {
        let stride = meta.stride.max(1);
        let is_ours = |datagram: &[u8]| tag_of(datagram).is_none_or(|tag| tag == self.tag);
        if bytes[..meta.len].chunks(stride).all(is_ours) {
            return;
        }
        let (mut at, mut kept) = (0, 0);
        while at < meta.len {
            let tag = tag_of(&bytes[at..meta.len]);
            let mut end = at;
            // Those in a row for one process go together.
            while end < meta.len && tag_of(&bytes[end..meta.len]) == tag {
                end = (end + stride).min(meta.len);
            }
            let passed = tag
                .filter(|tag| *tag != self.tag)
                .is_some_and(|tag| self.pass(tag, &bytes[at..end], meta));
            if !passed {
                bytes.copy_within(at..end, kept);
                kept += end - at;
            }
            at = end;
        }
        meta.len = kept;
    }

    /// Passes datagrams to another process. Whether there is one: what its queue has no room for is
    /// lost, as in a socket's.
    fn pass(&self, tag: Tag, datagrams: &[u8], meta: &RecvMeta) -> bool {
        let Ok(name) = UnixAddr::new_abstract(self.name(tag).as_bytes()) else { return false };
        let mut message = Vec::with_capacity(HEADER + datagrams.len());
        message.extend([FORMAT, meta.ecn.map_or(0, |ecn| ecn as u8)]);
        message.extend((meta.stride as u32).to_be_bytes());
        write_address(&mut message, Some(meta.addr));
        write_address(&mut message, meta.dst_ip.map(|ip| SocketAddr::new(ip, 0)));
        message.extend(datagrams);
        match sendto(self.others.as_raw_fd(), &message, &name, MsgFlags::empty()) {
            Ok(_) | Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::ENOBUFS) => true,
            Err(_) => false,
        }
    }
}

fn write_address(out: &mut Vec<u8>, address: Option<SocketAddr>) {
    let (family, ip, scope) = match address {
        None => (0, [0; 16], 0),
        Some(SocketAddr::V4(v4)) => (4, v4.ip().to_ipv6_mapped().octets(), 0),
        Some(SocketAddr::V6(v6)) => (6, v6.ip().octets(), v6.scope_id()),
    };
    out.push(family);
    out.extend(ip);
    out.extend(address.map_or(0, |address| address.port()).to_be_bytes());
    out.extend(scope.to_be_bytes());
}

/// What [`write_address`] wrote. `Err` if it did not.
fn read_address(bytes: &[u8; ADDRESS]) -> Result<Option<SocketAddr>, ()> {
    let (family, rest) = bytes.split_first().ok_or(())?;
    let ip: [u8; 16] = rest[..16].try_into().map_err(|_| ())?;
    let port = u16::from_be_bytes([rest[16], rest[17]]);
    let scope = u32::from_be_bytes([rest[18], rest[19], rest[20], rest[21]]);
    match family {
        0 => Ok(None),
        4 => Ok(Some((Ipv4Addr::from([ip[12], ip[13], ip[14], ip[15]]), port).into())),
        6 => Ok(Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())),
        _ => Err(()),
    }
}

/// Reads the header of a message.
fn read_header(header: &[u8; HEADER]) -> Option<RecvMeta> {
    let [format, ecn, rest @ ..] = header;
    let (stride, rest) = rest.split_first_chunk::<4>()?;
    let (from, to) = rest.split_first_chunk::<ADDRESS>()?;
    let to: &[u8; ADDRESS] = to.try_into().ok()?;
    (*format == FORMAT).then_some(())?;
    Some(RecvMeta {
        addr: read_address(from).ok()??,
        len: 0,
        stride: u32::from_be_bytes(*stride).max(1) as usize,
        ecn: EcnCodepoint::from_bits(*ecn),
        dst_ip: read_address(to).ok()?.map(|address| address.ip()),
    })
}

impl fmt::Debug for SharedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedPort({})", self.address)
    }
}

impl AsyncUdpSocket for SharedPort {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        WhenWritable::of(self)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.io.try_io(Interest::WRITABLE, || self.state.send((&self.io).into(), transmit))
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            match &mut *lock(&self.receiving) {
                Receiving::Port(waker) => {
                    if self.io.poll_recv_ready(cx)?.is_pending() {
                        *waker = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                    let read = self.io.try_io(Interest::READABLE, || {
                        self.state.recv((&self.io).into(), bufs, metas)
                    });
                    let count = match read {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        read => read?,
                    };
                    for (buf, meta) in bufs.iter_mut().zip(&mut *metas).take(count) {
                        self.sort(buf, meta);
                    }
                    return Poll::Ready(Ok(count));
                }
                Receiving::Successor(own) => {
                    let (Some(buf), Some(meta)) = (bufs.first_mut(), metas.first_mut()) else {
                        return Poll::Ready(Ok(0));
                    };
                    ready!(own.poll_recv_ready(cx))?;
                    let mut header = [0; HEADER];
                    let read = own.try_io(Interest::READABLE, || {
                        let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(buf)];
                        let from = nix::sys::socket::recvmsg::<()>(
                            own.as_fd().as_raw_fd(),
                            &mut parts,
                            None,
                            MsgFlags::empty(),
                        );
                        Ok(from.map(|message| message.bytes)?)
                    });
                    let len = match read {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        read => read?,
                    };
                    let Some(found) = read_header(&header) else { continue };
                    let Some(len) = len.checked_sub(HEADER) else { continue };
                    *meta = RecvMeta { len: len.min(buf.len()), ..found };
                    return Poll::Ready(Ok(1));
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

impl HasSocket for SharedPort {
    fn socket(&self) -> &tokio::net::UdpSocket {
        &self.io
    }
}

#[cfg(test)]
mod tests;
