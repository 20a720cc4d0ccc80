//! The user who owns the other end of a connection within this machine.

#[cfg(target_os = "linux")]
pub(crate) use linux::of_connection;

/// The user who owns the socket at `peer` that is connected to `local`; `None` if that cannot be
/// found out.
#[cfg(not(target_os = "linux"))]
pub(crate) fn of_connection(
    _peer: std::net::SocketAddr,
    _local: std::net::SocketAddr,
) -> Option<u32> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
    use netlink_packet_sock_diag::SockDiagMessage;
    use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
    use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
    use netlink_sys::protocols::NETLINK_SOCK_DIAG;
    use netlink_sys::{Socket, SocketAddr as NetlinkAddr};
    use std::cell::RefCell;
    use std::net::{IpAddr, SocketAddr};

    /// The user who owns the socket at `peer` that is connected to `local`; `None` if that cannot
    /// be found out. Asks the kernel for this one socket (sock_diag(7)), which takes some
    /// microseconds however many there are; where it does not answer, reads `/proc/net/tcp`.
    pub(crate) fn of_connection(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        match ask(peer, local) {
            Some(Ok(owner)) => owner,
            Some(Err(())) | None => listed(peer, local),
        }
    }

    /// The kernel's answer: `Err` if it gave none that is understood, `Ok(None)` if the socket has
    /// no owner (any more).
    fn ask(peer: SocketAddr, local: SocketAddr) -> Option<Result<Option<u32>, ()>> {
        thread_local! {
            /// Opening one takes four system calls, so each thread keeps its own.
            static SOCKET: RefCell<Option<Socket>> = const { RefCell::new(None) };
        }
        SOCKET.with_borrow_mut(|kept| {
            let socket = kept.take().or_else(open)?;
            let answer = ask_with(&socket, peer, local)?;
            // A request has one answer, even if that is an error.
            *kept = Some(socket);
            Some(answer)
        })
    }

    fn open() -> Option<Socket> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).ok()?;
        socket.bind_auto().ok()?;
        socket.connect(&NetlinkAddr::new(0, 0)).ok()?;
        Some(socket)
    }

    fn ask_with(
        socket: &Socket,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<Result<Option<u32>, ()>> {
        let (family, mut id) = match peer.ip() {
            IpAddr::V4(_) => (AF_INET, SocketId::new_v4()),
            IpAddr::V6(_) => (AF_INET6, SocketId::new_v6()),
        };
        (id.source_address, id.source_port) = (peer.ip(), peer.port());
        (id.destination_address, id.destination_port) = (local.ip(), local.port());
        // INET_DIAG_NOCOOKIE of linux/inet_diag.h: whichever socket has these addresses.
        id.cookie = [0xff; 8];
        let request = InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: StateFlags::all(),
            socket_id: id,
        };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        socket.send(&bytes, 0).ok()?;
        let mut answer = Vec::with_capacity(4096);
        socket.recv(&mut answer, 0).ok()?;
        let answer = NetlinkMessage::<SockDiagMessage>::deserialize(&answer).ok()?;
        Some(match answer.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                let header = &response.header;
                let found = &header.socket_id;
                let owned = is_owner(header.uid, header.inode.into())
                    && found.source_port == peer.port()
                    && found.destination_port == local.port();
                Ok(owned.then_some(header.uid))
            }
            _ => Err(()),
        })
    }

    /// Whether a socket's number of a user means one. A socket that its process has closed has no
    /// inode; older kernels show the superuser for it, those from 6.17 on still its owner.
    fn is_owner(user: u32, inode: u64) -> bool {
        inode != 0 || user != 0
    }

    /// Looks the socket up in the kernel's list.
    fn listed(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        let file = if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
        find(&std::fs::read_to_string(file).ok()?, peer, local)
    }

    /// Finds a socket in the format of `/proc/net/tcp` (proc(5)).
    fn find(list: &str, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        let (peer, local) = (hex(peer), hex(local));
        let owner = |line: &str| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            (fields.next()? == peer && fields.next()? == local).then_some(())?;
            let mut fields = fields.skip(4);
            let owner = fields.next()?.parse().ok()?;
            let inode = fields.nth(1)?;
            is_owner(owner, inode.parse().ok()?).then_some(owner)
        };
        list.lines().find_map(owner)
    }

    /// An address as the list has it: words of 32 bits in the order of the machine.
    fn hex(address: SocketAddr) -> String {
        let word = |bytes: &[u8; 4]| format!("{:08X}", u32::from_ne_bytes(*bytes));
        let ip: String = match address.ip() {
            IpAddr::V4(ip) => word(&ip.octets()),
            IpAddr::V6(ip) => ip.octets().as_chunks::<4>().0.iter().map(word).collect(),
        };
        format!("{ip}:{:04X}", address.port())
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::net::{TcpListener, TcpStream};

        #[test]
        fn both_ways_find_the_owner_of_a_socket_and_no_other_of_a_closed_one() {
            let user = nix::unistd::getuid().as_raw();
            for address in ["127.0.0.1:0", "[::1]:0"] {
                let Ok(listener) = TcpListener::bind(address) else {
                    eprintln!("skipped: there is no address {address}");
                    continue;
                };
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (accepted, peer) = listener.accept().unwrap();
                let local = accepted.local_addr().unwrap();
                assert_eq!(listed(peer, local), Some(user));
                match ask(peer, local) {
                    Some(answer) => assert_eq!(answer, Ok(Some(user))),
                    None => eprintln!("skipped: the kernel has no sock_diag"),
                }
                drop(client);
                for owner in [listed(peer, local), of_connection(peer, local)] {
                    assert!(owner.is_none_or(|owner| owner == user && user != 0), "{owner:?}");
                }
            }
        }

        #[test]
        fn the_list_is_read_by_address_port_and_inode() {
            let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                   0: 0100007F:0019 00000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 11 1 0 100 0 0 10 0\n\
                   1: 0100007F:1F90 0200000A:0050 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0 20 4 30 10 -1\n\
                   2: 0100007F:1F91 0200000A:0050 06 00000000:00000000 03:00001771 00000000     0        0 0 3 0\n\
                   3: 0100007F:1F92 0200000A:0050 05 00000000:00000000 00:00000000 00000000  1000        0 0 1 0 20 4 30 10 -1\n\
                 short line\n";
            let at = |text: &str| text.parse().unwrap();
            let find = |peer, local| find(list, at(peer), at(local));
            assert_eq!(find("127.0.0.1:8080", "10.0.0.2:80"), Some(1000));
            assert_eq!(find("127.0.0.1:8081", "10.0.0.2:80"), None, "no inode");
            assert_eq!(find("127.0.0.1:8082", "10.0.0.2:80"), Some(1000), "closed, kernel 6.17");
            assert_eq!(find("127.0.0.1:8080", "10.0.0.2:81"), None);
        }
    }
}
