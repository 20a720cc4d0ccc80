//! The two hot tasks: packets from the device to datagrams, and datagrams to packets.

use super::Shared;
use super::peers::Keyed;
use super::seal;
use super::socket::{Buffers, Kind, ToQuic};
use super::status::count;
use crate::sync::lock;
use oncewire_codec::Domain;
use oncewire_packet::offload::{self, MAX_PACKET, Offered, Shape, VIRTIO_HEADER};
use oncewire_session::link::{
    Batch, Delivered, Delivery, Dropped, Feedback, Inbound, MAX_SEGMENTS, Sender, Violation,
};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Packets that are read before a batch is sent.
const BACKLOG: usize = 64;
/// How long a task waits after an error of the device or the port.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Reads the device and sends what it returns. A batch is what is there at once: nothing waits.
pub(super) async fn outgoing(shared: Arc<Shared>) {
    let mut frame = vec![0; VIRTIO_HEADER + MAX_PACKET + 1];
    let (mut batch, mut part) = (Batch::default(), Vec::new());
    loop {
        let due =
            shared.keys.sealing().and_then(|keyed| lock(&keyed.association.sender).deadline());
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        let read = tokio::select! {
            read = shared.device.recv(&mut frame) => Some(read),
            () = timer => None,
            () = shared.wake.notified() => continue,
        };
        let mut len = match read {
            None => 0,
            Some(Ok(len)) => len,
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot read the tun device; trying again");
                tokio::time::sleep(AFTER_ERROR).await;
                continue;
            }
        };
        let Some(keyed) = shared.keys.sealing() else {
            if len > 0 {
                count(&shared.drops.link_down);
            }
            continue;
        };
        let peer = *lock(&keyed.address);
        {
            let mut sender = lock(&keyed.association.sender);
            for _ in 0..BACKLOG {
                if len > 0 {
                    enqueue(&shared, &mut sender, peer, &mut frame[..len], &mut part);
                }
                len = 0;
                if sender.is_full() {
                    break;
                }
                match shared.device.try_recv(&mut frame) {
                    Ok(read) => len = read,
                    Err(_) => break,
                }
            }
            if len > 0 {
                enqueue(&shared, &mut sender, peer, &mut frame[..len], &mut part);
            }
            if !sender.transmit(Instant::now(), &mut batch) {
                continue;
            }
            keyed.association.next.store(sender.next_counter(), Relaxed);
        }
        send(&shared, &keyed, &mut batch, peer).await;
    }
}

/// Seals a batch and sends it, in one call for each group of datagrams of one size.
async fn send(shared: &Shared, keyed: &Keyed, batch: &mut Batch, peer: SocketAddr) {
    for (counter, datagram) in batch.datagrams_mut() {
        if keyed.sealing.seal(keyed.their_index, counter, datagram).is_err() {
            // The peer has not answered renewals for a long time.
            count(&shared.drops.not_sent);
            return;
        }
    }
    let (most, bytes) = shared.port.group_limits();
    for (range, size) in batch.groups(most, bytes) {
        if shared.port.send(&batch.bytes()[range.clone()], size, peer).await.is_err() {
            shared.drops.not_sent.fetch_add(range.len().div_ceil(size) as u64, Relaxed);
        }
    }
}

/// Adds what the device returned to the sender's batch, or counts why not.
fn enqueue(
    shared: &Shared,
    sender: &mut Sender,
    peer: SocketAddr,
    frame: &mut [u8],
    part: &mut Vec<u8>,
) {
    let drops = &shared.drops;
    let Ok(offered) = offload::from_device(frame) else { return count(&drops.malformed) };
    if shared.is_own(&offered.headers, peer) {
        return count(&drops.own_traffic);
    }
    if !shared.allowed.contains(offered.headers.destination) {
        return count(&drops.destination_not_allowed);
    }
    let domain = Domain(0);
    let result = match offered.segment {
        Some(size) => enqueue_run(sender, &offered, size, domain, part),
        None => {
            let (header, payload) = offered.packet.split_at(offered.headers.total());
            let open_checksum = offered.open_checksum;
            sender.enqueue(Inbound { header, open_checksum, segment: None, payload, domain })
        }
    };
    match result {
        Ok(()) => {}
        Err(Dropped::TooLarge) => count(&drops.too_large),
        Err(_) => count(&drops.malformed),
    }
}

fn run<'a>(header: &'a [u8], payload: &'a [u8], size: NonZeroU16, domain: Domain) -> Inbound<'a> {
    Inbound { header, open_checksum: true, segment: Some(size), payload, domain }
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

/// Reads the port and writes what it returns to the device.
pub(super) async fn incoming(shared: Arc<Shared>, to_quic: ToQuic) {
    let mut buffers = Buffers::default();
    let mut delivered = Delivered::with_room(VIRTIO_HEADER);
    let mut feedback = Feedback::default();
    // The keys of the latest datagram, and others that datagrams of this batch used.
    let mut keys: Vec<Arc<Keyed>> = Vec::new();
    loop {
        delivered.clear();
        keys.clear();
        let drops = &shared.drops;
        let read = shared
            .port
            .receive(&mut buffers, &to_quic, |kind, datagram, source| match kind {
                Kind::Quic => {}
                Kind::Other => count(&drops.foreign),
                Kind::Sealed => open(&shared, &mut keys, datagram, source, &mut delivered),
            })
            .await;
        if let Err(error) = read {
            tracing::warn!(%error, "cannot read the UDP port; trying again");
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        }
        for keyed in &keys {
            let now = Instant::now();
            lock(&keyed.association.receiver).feedback(now, &mut feedback);
            let mut sender = lock(&keyed.association.sender);
            let was_due = sender.deadline().is_some();
            sender.feedback(&mut feedback, now);
            if !was_due && sender.deadline().is_some() {
                shared.wake.notify_one();
            }
        }
        for (delivery, packet) in delivered.packets_mut() {
            deliver(&shared, delivery, packet).await;
        }
    }
}

/// Opens a datagram, and adds its packets to `delivered` and its keys to `keys`.
fn open(
    shared: &Shared,
    keys: &mut Vec<Arc<Keyed>>,
    datagram: &mut [u8],
    source: SocketAddr,
    delivered: &mut Delivered,
) {
    let drops = &shared.drops;
    let Some((index, low)) = seal::header(datagram) else { return count(&drops.foreign) };
    let known = keys.iter().position(|keyed| keyed.our_index == index);
    let at = match known {
        Some(at) => at,
        None => match shared.keys.find(index) {
            Some(keyed) => {
                keys.push(keyed);
                keys.len() - 1
            }
            None => return count(&drops.unknown_index),
        },
    };
    let keyed = &keys[at];
    let next = keyed.association.next.load(Relaxed);
    let mut receiver = lock(&keyed.association.receiver);
    let counter = receiver.window().restore(low);
    if !receiver.admits(counter) {
        return count(&drops.replayed);
    }
    let Some(plain) = keyed.opening.open(counter, datagram) else {
        return count(&keyed.association.forged);
    };
    let newest = counter >= receiver.window().next();
    match receiver.receive(counter, plain, next, Instant::now(), delivered) {
        Ok(()) => {}
        Err(Violation::Replay) => return count(&drops.replayed),
        Err(_) => count(&drops.violations),
    }
    drop(receiver);
    if newest {
        let mut address = lock(&keyed.address);
        if *address != source {
            // The peer has another address now, such as behind a NAT that has restarted.
            *address = source;
        }
    }
}

/// Writes a packet or a run to the device, unless its source is not behind the peer.
async fn deliver(shared: &Shared, delivery: Delivery, frame: &mut [u8]) {
    let (drops, device) = (&shared.drops, &shared.device);
    let shape = match delivery.segments {
        None => Shape::Packet { open_checksum: delivery.open_checksum },
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
    if !shared.allowed.contains(headers.source) {
        return count(&drops.source_not_allowed);
    }
    if let (Some(packet), Shape::Segments { first, size, ends }) = (whole, shape)
        && headers.protocol == oncewire_packet::fields::UDP
    {
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
