//! The two threads of a direction: from one tun device into the model, and from the model into the
//! other device.

use super::gso;
use super::wire::Wire;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tun_rs::{InterruptEvent, SyncDevice};

/// How late a packet may be delivered together with later ones, if the delay is at least ten times
/// this.
const SLACK: Duration = Duration::from_micros(100);

/// One direction, shared by its two threads.
pub(super) struct OneWay {
    wire: Mutex<Wire>,
    /// The head of `Wire::held` changed.
    arrived: Condvar,
}

impl OneWay {
    pub(super) fn new(wire: Wire) -> Arc<OneWay> {
        Arc::new(OneWay { wire: Mutex::new(wire), arrived: Condvar::new() })
    }

    /// Makes both threads end; the reader also needs its event.
    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.arrived.notify_all();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads packets that leave one endpoint, until the path stops.
pub(super) fn read(device: &SyncDevice, event: &InterruptEvent, one_way: &OneWay, offload: bool) {
    let offset = if offload { 0 } else { gso::HEADER };
    let mut buffer = vec![0u8; gso::HEADER + 65_536];
    loop {
        let received = device.recv(&mut buffer[offset..]);
        match received {
            Ok(n) => {
                let mut wire = one_way.lock();
                if wire.stopping {
                    return;
                }
                let head = wire.held.front().map(|held| held.due);
                wire.accept(&buffer[..offset + n], Instant::now());
                // The writer sleeps until the head is due, or until there is one.
                let wake = wire.held.front().map(|held| held.due) != head;
                drop(wire);
                if wake {
                    one_way.arrived.notify_one();
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if device.wait_readable_intr(event).is_err() && one_way.lock().stopping {
                    return;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // The namespace and its device are gone, or not up yet.
            Err(_) => {
                if one_way.lock().stopping {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Writes packets that are due into the other endpoint, until the path stops.
pub(super) fn write(device: &SyncDevice, one_way: &OneWay, offload: bool) {
    let offset = if offload { 0 } else { gso::HEADER };
    let mut due = Vec::new();
    let mut wire = one_way.lock();
    loop {
        if wire.stopping {
            return;
        }
        let now = Instant::now();
        while wire.held.front().is_some_and(|held| held.due <= now) {
            if let Some(held) = wire.held.pop_front() {
                wire.held_bytes -= held.buffer.len();
                due.push(held);
            }
        }
        if !due.is_empty() {
            if wire.cut {
                wire.stats.dropped_cut += due.drain(..).map(|held| held.packets).sum::<u64>();
                continue;
            }
            drop(wire);
            for held in &due {
                // Fails when the namespace's device is down: the packet is lost, as on a real path.
                let _ = device.send(&held.buffer[offset..]);
            }
            wire = one_way.lock();
            for held in due.drain(..) {
                wire.stats.delivered_packets += held.packets;
                wire.stats.delivered_bytes += held.bytes;
            }
            continue;
        }
        let slack = if wire.config.delay >= SLACK * 10 { SLACK } else { Duration::ZERO };
        wire = match wire.held.front().map(|held| held.due) {
            Some(due) => {
                let wait = due.saturating_duration_since(now) + slack;
                one_way.arrived.wait_timeout(wire, wait).unwrap_or_else(PoisonError::into_inner).0
            }
            None => one_way.arrived.wait(wire).unwrap_or_else(PoisonError::into_inner),
        };
    }
}
