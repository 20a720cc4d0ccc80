//! Headers of IP packets through both halves of two ends, over a path that loses and reorders.

mod compared;

use super::*;
use oncewire_codec::{Domain, varint};
use oncewire_packet::checksum::Sum;
use oncewire_packet::fields::UDP;
use oncewire_packet::offload::{self, Shape, VIRTIO_HEADER};
use oncewire_packet::{CaptureReader, LinkType};
use oncewire_second::link as second;
use oncewire_session::link::{Batch, Delivered, Feedback, HEADER, Inbound, Receiver, Sender, TAG};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest packet, so that it fits a datagram with a whole header.
const MOST: usize = 65_000;

/// Bytes of headers and of their sections, and how many there are.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    packets: u64,
    headers: u64,
    sections: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.packets += other.packets;
        self.headers += other.headers;
        self.sections += other.sections;
    }

    fn of(stats: oncewire_session::link::SenderStats) -> Sums {
        let (headers, sections) = (stats.header_bytes, stats.section_bytes);
        Sums { packets: stats.packets, headers, sections }
    }

    fn since(self, before: Sums) -> Sums {
        Sums {
            packets: self.packets - before.packets,
            headers: self.headers - before.headers,
            sections: self.sections - before.sections,
        }
    }

    fn per_packet(self) -> (f64, f64) {
        let packets = self.packets.max(1) as f64;
        (self.headers as f64 / packets, self.sections as f64 / packets)
    }
}

struct End {
    sender: Sender,
    receiver: Receiver,
    feedback: Feedback,
    batch: Batch,
    delivered: Delivered,
    /// What the other end has sent and this one has not delivered.
    expected: HashMap<Vec<u8>, usize>,
    /// A second receiver, which must restore the same packets.
    second: second::Receiver,
}

impl End {
    fn new() -> End {
        End {
            sender: Sender::new(65_535).with_layout(layout),
            receiver: Receiver::default().with_layout(layout),
            feedback: Feedback::default(),
            batch: Batch::default(),
            delivered: Delivered::with_room(VIRTIO_HEADER),
            expected: HashMap::new(),
            second: second::Receiver::new(0, 0, second::places),
        }
    }
}

/// Datagrams to an end by time of arrival, with their counters.
type Way = BTreeMap<(Instant, u64), Vec<u8>>;

struct World {
    ends: [End; 2],
    ways: [Way; 2],
    now: Instant,
    rng: fastrand::Rng,
    /// Time that a datagram is under way at least.
    delay: Duration,
    /// In hundredths.
    loss: u8,
    reordering: Duration,
    /// TCP segments with payload, and those of them that refer to their own slot.
    data: Sums,
    referring: Sums,
}

impl World {
    fn new(loss: u8, reordering: Duration) -> World {
        World {
            ends: [End::new(), End::new()],
            ways: Default::default(),
            now: Instant::now(),
            rng: fastrand::Rng::with_seed(1),
            delay: Duration::from_millis(20),
            loss,
            reordering,
            data: Sums::default(),
            referring: Sums::default(),
        }
    }

    fn send(&mut self, from: usize, packet: &[u8]) {
        let mut frame = [&[0; VIRTIO_HEADER], packet].concat();
        let Ok(offered) = offload::from_device(&mut frame) else { return };
        let (header, payload) = offered.packet.split_at(offered.headers.total());
        let implied = implied(offered.left_out);
        let sender = &mut self.ends[from].sender;
        let before = Sums::of(sender.stats());
        sender
            .enqueue(Inbound {
                header,
                open_checksum: false,
                implied,
                segment: None,
                payload,
                domain: Domain(0),
            })
            .expect("it fits");
        let one = Sums::of(sender.stats()).since(before);
        let is_data = offered.headers.protocol == TCP && !payload.is_empty();
        *self.ends[1 - from].expected.entry(packet.to_vec()).or_default() += 1;
        self.transmit(from);
        if is_data {
            self.data.add(one);
            if refers_to_its_slot(&self.ends[from].batch.bytes()[HEADER..]) {
                self.referring.add(one);
            }
        }
    }

    fn transmit(&mut self, from: usize) {
        let end = &mut self.ends[from];
        end.sender.transmit(self.now, &mut end.batch);
        for (counter, datagram) in end.batch.datagrams_mut() {
            if self.rng.u8(..100) >= self.loss {
                let plain = datagram[HEADER..datagram.len() - TAG].to_vec();
                let late = self.reordering.mul_f64(self.rng.f64());
                self.ways[1 - from].insert((self.now + self.delay + late, counter), plain);
            }
        }
    }

    /// Lets time pass until `then`.
    fn advance(&mut self, then: Instant) {
        loop {
            let arrival =
                (0..2).filter_map(|to| Some((self.ways[to].first_key_value()?.0.0, to, true)));
            let due = (0..2).filter_map(|at| Some((self.ends[at].sender.deadline()?, at, false)));
            let Some((at, end, arrives)) = arrival.chain(due).min().filter(|next| next.0 <= then)
            else {
                break;
            };
            self.now = self.now.max(at);
            if arrives {
                self.arrive(end);
            } else {
                self.transmit(end);
            }
        }
        self.now = self.now.max(then);
    }

    fn arrive(&mut self, to: usize) {
        let Some(((_, counter), plain)) = self.ways[to].pop_first() else { return };
        let end = &mut self.ends[to];
        end.delivered.clear();
        if !end.receiver.admits(counter) {
            return;
        }
        let next = end.sender.next_counter();
        end.receiver
            .receive(counter, &plain, next, self.now, &mut end.delivered)
            .expect("a datagram of a correct peer");
        assert_eq!(end.second.datagram(0, counter, &plain, next), second::Verdict::Processed);
        let mut own = end.second.delivered.drain(..).map(|it| it.whole().expect("a packet"));
        for (delivery, frame) in end.delivered.packets_mut() {
            let left_out = left_out(delivery.implied);
            let shape = Shape::Packet { open_checksum: delivery.open_checksum, left_out };
            offload::to_device(frame, delivery.header, shape).expect("a packet");
            let packet = &frame[VIRTIO_HEADER..];
            let sent = end.expected.get_mut(packet).filter(|sent| **sent > 0);
            *sent.expect("it was sent, and is not delivered yet") -= 1;
            assert_eq!(own.next().as_deref(), Some(packet));
        }
        assert_eq!(own.next(), None);
        drop(own);
        end.receiver.feedback(self.now, &mut end.feedback);
        assert!(end.sender.feedback(&mut end.feedback, self.now));
    }

    /// Lets everything arrive. Returns how many packets did not.
    fn settle(&mut self) -> usize {
        self.advance(self.now + Duration::from_secs(60));
        self.ends.iter().map(|end| end.expected.values().sum::<usize>()).sum()
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::of(self.ends[0].sender.stats());
        sums.add(Sums::of(self.ends[1].sender.stats()));
        sums
    }

    fn missing_headers(&self) -> u64 {
        self.ends.iter().map(|end| end.receiver.stats().missing_headers).sum()
    }
}

/// Whether the first record of a datagram is made from a reference of its own slot.
fn refers_to_its_slot(plain: &[u8]) -> bool {
    let mut rest = &plain[1..];
    let is_last = plain[0] & 0x10 != 0;
    for _ in 0..if is_last { 1 } else { 2 } {
        varint::take(&mut rest).expect("a length and a slot");
    }
    rest[0] & 0x84 == 0
}

/// The end that a packet comes from: that with the lower address.
fn side(packet: &[u8]) -> Option<usize> {
    let headers = Headers::parse(packet).ok()?;
    Some(usize::from(headers.source > headers.destination))
}

#[derive(Clone, Debug, Default)]
struct Ip {
    v6: bool,
    protocol: u8,
    ports: (u16, u16),
    identification: u16,
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    options: Vec<u8>,
    /// IPv6 extension headers, with the number of the first.
    extensions: (u8, Vec<u8>),
    payload: Vec<u8>,
}

impl Ip {
    /// A packet with right lengths and checksums.
    fn packet(&self) -> Vec<u8> {
        let mut transport = Vec::new();
        if self.protocol == TCP || self.protocol == UDP {
            transport.extend(self.ports.0.to_be_bytes());
            transport.extend(self.ports.1.to_be_bytes());
        }
        if self.protocol == TCP {
            transport.extend(self.sequence.to_be_bytes());
            transport.extend(self.acknowledgment.to_be_bytes());
            let offset = (5 + self.options.len() / 4) as u8;
            transport.extend([offset << 4, self.flags, 0x10, 0, 0, 0, 0, 0]);
            transport.extend(&self.options);
        } else if self.protocol == UDP {
            transport.extend((8 + self.payload.len() as u16).to_be_bytes());
            transport.extend([0, 0]);
        }
        transport.extend(&self.payload);
        let len = transport.len();
        let mut packet = if self.v6 {
            let len = ((self.extensions.1.len() + len) as u16).to_be_bytes();
            let next = if self.extensions.1.is_empty() { self.protocol } else { self.extensions.0 };
            let mut packet = vec![0x60, 0, 0, 0, len[0], len[1], next, 64];
            packet.extend([0xfd; 16]);
            packet.extend([0xfe; 16]);
            packet.extend(&self.extensions.1);
            packet
        } else {
            let len = (20 + len as u16).to_be_bytes();
            let id = self.identification.to_be_bytes();
            let mut packet = vec![0x45, 0, len[0], len[1], id[0], id[1], 0x40, 0, 64];
            packet.extend([self.protocol, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]);
            let checksum = Sum::default().plus(&packet).checksum().to_be_bytes();
            packet[10..12].copy_from_slice(&checksum);
            packet
        };
        let network = packet.len();
        packet.extend(&transport);
        let headers = Headers::parse(&packet).expect("a packet");
        if let Some(at) = headers.checksum_at() {
            let pseudo =
                Sum::of_pseudo_header(headers.source, headers.destination, self.protocol, len);
            let checksum = pseudo.plus(&packet[network..]).checksum();
            let checksum = if checksum == 0 { 0xffff } else { checksum };
            packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
        packet
    }
}

fn timestamps(value: u32, echo: u32) -> Vec<u8> {
    [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
}

#[test]
fn fields_of_headers() {
    let tcp = Ip { protocol: TCP, options: timestamps(1, 2), ..Ip::default() };
    let all = Fields {
        addresses: (12, 20),
        ports: (20, 24),
        sequence: Some(24),
        acknowledgment: Some(28),
        window: Some(34),
        flags: Some(33),
        identification: Some(4),
        timestamps: Some(44),
        checksum: Some(36),
    };
    assert_eq!(layout(&tcp.packet()), all);
    let udp = Ip {
        v6: true,
        protocol: UDP,
        extensions: (60, vec![UDP, 0, 1, 4, 0, 0, 0, 0]),
        ..Ip::default()
    };
    let fields =
        Fields { addresses: (8, 40), ports: (48, 52), checksum: Some(54), ..Fields::default() };
    assert_eq!(layout(&udp.packet()), fields);
    // ICMP, and what is not IP.
    let icmp = Ip { protocol: 1, payload: vec![8, 0, 1, 2], ..Ip::default() };
    let fields = Fields { addresses: (12, 20), identification: Some(4), ..Fields::default() };
    assert_eq!(layout(&icmp.packet()[..20]), fields);
    assert_eq!(layout(&[0x45; 3]), Fields::default());
    assert_eq!(layout(&[]), Fields::default());
}

/// Every kind of packet comes back as it was, and its header takes few bytes once the peer has
/// acknowledged one of its flow.
#[test]
fn packets_of_every_kind_are_restored_and_short() {
    let v6 = |protocol, extensions| Ip { v6: true, protocol, extensions, ..Ip::default() };
    let kinds: [(&str, Ip, usize); 8] = [
        ("TCP", Ip { protocol: TCP, options: timestamps(0, 0), ..Ip::default() }, 9),
        ("TCP without options", Ip { protocol: TCP, ..Ip::default() }, 6),
        ("UDP", Ip { protocol: UDP, ..Ip::default() }, 4),
        ("ICMP", Ip { protocol: 1, ..Ip::default() }, 4),
        ("SCTP", Ip { protocol: 132, ..Ip::default() }, 4),
        ("TCP in IPv6", Ip { v6: true, protocol: TCP, ..Ip::default() }, 5),
        (
            "UDP after options",
            v6(UDP, (60, vec![UDP, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
            2,
        ),
        ("fragment", v6(44, (60, vec![44, 0, 1, 4, 0, 0, 0, 0])), 2),
    ];
    for (name, mut ip, most) in kinds {
        let mut world = World::new(0, Duration::ZERO);
        (ip.sequence, ip.identification, ip.ports) = (u32::MAX - 9000, u16::MAX - 9, (4000, 80));
        let mut last = 0;
        for round in 0..20u32 {
            ip.sequence = ip.sequence.wrapping_add(1400);
            ip.identification = ip.identification.wrapping_add(1);
            if !ip.options.is_empty() {
                ip.options = timestamps((u32::MAX - 5).wrapping_add(round), 7);
            }
            ip.payload = vec![round as u8; 1400];
            let before = world.sums();
            world.send(0, &ip.packet());
            last = world.sums().since(before).sections as usize;
            world.advance(world.now + Duration::from_secs(2));
        }
        assert_eq!(world.settle(), 0, "{name}");
        assert!(last <= most, "{name}: {last} bytes");
    }
}

/// The worked example of `docs/LINK.md`, section 4.5.
#[test]
fn the_example_of_the_document() {
    let mut world = World::new(0, Duration::ZERO);
    let mut sections = Vec::new();
    for at in 0..2u32 {
        let ip = Ip {
            protocol: TCP,
            ports: (4000, 80),
            identification: 7 + at as u16,
            sequence: 1000 + 1448 * at,
            acknowledgment: 2000,
            flags: 0x10,
            options: timestamps(100 + 3 * at, 50),
            payload: vec![1; 1448],
            ..Ip::default()
        };
        let before = world.sums();
        world.send(0, &ip.packet());
        let len = world.sums().since(before).sections as usize;
        // After the head and the length of the record.
        sections.push(world.ends[0].batch.bytes()[HEADER + 3..][..len].to_vec());
        world.advance(world.now + Duration::from_secs(2));
    }
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/LINK.md");
    let document = fs::read_to_string(document).expect("the document");
    let document: String = document.split_whitespace().collect();
    for section in sections {
        let hex: String = section.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(document.contains(&hex), "{hex}");
    }
}

/// Options that come and go, as those of SYN and selective acknowledgments do.
#[test]
fn options_of_any_length_are_restored() {
    for (loss, reordering) in [(0, 0), (10, 5), (50, 200)] {
        let mut world = World::new(loss, Duration::from_millis(reordering));
        let mut rng = fastrand::Rng::with_seed(3);
        let mut ip = Ip { protocol: TCP, ports: (4000, 80), ..Ip::default() };
        for _ in 0..2000 {
            ip.options = timestamps(rng.u32(..9), 7);
            for _ in 0..[0, 0, 0, 1, 2, 3][rng.usize(..6)] {
                ip.options.extend([1, 1, 5, 10]);
                ip.options.extend(rng.u64(..).to_be_bytes());
            }
            ip.options.truncate(40);
            ip.sequence = ip.sequence.wrapping_add(rng.u32(..=1 << 20));
            ip.acknowledgment = ip.acknowledgment.wrapping_add(rng.u32(..9000));
            ip.flags = [0x10, 0x18, 0x11, 0x02][rng.usize(..4)];
            world.send(rng.usize(..2), &ip.packet());
            world.advance(world.now + Duration::from_micros(rng.u64(..4000)));
        }
        let missing = world.settle();
        assert!(loss > 0 || missing == 0);
        if reordering <= 5 {
            assert_eq!(world.missing_headers(), 0);
        }
    }
}

/// The IP packet in a record, if its link layer is a common one.
fn ip_packet(link: LinkType, data: &[u8]) -> Option<&[u8]> {
    let packet = match link {
        LinkType::ETHERNET => {
            let mut rest = data.get(12..)?;
            while let [0x81 | 0x88, 0x00 | 0xa8, ..] = rest {
                rest = rest.get(4..)?;
            }
            match rest {
                [0x08, 0x00, packet @ ..] | [0x86, 0xdd, packet @ ..] => packet,
                _ => return None,
            }
        }
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType::DLT_RAW => data,
        LinkType::NULL | LinkType::LOOP => data.get(4..)?,
        LinkType::LINUX_SLL => data.get(16..)?,
        LinkType::LINUX_SLL2 => data.get(20..)?,
        _ => return None,
    };
    let headers = Headers::parse(packet).ok()?;
    let at = if headers.is_v6() { 4 } else { 2 };
    let len = usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let len = if headers.is_v6() { len + 40 } else { len };
    // Ethernet pads short packets. A host leaves the lengths of those that it will cut to the card.
    Some(packet.get(..len).filter(|packet| packet.len() >= headers.total()).unwrap_or(packet))
}

/// Every captured packet comes back as it was, whatever is lost and reordered. Prints what headers
/// take:
///
/// `ONCEWIRE_DATA=DIR cargo test -p oncewire-net --lib captured_packets -- --nocapture`
#[test]
fn captured_packets_are_restored() {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("ONCEWIRE_DATA").map_or(beside, PathBuf::from).join("pcap");
    let Ok(files) = fs::read_dir(&data) else {
        oncewire_testkit::skipped!("no captures in {}; set ONCEWIRE_DATA", data.display());
        return;
    };
    let files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    for (delay, loss, reordering) in [(1, 0, 0), (20, 0, 0), (20, 1, 0), (20, 5, 10), (20, 30, 300)]
    {
        let [mut all, mut data, mut referring] = [Sums::default(); 3];
        let (mut captures, mut missing, mut total) = (0, 0, 0);
        for file in &files {
            let Ok(bytes) = fs::read(file) else { continue };
            let Ok(mut reader) = CaptureReader::new(&bytes[..]) else { continue };
            let mut world = World::new(loss, Duration::from_millis(reordering));
            world.delay = Duration::from_millis(delay);
            let mut time = None;
            while let Some(Ok(record)) = reader.next() {
                let Some(packet) = ip_packet(record.link, record.data) else { continue };
                let Some(from) = side(packet) else { continue };
                if packet.len() > MOST {
                    continue;
                }
                // At most a second of silence: the rest changes nothing.
                let since = record.time.saturating_sub(*time.get_or_insert(record.time));
                time = Some(record.time);
                let since = u64::try_from(since).unwrap_or(0).min(1_000_000_000);
                world.advance(world.now + Duration::from_nanos(since));
                world.send(from, packet);
            }
            let undelivered = world.settle();
            assert!(loss > 0 || undelivered == 0, "{}: {undelivered}", file.display());
            missing += world.missing_headers();
            total += world.ends.iter().map(|end| end.sender.stats().bytes).sum::<u64>();
            all.add(world.sums());
            data.add(world.data);
            referring.add(world.referring);
            captures += u32::from(time.is_some());
        }
        if reordering == 0 {
            assert_eq!(missing, 0, "a reference that the peer does not hold");
        }
        println!(
            "{captures} captures, {delay} ms under way, {loss} % lost, {reordering} ms of \
             reordering: {missing} references missing, {total} bytes of datagrams"
        );
        let kinds = [
            ("all packets", all),
            ("TCP with payload", data),
            ("those that refer to their slot", referring),
        ];
        for (name, sums) in kinds {
            let (headers, sections) = sums.per_packet();
            println!(
                "  {name}: {} packets, {headers:.1} bytes of headers, {sections:.1} of sections",
                sums.packets
            );
        }
    }
}
