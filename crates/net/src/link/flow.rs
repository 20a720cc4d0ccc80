//! The two hot tasks: packets from the device to datagrams, and datagrams to packets.

use super::Shared;
use super::headers::{implied, left_out};
use super::inner::{self, Answers};
use super::peers::{Keyed, Path};
use super::seal;
use super::shape::Shaper;
use super::socket::{Buffers, Kind, ToQuic};
use super::status::count;
use crate::sync::lock;
use oncewire_codec::Domain;
use oncewire_packet::ecn::Ecn;
use oncewire_packet::encryption;
use oncewire_packet::mss;
use oncewire_packet::offload::{self, MAX_PACKET, Offered, Shape, VIRTIO_HEADER};
use oncewire_session::link::{
    Batch, Delivered, Delivery, Dropped, Duplicates, Feedback, Implied, Inbound, MAX_SEGMENTS,
    Sender, Violation,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Packets that are read before a batch is sent.
pub(super) const BACKLOG: usize = 64;
/// How long a task waits after an error of the device or the port.
pub(super) const AFTER_ERROR: Duration = Duration::from_millis(100);

/// What the outgoing task holds of a peer.
#[derive(Default)]
struct ToPeer {
    /// Keys of the current batch; `None` while it has nothing for this peer.
    keyed: Option<Arc<Keyed>>,
    /// When this peer's sender has something to send without packets.
    due: Option<Instant>,
}

/// What the outgoing task keeps for its next packets.
pub(super) struct Scratch {
    /// Headers of a part of a run.
    part: Vec<u8>,
    answers: Answers,
    shaper: Option<Shaper>,
    spares: Option<Duplicates<(Path, u8)>>,
}

impl Scratch {
    pub(super) fn new(shared: &Shared) -> Scratch {
        let (shaping, datagram) = (shared.config.shaping, shared.config.largest_datagram);
        let shaper = |rate| Shaper::new(rate, datagram.into(), Instant::now());
        Scratch {
            part: Vec::new(),
            answers: Answers::default(),
            shaper: shaping.rate.map(shaper),
            spares: shaping.duplicate.map(Duplicates::new),
        }
    }

    /// When a packet that waits may be sent, or a spare is due.
    fn deadline(&self) -> Option<Instant> {
        let shaper = self.shaper.as_ref().and_then(|shaper| shaper.deadline(Instant::now()));
        let spares = self.spares.as_ref().and_then(Duplicates::deadline);
        shaper.into_iter().chain(spares).min()
    }

    /// Counts what was sent on the path, with IP and UDP headers.
    fn charge(&mut self, bytes: usize, datagrams: usize, path: &Path) {
        if let Some(shaper) = &mut self.shaper {
            let is_v4 = crate::target::canonical(path.remote).is_ipv4();
            shaper.charge(bytes + datagrams * if is_v4 { 28 } else { 48 });
        }
    }
}

/// Reads the device and sends what it returns. A batch is what is there at once: nothing waits for
/// more. With a rate, packets wait until the path has room, and a batch is what fits there.
pub(super) async fn outgoing(shared: Arc<Shared>) {
    let mut frame = vec![0; VIRTIO_HEADER + MAX_PACKET + 1];
    let (mut batch, mut scratch) = (Batch::default(), Scratch::new(&shared));
    let mut peers: Vec<ToPeer> = shared.peers.iter().map(|_| ToPeer::default()).collect();
    // Peers with something in the current batch.
    let mut active = Vec::new();
    loop {
        let due = peers.iter().filter_map(|peer| peer.due).chain(scratch.deadline()).min();
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        let read = tokio::select! {
            read = shared.device.recv(&mut frame) => Some(read),
            () = timer => None,
            () = shared.wake.notified() => {
                for (peer, to) in shared.peers.iter().zip(&mut peers) {
                    let keyed = peer.keys.sealing();
                    to.due = keyed.and_then(|keyed| lock(&keyed.association.sender).deadline());
                }
                continue;
            }
        };
        let mut len = match read {
            None => {
                let now = Instant::now();
                for (peer, to) in peers.iter_mut().enumerate() {
                    if to.due.is_some_and(|due| due <= now) {
                        to.due = None;
                        to.keyed = shared.peers[peer].keys.sealing();
                        active.extend(to.keyed.is_some().then_some(peer));
                    }
                }
                0
            }
            Some(Ok(len)) => len,
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot read the tun device; trying again");
                tokio::time::sleep(AFTER_ERROR).await;
                continue;
            }
        };
        for _ in 0..BACKLOG {
            if len == 0
                || enqueue(&shared, &mut peers, &mut active, &mut frame[..len], &mut scratch)
            {
                len = 0;
                break;
            }
            len = shared.device.try_recv(&mut frame).unwrap_or(0);
        }
        if len > 0 {
            enqueue(&shared, &mut peers, &mut active, &mut frame[..len], &mut scratch);
        }
        dequeue(&shared, &mut peers, &mut active, &mut scratch);
        for answer in scratch.answers.frames.drain(..) {
            write(&shared, &answer).await;
        }
        for peer in active.drain(..) {
            let to = &mut peers[peer];
            let Some(keyed) = to.keyed.take() else { continue };
            let has_datagrams = {
                let mut sender = lock(&keyed.association.sender);
                let has_datagrams = sender.transmit(Instant::now(), &mut batch);
                to.due = sender.deadline();
                if sender.has_message() {
                    keyed.association.message.notify_one();
                }
                keyed.association.next.store(sender.next_counter(), Relaxed);
                has_datagrams
            };
            if has_datagrams {
                send(&shared, &keyed, &mut batch, &mut scratch).await;
            }
        }
        send_spares(&shared, &mut scratch).await;
    }
}

/// Seals a batch and sends it, in one call for each group of datagrams of one size.
pub(super) async fn send(shared: &Shared, keyed: &Keyed, batch: &mut Batch, scratch: &mut Scratch) {
    let drops = &shared.peers[keyed.peer].drops;
    let mut sealed = 0;
    for (counter, datagram) in batch.datagrams_mut() {
        if keyed.sealing.seal(keyed.their_index, counter, datagram).is_err() {
            break;
        }
        sealed += 1;
    }
    if sealed < batch.len() {
        // The peer has not answered renewals for a long time.
        drops.keys_used_up.fetch_add((batch.len() - sealed) as u64, Relaxed);
        batch.truncate(sealed);
    }
    let path = *lock(&keyed.path);
    scratch.charge(batch.bytes().len(), batch.len(), &path);
    let (most, bytes) = shared.port.group_limits();
    for (range, size, ecn) in batch.groups(most, bytes) {
        let group = (&batch.bytes()[range.clone()], size, ecn);
        let mut sent = shared.port.send(group, path.remote, path.local).await;
        if sent.is_err() && path.local.is_some() {
            // The machine may have lost that address.
            sent = shared.port.send(group, path.remote, None).await;
            if sent.is_ok() {
                lock(&keyed.path).local = None;
            }
        }
        if sent.is_err() {
            drops.not_sent.fetch_add(range.len().div_ceil(size) as u64, Relaxed);
        } else if let Some(spares) = &mut scratch.spares {
            let now = Instant::now();
            group.0.chunks(size).for_each(|datagram| spares.offer(datagram, (path, ecn), now));
        }
    }
}

/// Sends the spares that are due.
async fn send_spares(shared: &Shared, scratch: &mut Scratch) {
    let now = Instant::now();
    while let Some(((path, ecn), datagram)) =
        scratch.spares.as_mut().and_then(|spares| spares.pop(now))
    {
        scratch.charge(datagram.len(), 1, &path);
        // The first has been sent; whatever keeps this one from leaving is counted there.
        let group = (&datagram[..], datagram.len(), ecn);
        let _ = shared.port.send(group, path.remote, path.local).await;
    }
}

/// Encodes packets that waited, as many as the path has room for.
fn dequeue(shared: &Shared, peers: &mut [ToPeer], active: &mut Vec<usize>, scratch: &mut Scratch) {
    let now = Instant::now();
    let mut is_full = false;
    while !is_full && scratch.shaper.is_some() {
        let batched = |peer: &usize| {
            let keyed = peers[*peer].keyed.as_ref();
            keyed.map_or(0, |keyed| lock(&keyed.association.sender).batched())
        };
        let batched = active.iter().map(batched).sum();
        let Some(queued) = scratch.shaper.as_mut().and_then(|shaper| shaper.pop(batched, now))
        else {
            break;
        };
        is_full = add(shared, peers, active, queued.peer, &queued.offered(), scratch);
    }
    if let Some(shaper) = &scratch.shaper {
        let stats = shaper.stats();
        shared.drops.queue.store(stats.dropped + stats.overflowed, Relaxed);
    }
}

/// Adds what the device returned to the batch of its peer, or to the queue, or counts why not. Returns
/// whether that batch is full.
fn enqueue(
    shared: &Shared,
    peers: &mut [ToPeer],
    active: &mut Vec<usize>,
    frame: &mut [u8],
    scratch: &mut Scratch,
) -> bool {
    let drop_as = |counter| {
        count(counter);
        false
    };
    let Ok(offered) = inner::offered(frame, shared.mtu.load(Relaxed)) else {
        return drop_as(&shared.drops.malformed);
    };
    if shared.is_own(&offered.headers) {
        return false;
    }
    let Some(peer) = shared.routes.peer_of(offered.headers.destination) else {
        return drop_as(&shared.drops.destination_not_allowed);
    };
    if let Some(shaper) = &mut scratch.shaper {
        shaper.push(peer, &offered, Instant::now());
        return false;
    }
    add(shared, peers, active, peer, &offered, scratch)
}

/// Adds a packet or run to the batch of its peer, or counts why not. Returns whether that batch is
/// full.
fn add(
    shared: &Shared,
    peers: &mut [ToPeer],
    active: &mut Vec<usize>,
    peer: usize,
    offered: &Offered<'_>,
    scratch: &mut Scratch,
) -> bool {
    let drops = &shared.peers[peer].drops;
    let to = &mut peers[peer];
    if to.keyed.is_none() {
        to.keyed = shared.peers[peer].keys.sealing();
        active.extend(to.keyed.is_some().then_some(peer));
    }
    let Some(keyed) = &to.keyed else {
        count(&drops.link_down);
        return false;
    };
    let mut sender = lock(&keyed.association.sender);
    let domain = shared.domain(offered.headers.source);
    sender.set_ecn(Ecn::of(offered.packet).bits());
    let flow = shared.flow(&offered.headers);
    let payload = &offered.packet[offered.headers.total()..];
    let is_encrypted =
        sender.is_unknown(flow) && encryption::recognize(&offered.headers, payload).is_some();
    sender.set_flow(flow, is_encrypted);
    let mut result = match offered.segment {
        Some(size) => enqueue_run(&mut sender, offered, size, domain, &mut scratch.part),
        None => {
            let (header, payload) = offered.packet.split_at(offered.headers.total());
            let (open_checksum, implied) = (offered.open_checksum, implied(offered.left_out));
            let segment = None;
            sender.enqueue(Inbound { header, open_checksum, implied, segment, payload, domain })
        }
    };
    if result == Err(Dropped::TooLarge) {
        let answers = &mut scratch.answers;
        result = inner::too_large(shared, drops, &mut sender, offered, domain, answers);
    }
    match result {
        Ok(()) => {}
        Err(Dropped::TooLarge) => count(&drops.too_large),
        Err(_) => count(&drops.malformed),
    }
    sender.is_full()
}

fn run<'a>(header: &'a [u8], payload: &'a [u8], size: NonZeroU16, domain: Domain) -> Inbound<'a> {
    let (implied, segment) = (Implied::LengthsAndChecksum, Some(size));
    Inbound { header, open_checksum: true, implied, segment, payload, domain }
}

/// A run with more segments than a record can number is divided.
fn enqueue_run(
    sender: &mut Sender,
    offered: &Offered<'_>,
    size: NonZeroU16,
    domain: Domain,
    part: &mut Vec<u8>,
) -> Result<(), Dropped> {
    let (header, payload) = offered.packet.split_at(offered.headers.total());
    let most = MAX_SEGMENTS * usize::from(size.get());
    if payload.len() <= most {
        return sender.enqueue(run(header, payload, size, domain));
    }
    let parts = payload.len().div_ceil(most);
    for (at, payload) in payload.chunks(most).enumerate() {
        offload::header_of_part(offered, at * MAX_SEGMENTS, size, at + 1 == parts, part);
        sender.enqueue(run(part, payload, size, domain))?;
    }
    Ok(())
}

/// What a batch of received datagrams brought.
#[derive(Default)]
pub(super) struct Received {
    /// The keys of its datagrams.
    pub(super) keys: Vec<Arc<Keyed>>,
    pub(super) packets: Packets,
}

/// Packets of each peer in a batch: what one sends is never joined with what another does.
#[derive(Default)]
pub(super) struct Packets {
    pub(super) by_peer: Vec<(usize, Delivered)>,
    /// For their memory.
    spare: Vec<Delivered>,
}

/// Peers for whose packets memory is kept from batch to batch.
const MOST_SPARE: usize = 16;

impl Packets {
    pub(super) fn clear(&mut self) {
        self.spare.extend(self.by_peer.drain(..).map(|(_, delivered)| delivered));
        self.spare.truncate(MOST_SPARE);
    }

    fn of(&mut self, peer: usize) -> &mut Delivered {
        let known = self.by_peer.iter().position(|(other, _)| *other == peer);
        let at = known.unwrap_or_else(|| {
            let spare = self.spare.pop();
            let mut delivered = spare.unwrap_or_else(|| Delivered::with_room(VIRTIO_HEADER));
            delivered.clear();
            self.by_peer.push((peer, delivered));
            self.by_peer.len() - 1
        });
        &mut self.by_peer[at].1
    }
}

/// Reads the port and writes what it returns to the device.
pub(super) async fn incoming(shared: Arc<Shared>, to_quic: ToQuic) {
    let mut buffers = Buffers::default();
    let mut received = Received::default();
    let mut feedback = Feedback::default();
    // Keys whose receivers have frames that wait, and until when.
    let mut waiting: Vec<(Instant, Arc<Keyed>)> = Vec::new();
    loop {
        received.keys.clear();
        received.packets.clear();
        let due = waiting.iter().map(|(due, _)| *due).min();
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        let read = shared.port.receive(&mut buffers, &to_quic, |kind, datagram, ends| match kind {
            Kind::Quic => {}
            Kind::Other => count(&shared.drops.foreign),
            Kind::Sealed => open(&shared, &mut received, datagram, ends),
        });
        let read = tokio::select! {
            read = read => read,
            () = timer => Ok(()),
        };
        if let Err(error) = read {
            tracing::warn!(%error, "cannot read the UDP port; trying again");
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        }
        let now = Instant::now();
        for (_, keyed) in waiting.drain(..) {
            if !received.keys.iter().any(|other| Arc::ptr_eq(other, &keyed)) {
                received.keys.push(keyed);
            }
        }
        for keyed in &received.keys {
            let mut receiver = lock(&keyed.association.receiver);
            if let Some(due) = receiver.deadline() {
                receiver.set_rtt(keyed.connection.rtt());
                if due <= now {
                    receiver.expire(now, received.packets.of(keyed.peer));
                }
                waiting.extend(receiver.deadline().map(|due| (due, keyed.clone())));
            }
            receiver.feedback(now, &mut feedback);
            drop(receiver);
            let mut sender = lock(&keyed.association.sender);
            let before = sender.deadline();
            sender.feedback(&mut feedback, now);
            // An answer to a rejection may be due before the acknowledgment is.
            if sender.deadline().is_some_and(|due| before.is_none_or(|before| due < before)) {
                shared.wake.notify_one();
            }
            if sender.has_message() {
                keyed.association.message.notify_one();
            }
        }
        for (peer, delivered) in &mut received.packets.by_peer {
            for (delivery, packet) in delivered.packets_mut() {
                deliver(&shared, *peer, delivery, packet).await;
            }
        }
    }
}

/// Opens a datagram, and adds its packets and its keys to `received`.
pub(super) fn open(
    shared: &Shared,
    received: &mut Received,
    datagram: &mut [u8],
    (source, local, ecn): (SocketAddr, Option<IpAddr>, u8),
) {
    let Some((index, low)) = seal::header(datagram) else { return count(&shared.drops.foreign) };
    let Received { keys, packets } = received;
    let at = match keys.iter().position(|keyed| keyed.our_index == index) {
        Some(at) => at,
        None => match shared.indices.find(index) {
            Some(keyed) => {
                keys.push(keyed);
                keys.len() - 1
            }
            None => return count(&shared.drops.unknown_index),
        },
    };
    let keyed = &keys[at];
    let drops = &shared.peers[keyed.peer].drops;
    let next = keyed.association.next.load(Relaxed);
    let mut receiver = lock(&keyed.association.receiver);
    let counter = receiver.window().restore(low);
    if !receiver.admits(counter) {
        return count(&drops.replayed);
    }
    if keyed.opening.failed() >= shared.config.timing.most_forged {
        return count(&drops.keys_used_up);
    }
    let Some(plain) = keyed.opening.open(counter, datagram) else {
        return count(&keyed.association.forged);
    };
    let newest = counter >= receiver.window().next();
    let delivered = packets.of(keyed.peer);
    delivered.set_ecn(ecn);
    match receiver.receive(counter, plain, next, Instant::now(), delivered) {
        Ok(()) => {}
        Err(Violation::Replay) => return count(&drops.replayed),
        Err(_) => count(&drops.violations),
    }
    drop(receiver);
    if newest {
        let mut path = lock(&keyed.path);
        // The peer may have another address now, such as behind a NAT that has restarted. An end that
        // did not connect answers from the address that the peer used.
        path.remote = source;
        if !keyed.is_client {
            path.local = local;
        }
    }
}

/// Writes a packet or a run to the device, unless its source is not behind its peer.
async fn deliver(shared: &Shared, peer: usize, delivery: Delivery, frame: &mut [u8]) {
    let (drops, device) = (&shared.peers[peer].drops, &shared.device);
    let shape = match delivery.segments {
        None => {
            let left_out = left_out(delivery.implied);
            Shape::Packet { open_checksum: delivery.open_checksum, left_out }
        }
        Some(run) => Shape::Segments { first: run.first, size: run.size, ends: run.ends },
    };
    // The device may not take runs of UDP (before Linux 6.2). They are cut here then.
    let mut whole = None;
    if delivery.segments.is_some() && !device.udp_gso() {
        whole = Some(frame[VIRTIO_HEADER..].to_vec());
    }
    let Ok(headers) = offload::to_device(frame, delivery.header, shape) else {
        return count(&drops.malformed);
    };
    if shared.routes.peer_of(headers.source) != Some(peer) {
        return count(&drops.source_not_allowed);
    }
    let packet = &mut frame[VIRTIO_HEADER..];
    if !inner::carry_congestion(packet, &headers, delivery.ecn, false) {
        return count(&drops.congestion);
    }
    mss::clamp(packet, &headers, shared.mtu.load(Relaxed), delivery.open_checksum);
    if let (Some(mut packet), Shape::Segments { first, size, ends }) = (whole, shape)
        && headers.protocol == oncewire_packet::fields::UDP
    {
        inner::carry_congestion(&mut packet, &headers, delivery.ecn, true);
        let mut frames = Vec::new();
        let cut = offload::segments(&packet, delivery.header, (first, size, ends), |frame| {
            frames.push(frame.to_vec());
        });
        if cut.is_err() {
            return count(&drops.malformed);
        }
        for frame in frames {
            write(shared, &frame).await;
        }
        return;
    }
    write(shared, frame).await;
}

async fn write(shared: &Shared, frame: &[u8]) {
    let written: io::Result<usize> = shared.device.send(frame).await;
    if written.is_err() {
        count(&shared.drops.not_delivered);
    }
}
