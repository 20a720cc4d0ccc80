//! Whole links over loopback, with devices in memory.

mod inner;

use super::device::Device;
use super::*;
use crate::keys;
use oncewire_packet::offload::VIRTIO_HEADER;
use std::time::SystemTime;
use tokio::sync::mpsc;

/// A device whose packets come from a test, and go there.
pub(super) struct MemoryDevice {
    input: tokio::sync::Mutex<mpsc::UnboundedReceiver<Vec<u8>>>,
    output: mpsc::UnboundedSender<Vec<u8>>,
}

impl MemoryDevice {
    pub(super) async fn recv(&self, frame: &mut [u8]) -> io::Result<usize> {
        let packet = self.input.lock().await.recv().await;
        match packet {
            Some(packet) => Ok(fill(frame, &packet)),
            // The test is over.
            None => std::future::pending().await,
        }
    }

    pub(super) fn try_recv(&self, frame: &mut [u8]) -> io::Result<usize> {
        let none = || io::Error::from(io::ErrorKind::WouldBlock);
        let mut input = self.input.try_lock().map_err(|_| none())?;
        input.try_recv().map(|packet| fill(frame, &packet)).map_err(|_| none())
    }

    pub(super) fn send(&self, frame: &[u8]) -> io::Result<usize> {
        let sent = self.output.send(frame[VIRTIO_HEADER..].to_vec());
        sent.map(|()| frame.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

fn fill(frame: &mut [u8], packet: &[u8]) -> usize {
    frame[..VIRTIO_HEADER].fill(0);
    frame[VIRTIO_HEADER..][..packet.len()].copy_from_slice(packet);
    VIRTIO_HEADER + packet.len()
}

/// Addresses of site `n`: 10.n.0.0/16.
fn address(site: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, site, 0, 1)
}

/// A UDP packet between two addresses of sites.
fn packet(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16), content: &[u8]) -> Vec<u8> {
    let len = (28 + content.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&len.to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend_from_slice(&from.octets());
    packet.extend_from_slice(&to.octets());
    let sum =
        packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet.extend_from_slice(&ports.0.to_be_bytes());
    packet.extend_from_slice(&ports.1.to_be_bytes());
    packet.extend_from_slice(&(len - 20).to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(content);
    packet
}

/// A site: its number, its link, and the ends of its device.
struct Site {
    number: u8,
    link: Link,
    input: mpsc::UnboundedSender<Vec<u8>>,
    output: mpsc::UnboundedReceiver<Vec<u8>>,
}

/// Keys of sites, which tell each other.
struct Keys(Vec<SecretKey>);

impl Keys {
    fn new(sites: usize) -> Keys {
        Keys((0..sites).map(|_| SecretKey::generate().unwrap()).collect())
    }

    fn peer(&self, site: u8, address: Option<SocketAddr>) -> PeerConfig {
        PeerConfig {
            peer: keys::Peer {
                name: Some(format!("site-{site}")),
                ..keys::Peer::from(self.0[usize::from(site)].public())
            },
            address: address.map(|address| address.to_string().parse().unwrap()),
            allowed: vec![format!("10.{site}.0.0/16").parse().unwrap()],
        }
    }

    /// Starts a site on a port, or on any, if it only connects.
    fn site(
        &self,
        number: u8,
        port: Option<Bound>,
        peers: Vec<PeerConfig>,
        timing: Timing,
    ) -> Site {
        self.site_with(number, port, peers, timing, Shaping::default())
    }

    /// The same, for a site that sends as `shaping` says.
    fn site_with(
        &self,
        number: u8,
        port: Option<Bound>,
        peers: Vec<PeerConfig>,
        timing: Timing,
        shaping: Shaping,
    ) -> Site {
        let (input, from_test) = mpsc::unbounded_channel();
        let (to_test, output) = mpsc::unbounded_channel();
        let device = MemoryDevice { input: tokio::sync::Mutex::new(from_test), output: to_test };
        let listen = port.as_ref().map(|(port, ..)| port.address());
        // Where packets have to wait for the path, repeats must not make them small.
        let cache = if shaping.rate.is_some() { 0 } else { 8 << 20 };
        let config = LinkConfig {
            secret: self.0[usize::from(number)].clone(),
            listen,
            peers,
            matching: Matching { cache, policy: Policy::Acked, sharing: Sharing::None },
            largest_datagram: largest_datagram(PATH_MTU),
            device: DeviceConfig {
                name: format!("site-{number}"),
                addresses: Vec::new(),
                mtu: device_mtu(largest_datagram(PATH_MTU)),
                routes: Vec::new(),
            },
            shaping,
            timing,
            agent: "test".into(),
        };
        let bound = port.unwrap_or_else(any_port);
        let link = start_on(config, bound, Device::Memory(device)).unwrap();
        Site { number, link, input, output }
    }
}

fn any_port() -> Bound {
    Port::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap()
}

fn quick() -> Timing {
    Timing {
        keep_alive: Duration::from_millis(100),
        check: Duration::from_millis(20),
        old_keys: Duration::from_millis(500),
        ..Timing::default()
    }
}

impl Site {
    fn send(&self, to: u8, content: &[u8]) {
        self.input.send(packet(address(self.number), address(to), (1, 2), content)).unwrap();
    }

    /// The content of the next packet, which must be from this site.
    async fn receive(&mut self, from: u8) -> Vec<u8> {
        let packet = wait(self.output.recv()).await.expect("a packet");
        assert_eq!(packet[12..16], address(from).octets());
        packet[28..].to_vec()
    }

    /// Sends until a packet arrives, and checks that the answer does.
    async fn exchange(&mut self, other: &mut Site) {
        let both_up = async {
            while !(self.is_up(other.number) && other.is_up(self.number)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        wait(both_up).await;
        self.send(other.number, b"question");
        assert_eq!(other.receive(self.number).await, b"question");
        other.send(self.number, b"answer");
        assert_eq!(self.receive(other.number).await, b"answer");
    }

    fn peer(&self, site: u8) -> PeerStatus {
        let name = Some(format!("site-{site}"));
        self.link.status().peers.into_iter().find(|peer| peer.name == name).unwrap()
    }

    fn is_up(&self, site: u8) -> bool {
        self.peer(site).connection.is_some()
    }

    fn drops(&self) -> Drops {
        self.link.status().drops
    }
}

async fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("in time")
}

async fn until(mut condition: impl FnMut() -> bool) {
    let holds = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    wait(holds).await;
}

/// Site 0 is the hub: 1 and 2 connect to it, and 2 to 1.
#[tokio::test(flavor = "multi_thread")]
async fn three_sites_share_ports_and_devices() {
    let keys = Keys::new(3);
    let [zero, one] = [any_port(), any_port()];
    let [at_zero, at_one] = [zero.0.address(), one.0.address()];
    let mut zero = keys.site(0, Some(zero), vec![keys.peer(1, None), keys.peer(2, None)], quick());
    let mut one =
        keys.site(1, Some(one), vec![keys.peer(2, None), keys.peer(0, Some(at_zero))], quick());
    let mut two =
        keys.site(2, None, vec![keys.peer(0, Some(at_zero)), keys.peer(1, Some(at_one))], quick());
    one.exchange(&mut zero).await;
    two.exchange(&mut zero).await;
    two.exchange(&mut one).await;
    assert_eq!(one.peer(0).connection.unwrap().address, at_zero.to_string());
    // Each peer has its own counters.
    for (site, others) in [(&zero, [1, 2]), (&one, [0, 2]), (&two, [0, 1])] {
        for other in others {
            let peer = site.peer(other);
            assert_eq!((peer.traffic.sent.packets, peer.traffic.received.packets), (1, 1));
        }
    }
    // A network that nobody has, and a source of a third site.
    one.send(77, b"nobody");
    one.input.send(packet(address(2), address(0), (1, 2), b"not from one")).unwrap();
    one.send(0, b"from one");
    assert_eq!(zero.receive(1).await, b"from one");
    assert_eq!(zero.peer(1).drops.source_not_allowed, 1);
    assert_eq!(zero.peer(2).drops, Drops::default());
    assert_eq!(one.drops().destination_not_allowed, 1);
    // One peer less.
    two.link.stop().await;
    until(|| !zero.is_up(2) && !one.is_up(2)).await;
    zero.send(2, b"to nobody");
    one.exchange(&mut zero).await;
    until(|| zero.peer(2).drops.link_down == 1).await;
    let why = zero.peer(2).last_failure.unwrap();
    assert!(why.contains("has stopped"), "{why}");
}

/// The key of site 1 expires at the hub while packets flow, that of site 2 had expired before.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_expires_ends_the_connection_and_opens_no_other() {
    let keys = Keys::new(3);
    let hub = any_port();
    let at = hub.0.address();
    let expiring = |site, expires| {
        let mut peer = keys.peer(site, None);
        peer.peer.expires = Some(expires);
        peer
    };
    let soon = SystemTime::now() + Duration::from_secs(2);
    let peers = vec![expiring(1, soon), expiring(2, SystemTime::UNIX_EPOCH)];
    let mut hub = keys.site(0, Some(hub), peers, quick());
    let mut one = keys.site(1, None, vec![keys.peer(0, Some(at))], quick());
    let two = keys.site(2, None, vec![keys.peer(0, Some(at))], quick());
    one.exchange(&mut hub).await;
    until(|| !hub.is_up(1) && !one.is_up(0)).await;
    assert!(SystemTime::now() >= soon);
    assert_eq!(hub.peer(1).last_failure.as_deref(), Some("the key has expired"));
    // Both try, and are refused.
    let refused = |site: &Site| {
        let failure = site.peer(0).last_failure;
        failure.is_some_and(|failure| failure.contains("does not accept this end's key"))
    };
    until(|| refused(&one) && refused(&two)).await;
    assert!(!hub.is_up(1) && !hub.is_up(2));
}

/// The end that dials does not dial a peer whose key has expired.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_whose_key_has_expired_is_not_dialed() {
    let keys = Keys::new(2);
    let other = any_port();
    let mut peer = keys.peer(1, Some(other.0.address()));
    peer.peer.expires = Some(SystemTime::UNIX_EPOCH);
    let one = keys.site(1, Some(other), vec![keys.peer(0, None)], quick());
    let zero = keys.site(0, None, vec![peer], quick());
    until(|| zero.peer(1).last_failure.is_some_and(|why| why.contains("has expired"))).await;
    assert!(!zero.is_up(1) && one.peer(0).last_failure.is_none());
}

/// Sends packets until the sender's log is in use.
async fn until_logged(from: &Site, to: &mut Site) {
    while from.peer(to.number).traffic.sent.logged_bytes == 0 {
        from.send(to.number, &[7; 100]);
        assert_eq!(to.receive(from.number).await, [7; 100]);
    }
}

/// Sends content in packets, each once the one before has arrived. Returns the bytes of datagrams.
async fn send_all(from: &Site, to: &mut Site, content: &[u8]) -> u64 {
    let sent = || from.peer(to.number).traffic.sent.bytes;
    let before = sent();
    for part in content.chunks(1300) {
        from.send(to.number, part);
        assert_eq!(to.receive(from.number).await, part);
    }
    from.peer(to.number).traffic.sent.bytes - before
}

/// Content is sent once. Logs outlive the keys, and begin anew when an end restarts.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_other_end_has_is_not_sent_again() {
    let keys = Keys::new(2);
    let zero = any_port();
    let at_zero = zero.0.address();
    let mut zero = keys.site(0, Some(zero), vec![keys.peer(1, None)], quick());
    let timing = Timing { renewal: Duration::from_millis(300), ..quick() };
    let mut one = keys.site(1, None, vec![keys.peer(0, Some(at_zero))], timing);
    one.exchange(&mut zero).await;
    let numbers = (0..6_250).flat_map(|_| crate::endpoint::random().unwrap());
    let content: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    until_logged(&one, &mut zero).await;
    let first = send_all(&one, &mut zero, &content).await;
    assert!(first > content.len() as u64);
    // In the meantime the keys are renewed.
    let age = || one.peer(0).connection.map_or(Duration::ZERO, |it| it.key_age);
    let before = age();
    until(|| age() < before).await;
    // All is acknowledged within a second.
    let mut passes = 0;
    while send_all(&one, &mut zero, &content).await * 5 > first {
        passes += 1;
        assert!(passes < 100, "nothing is found again");
    }
    assert_eq!(one.peer(0).traffic.sent.logs, 1);
    assert_eq!((zero.peer(1).traffic.received.rejected, one.peer(0).traffic.sent.rejected), (0, 0));
    // The other end has lost its log.
    one.link.stop().await;
    let mut again = keys.site(1, None, vec![keys.peer(0, Some(at_zero))], quick());
    again.exchange(&mut zero).await;
    until_logged(&again, &mut zero).await;
    assert!(send_all(&again, &mut zero, &content).await > content.len() as u64);
    assert_eq!(zero.peer(1).traffic.received.stale, 0);
}

/// Both ends listen, and connect to each other again and again: of connections made at the same time,
/// one stays.
#[tokio::test(flavor = "multi_thread")]
async fn both_ends_may_connect() {
    for _ in 0..5 {
        let keys = Keys::new(2);
        let ports = [any_port(), any_port()];
        let [at_zero, at_one] = [ports[0].0.address(), ports[1].0.address()];
        let [zero, one] = ports;
        let mut zero = keys.site(0, Some(zero), vec![keys.peer(1, Some(at_one))], quick());
        let mut one = keys.site(1, Some(one), vec![keys.peer(0, Some(at_zero))], quick());
        zero.exchange(&mut one).await;
        // Once spare connections are gone, both use the same one.
        let connection = |site: &Site| {
            let peer = &site.link.shared.peers[0];
            peer.keys.sealing().map(|keyed| (keyed.our_index, keyed.their_index))
        };
        until(|| {
            let one_each = |site: &Site| site.link.shared.indices.len() == 1;
            let ends = connection(&zero).zip(connection(&one));
            one_each(&zero)
                && one_each(&one)
                && ends.is_some_and(|((a, b), (c, d))| (a, b) == (d, c))
        })
        .await;
        zero.exchange(&mut one).await;
    }
}

/// Keys are renewed at half of their datagrams, and seal none beyond all of them.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_renewed_and_have_an_end() {
    let keys = Keys::new(2);
    let port = any_port();
    let at_zero = port.0.address();
    let timing = Timing { renewal_datagrams: 100, most_datagrams: 200, ..quick() };
    let mut zero = keys.site(0, Some(port), vec![keys.peer(1, None)], timing);
    let mut one = keys.site(1, None, vec![keys.peer(0, Some(at_zero))], timing);
    one.exchange(&mut zero).await;
    let index = |site: &Site| site.link.shared.peers[0].keys.sealing().unwrap().our_index;
    let first = index(&one);
    for nth in 0..3u8 {
        let before = index(&one);
        // One datagram each, and the answers count as well.
        for _ in 0..101 {
            one.send(0, &[nth]);
            assert_eq!(zero.receive(1).await, [nth]);
        }
        until(|| index(&one) != before).await;
    }
    assert_ne!(index(&one), first);
    // Without new connections, a key ends, and the link is silent rather than unsafe.
    zero.link.endpoint.set_server_config(None);
    one.exchange(&mut zero).await;
    while one.drops().keys_used_up == 0 {
        one.send(0, b"x");
        tokio::task::yield_now().await;
    }
    one.send(0, b"x");
    until(|| one.drops().keys_used_up >= 2).await;
    let keyed = one.link.shared.peers[0].keys.sealing().unwrap();
    let received = zero.link.shared.peers[0].keys.sealing().unwrap();
    assert!(keyed.used() > 200, "{}", keyed.used());
    until(|| received.opening.used() == 200).await;
}

/// Forged, repeated and unknown datagrams: only the first kind costs an opening, and it wears the key.
#[tokio::test(flavor = "multi_thread")]
async fn floods_cost_no_openings() {
    let keys = Keys::new(2);
    let port = any_port();
    let at_zero = port.0.address();
    let timing = Timing { renewal_forged: 50, most_forged: 100, ..quick() };
    let mut zero = keys.site(0, Some(port), vec![keys.peer(1, None)], timing);
    let mut one = keys.site(1, None, vec![keys.peer(0, Some(at_zero))], Timing::default());
    one.exchange(&mut zero).await;
    let keyed = zero.link.shared.peers[0].keys.sealing().unwrap();
    // Openings beside those of the other end's datagrams, such as acknowledgments.
    let failed = || keyed.opening.failed();
    let opened = |site: &Site| {
        let keyed = site.link.shared.peers[0].keys.sealing().unwrap();
        (keyed.opening.used(), site.peer(1).traffic.received.datagrams)
    };
    let stranger = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let header = |index: u32, counter: u32| {
        let mut datagram = [0; 100];
        datagram[0] = seal::SEALED;
        datagram[1..4].copy_from_slice(&index.to_le_bytes()[..3]);
        datagram[4..8].copy_from_slice(&counter.to_le_bytes());
        datagram
    };
    let indices: Vec<u32> = (0..2000).filter(|&index| index != keyed.our_index).collect();
    for (nth, &index) in indices.iter().enumerate() {
        stranger.send_to(&header(index, 1), at_zero).unwrap();
        // Counter 0 was received.
        stranger.send_to(&header(keyed.our_index, 0), at_zero).unwrap();
        // Loopback's buffer is finite.
        let expected = nth as u64 + 1;
        until(|| zero.drops().unknown_index == expected && zero.drops().replayed == expected).await;
    }
    assert_eq!(failed(), 0);
    let (opened, datagrams) = opened(&zero);
    assert!(opened <= datagrams, "{opened} openings for {datagrams} datagrams");
    // Forgeries do cost: at half of the limit the key is given up.
    for nth in 0..50 {
        stranger.send_to(&header(keyed.our_index, 1000 + nth), at_zero).unwrap();
    }
    until(|| failed() == 50).await;
    until(|| {
        zero.peer(1).last_failure.is_some() || !zero.link.shared.peers[0].keys.is_sealing(&keyed)
    })
    .await;
    one.exchange(&mut zero).await;
    assert!(!zero.link.shared.peers[0].keys.is_sealing(&keyed));
    assert_eq!(zero.link.status().traffic.forged, 50);
}

/// At all of the limit, a key opens nothing any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_met_too_many_forgeries_opens_nothing() {
    let keys = Keys::new(2);
    let port = any_port();
    let at_zero = port.0.address();
    let timing = Timing { renewal_forged: u64::MAX, most_forged: 10, ..quick() };
    let mut zero = keys.site(0, Some(port), vec![keys.peer(1, None)], timing);
    let mut one = keys.site(1, None, vec![keys.peer(0, Some(at_zero))], quick());
    one.exchange(&mut zero).await;
    let keyed = zero.link.shared.peers[0].keys.sealing().unwrap();
    let mut datagram = [0; 100];
    datagram[..4].copy_from_slice(&(u32::from(seal::SEALED) | keyed.our_index << 8).to_le_bytes());
    let stranger = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for counter in 100..120u32 {
        datagram[4..8].copy_from_slice(&counter.to_le_bytes());
        stranger.send_to(&datagram, at_zero).unwrap();
    }
    until(|| zero.drops().keys_used_up == 10).await;
    assert_eq!(keyed.opening.failed(), 10);
    one.send(0, b"too late");
    until(|| zero.drops().keys_used_up == 11).await;
}

/// A stranger's handshakes are counted, and are not the peer's failures.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_kept_apart() {
    let keys = Keys::new(3);
    let port = any_port();
    let at_zero = port.0.address();
    let zero = keys.site(0, Some(port), vec![keys.peer(1, None)], quick());
    let two = keys.site(2, None, vec![keys.peer(0, Some(at_zero))], quick());
    until(|| zero.link.status().refused_handshakes >= 3).await;
    let status = zero.link.status();
    assert!(status.last_refused.unwrap().contains("is not authorized"));
    assert_eq!(zero.peer(1).last_failure, None);
    let why = two.peer(0).last_failure.unwrap();
    assert!(why.contains("does not accept"), "{why}");
}

/// Of many handshakes at a time, later ones must show their address first, which costs no state.
#[tokio::test(flavor = "multi_thread")]
async fn many_handshakes_must_show_their_addresses() {
    let keys = Keys::new(2);
    let port = any_port();
    let at_zero = port.0.address();
    let mut zero = keys.site(0, Some(port), vec![keys.peer(1, None)], quick());
    // First packets of real handshakes, whose answers arrive nowhere.
    let sink = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at_sink = sink.local_addr().unwrap();
    let (mut first, mut seen) = ([0; 2000], std::collections::HashSet::new());
    for _ in 0..12 {
        let one = keys.site(1, None, vec![keys.peer(0, Some(at_sink))], quick());
        // Not what an earlier one sends again: by the connection's ID (RFC 9000 section 17.2).
        let len = loop {
            let (len, _) = sink.recv_from(&mut first).unwrap();
            if seen.insert(first[6..][..usize::from(first[5])].to_vec()) {
                break len;
            }
        };
        drop(one);
        let from = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        from.send_to(&first[..len], at_zero).unwrap();
        let mut answer = [0; 2000];
        from.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        from.recv_from(&mut answer).unwrap();
    }
    assert_eq!(zero.link.status().retries, 4);
    // A peer that does receive there gets through.
    let mut one = keys.site(1, None, vec![keys.peer(0, Some(at_zero))], quick());
    one.exchange(&mut zero).await;
    assert_eq!(zero.link.status().retries, 5);
}

/// More sites than handshakes may be in progress come at once, as when a hub restarts: all connect.
#[tokio::test(flavor = "multi_thread")]
async fn many_sites_connect_at_once() {
    const SITES: u8 = 80;
    let keys = Keys::new(usize::from(SITES) + 1);
    let port = any_port();
    let at_zero = port.0.address();
    let peers = (1..=SITES).map(|site| keys.peer(site, None)).collect();
    let mut zero = keys.site(0, Some(port), peers, Timing::default());
    let site =
        |number| keys.site(number, None, vec![keys.peer(0, Some(at_zero))], Timing::default());
    let mut sites: Vec<Site> = (1..=SITES).map(site).collect();
    for site in &mut sites {
        site.exchange(&mut zero).await;
    }
    let status = zero.link.status();
    assert!(status.peers.iter().all(|peer| peer.traffic.received.packets == 1));
    assert_eq!(status.traffic.received.packets, u64::from(SITES));
    assert_eq!((status.drops.unknown_index, status.drops.link_down), (0, 0));
}

/// Datagrams of the link that are routed into its device are dropped, whether the peer is connected
/// or not.
#[tokio::test(flavor = "multi_thread")]
async fn own_traffic_is_recognized() {
    let keys = Keys::new(2);
    // Nobody listens there.
    let silent = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = silent.local_addr().unwrap();
    let one = keys.site(1, None, vec![keys.peer(0, Some(to))], quick());
    until(|| lock(&one.link.shared.peers[0].dialed).contains(&to)).await;
    let own = one.link.shared.port.address().port();
    let send = |ports| {
        one.input.send(packet(address(1), Ipv4Addr::LOCALHOST, ports, b"x")).unwrap();
    };
    send((own, to.port()));
    until(|| one.peer(0).drops.own_traffic == 1).await;
    for other in [(own, to.port() ^ 1), (own ^ 1, to.port())] {
        send(other);
    }
    until(|| one.drops().destination_not_allowed == 2).await;
    assert_eq!(one.drops().own_traffic, 1);
}
