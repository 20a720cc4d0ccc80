//! One UDP port for QUIC and for sealed datagrams. This module reads all of it, and passes what is
//! QUIC's to quinn by a queue.

use super::seal::SEALED;
use crate::sockets::udp_at;
use crate::sync::lock;
use crate::target::canonical;
use crate::writable::{HasSocket, WhenWritable};
use quinn::udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::sync::mpsc;

/// Packets of QUIC that wait for quinn; it sends again what does not fit.
const QUIC_QUEUE: usize = 256;
/// Bytes that one read may return: as many as the kernel joins.
const READ: usize = 65_536;
/// Buffers that the kernel is asked for in each direction, in bytes. It gives what
/// `net.core.rmem_max` and `wmem_max` allow.
const BUFFER: usize = 4 << 20;
/// Most bytes of a group of datagrams: IP's limit without the headers of IPv4 and UDP.
const MOST_BYTES: usize = 65_507;
/// The bit that all packets of QUIC version 1 have (RFC 9000 section 17.2). The ends of a link do not
/// negotiate to grease it (RFC 9287).
const QUIC_BIT: u8 = 0x40;

/// The port.
pub(super) struct Port {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    address: SocketAddr,
}

/// A packet of QUIC, and where it came from.
struct QuicPacket {
    bytes: Vec<u8>,
    meta: RecvMeta,
}

/// Buffers for what is read at once.
pub(super) struct Buffers {
    bytes: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers { bytes: vec![0; READ * BATCH_SIZE], metas: [RecvMeta::default(); BATCH_SIZE] }
    }
}

/// Where packets of QUIC go. Their queue is full if quinn does not keep up.
pub(super) struct ToQuic(mpsc::Sender<QuicPacket>);

/// What a datagram is, by its first byte.
pub(super) enum Kind {
    /// For this program to open.
    Sealed,
    /// Passed to quinn.
    Quic,
    /// Neither.
    Other,
}

impl Port {
    /// Binds the port. The second and third values connect quinn to it.
    pub(super) fn bind(address: SocketAddr) -> io::Result<(Arc<Port>, ToQuic, Arc<QuicSocket>)> {
        let socket = udp_at(address)?;
        let io = tokio::net::UdpSocket::from_std(socket)?;
        let state = UdpSocketState::new((&io).into())?;
        for set in [UdpSocketState::set_send_buffer_size, UdpSocketState::set_recv_buffer_size] {
            // The kernel's default works, too.
            let _ = set(&state, (&io).into(), BUFFER);
        }
        let port = Arc::new(Port { address: io.local_addr()?, io, state });
        let (to_quic, incoming) = mpsc::channel(QUIC_QUEUE);
        let quic = QuicSocket { port: port.clone(), incoming: Mutex::new(incoming) };
        Ok((port, ToQuic(to_quic), Arc::new(quic)))
    }

    /// The port's address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// An address in the form of this socket: one for both families takes IPv4 addresses as
    /// `::ffff:192.0.2.1`.
    pub(super) fn own_form(&self, address: SocketAddr) -> SocketAddr {
        let address = canonical(address);
        match address.ip() {
            IpAddr::V4(v4) if self.address.is_ipv6() => {
                SocketAddr::new(v4.to_ipv6_mapped().into(), address.port())
            }
            _ => address,
        }
    }

    /// How many datagrams and bytes one [`Port::send`] may have.
    pub(super) fn group_limits(&self) -> (usize, usize) {
        (self.state.max_gso_segments(), MOST_BYTES)
    }

    /// Sends datagrams of `size` bytes each, of which the last may be shorter; from the address
    /// `from` of this machine, or from the one that the system chooses. Waits while the kernel's
    /// buffer is full.
    pub(super) async fn send(
        &self,
        (contents, size, ecn): (&[u8], usize, u8),
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(ecn),
            contents,
            segment_size: (contents.len() > size).then_some(size),
            src_ip: from,
        };
        loop {
            let sent = self
                .io
                .try_io(Interest::WRITABLE, || self.state.try_send((&self.io).into(), &transmit));
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.io.writable().await?
                }
                sent => return sent,
            }
        }
    }

    /// Reads what has arrived, passes QUIC's packets on, and every datagram to `each`, with its
    /// source, the address of this machine that it was sent to, if the system says, and its ECN bits.
    pub(super) async fn receive(
        &self,
        buffers: &mut Buffers,
        to_quic: &ToQuic,
        mut each: impl FnMut(Kind, &mut [u8], (SocketAddr, Option<IpAddr>, u8)),
    ) -> io::Result<()> {
        let Buffers { bytes, metas } = buffers;
        let count = loop {
            self.io.readable().await?;
            let mut slices: [IoSliceMut<'_>; BATCH_SIZE] = {
                let mut chunks = bytes.chunks_mut(READ);
                std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()))
            };
            let read = self.io.try_io(Interest::READABLE, || {
                self.state.recv((&self.io).into(), &mut slices, metas)
            });
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        for (meta, buffer) in metas.iter().zip(bytes.chunks_mut(READ)).take(count) {
            // The kernel joins datagrams of one source and size, whatever they are.
            let joined = &mut buffer[..meta.len.min(READ)];
            let ends = (meta.addr, meta.dst_ip, meta.ecn.map_or(0, |ecn| ecn as u8));
            for datagram in joined.chunks_mut(meta.stride.max(1)) {
                match datagram[0] {
                    SEALED => each(Kind::Sealed, datagram, ends),
                    first if first & QUIC_BIT != 0 => {
                        let len = datagram.len();
                        let meta = RecvMeta { len, stride: len, ..*meta };
                        // A queue that is full drops it, as a full socket does.
                        let _ = to_quic.0.try_send(QuicPacket { bytes: datagram.to_vec(), meta });
                        each(Kind::Quic, datagram, ends);
                    }
                    _ => each(Kind::Other, datagram, ends),
                }
            }
        }
        Ok(())
    }
}

/// The port as quinn sees it.
pub(super) struct QuicSocket {
    port: Arc<Port>,
    incoming: Mutex<mpsc::Receiver<QuicPacket>>,
}

impl fmt::Debug for QuicSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuicSocket({})", self.port.address)
    }
}

impl AsyncUdpSocket for QuicSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        WhenWritable::of(self.port.clone())
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.port
            .io
            .try_io(Interest::WRITABLE, || self.port.state.send((&self.port.io).into(), transmit))
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut incoming = lock(&self.incoming);
        let mut count = 0;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let packet = match incoming.poll_recv(cx) {
                Poll::Ready(Some(packet)) => packet,
                // Without a sender, the link has stopped, and nothing arrives any more.
                Poll::Ready(None) | Poll::Pending if count == 0 => return Poll::Pending,
                _ => break,
            };
            let len = packet.bytes.len().min(buf.len());
            buf[..len].copy_from_slice(&packet.bytes[..len]);
            *meta = RecvMeta { len, stride: len.max(1), ..packet.meta };
            count += 1;
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.port.address)
    }

    fn max_transmit_segments(&self) -> usize {
        self.port.state.max_gso_segments()
    }

    fn may_fragment(&self) -> bool {
        self.port.state.may_fragment()
    }
}

impl HasSocket for Port {
    fn socket(&self) -> &tokio::net::UdpSocket {
        &self.io
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Datagrams of one size, sealed and QUIC's and others, which the kernel may join.
    #[tokio::test]
    async fn datagrams_are_told_apart_after_the_kernel_joined_them() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (from, _, _) = Port::bind(any).unwrap();
        let (to, to_quic, quic) = Port::bind(any).unwrap();
        let firsts = [SEALED, 0x40, SEALED, 0xc3, 0x20, 0x00, SEALED];
        let contents: Vec<u8> =
            firsts.iter().zip(0u8..).flat_map(|(&first, at)| [first, at, at]).collect();
        from.send((&contents, 3, 2), to.address(), None).await.unwrap();
        let (mut buffers, mut sealed, mut others) = (Buffers::default(), Vec::new(), Vec::new());
        let mut quic_packets = 0;
        while sealed.len() + others.len() + quic_packets < firsts.len() {
            to.receive(&mut buffers, &to_quic, |kind, datagram, (source, local, ecn)| {
                assert_eq!(ecn, 2);
                assert_eq!((source, local), (from.address(), Some(any.ip())));
                match kind {
                    Kind::Sealed => sealed.push(datagram.to_vec()),
                    Kind::Quic => quic_packets += 1,
                    Kind::Other => others.push(datagram.to_vec()),
                }
            })
            .await
            .unwrap();
        }
        assert_eq!(sealed, [[SEALED, 0, 0], [SEALED, 2, 2], [SEALED, 6, 6]]);
        assert_eq!(others, [[0x20, 4, 4], [0, 5, 5]]);
        let mut bytes = [[0; 10]; 4];
        let mut metas = [RecvMeta::default(); 4];
        let count = std::future::poll_fn(|cx| {
            let mut slices = bytes.each_mut().map(|bytes| IoSliceMut::new(bytes));
            quic.poll_recv(cx, &mut slices, &mut metas)
        })
        .await
        .unwrap();
        assert_eq!((count, metas[0].len, metas[1].stride), (2, 3, 3));
        assert_eq!((&bytes[0][..3], &bytes[1][..3]), (&[0x40, 1, 1][..], &[0xc3, 3, 3][..]));
    }
}
