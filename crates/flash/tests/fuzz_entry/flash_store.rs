//! The directory of a content log on disk: a history of appends, commits, rewinds and gaps, pages and
//! sealed blocks that say anything, and power loss. The cipher takes everything for genuine, so what
//! an opened block says is not believed for its seal.

use super::Bytes;
use oncewire_flash::device::{Crash, Device, PAGE};
use oncewire_flash::store::{Cipher, DiskLog, LogHeader, NewLog, Secret, Store, layout};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const UNIT: u64 = layout::UNIT_CONTENT as u64;
/// Most bytes that are appended or read at once.
const MOST: u64 = 3 * UNIT;

#[derive(Debug)]
struct Trusting;

impl Cipher for Trusting {
    fn seal(&self, _: &Secret, nonce: [u8; 12], aad: &[u8], content: &mut [u8]) -> [u8; 16] {
        let mut tag = [1; 16];
        tag[..8].copy_from_slice(&(xxh3_64(content) ^ xxh3_64(aad)).to_le_bytes());
        tag[8..12].copy_from_slice(&nonce[..4]);
        tag
    }

    fn open(&self, _: &Secret, _: [u8; 12], _: &[u8], _: [u8; 16], _: &mut [u8]) -> bool {
        true
    }
}

fn key() -> Secret {
    Secret::derive(b"key", b"", "fuzz")
}

/// A number: small, near a multiple of a unit, near a power of two, or near the largest.
fn number(bytes: &mut Bytes<'_>) -> u64 {
    let (kind, low) = (bytes.byte(), bytes.number(2));
    match kind % 5 {
        0 => low,
        1 => low * 16,
        2 => (low % 40 * UNIT).wrapping_add(low / 40).wrapping_sub(3),
        3 => (1u64 << (low % 64)).wrapping_add(low >> 6),
        _ => u64::MAX - low,
    }
}

fn open(device: &Arc<Crash>) -> Option<DiskLog> {
    DiskLog::open_on(Box::new(device.clone()), Arc::new(Trusting), &key()).ok()
}

/// Writes over a field of a page or block, or over anything.
fn damage(device: &Crash, shape: layout::Shape, bytes: &mut Bytes<'_>) {
    let kind = bytes.byte() % 6;
    let which = u64::from(bytes.byte());
    let at = match kind {
        0 => which % 2 * PAGE as u64,
        1 => shape.state_at(which),
        2 => shape.footer_at(which),
        3 => shape.unit_at(which * UNIT),
        4 => bytes.number(3),
        _ => shape.state_at(which) + 48,
    };
    let field = u64::from(bytes.byte()) * if kind == 0 { 4 } else { 8 };
    let at = at + if kind == 5 { field % 64 } else { field };
    let at = at.min(device.size() - 8);
    let page_at = at / PAGE as u64 * PAGE as u64;
    let mut page = vec![0; PAGE];
    device.read(page_at, &mut page).expect("reads");
    let within = ((at - page_at) as usize).min(PAGE - 8);
    let len = [1, 4, 8][usize::from(bytes.byte() % 3)];
    page[within..within + len].copy_from_slice(&number(bytes).to_le_bytes()[..len]);
    if kind == 0 {
        // Of a header, the checksum is right.
        let sum = xxh3_64(&page[..PAGE - 8]);
        page[PAGE - 8..].copy_from_slice(&sum.to_le_bytes());
        let _ = LogHeader::read(&page).map(|header| assert!(header.write().len() == PAGE));
        let _ = layout::StorePage::read(&page).map(|store| assert!(store.write()[..] == page[..]));
    }
    device.write(page_at, &page).expect("writes");
}

/// Both ends of what a log says that it has can be read, or are lost, and it goes on.
fn work(log: &mut DiskLog, bytes: &mut Bytes<'_>) {
    let fill = log.fill();
    assert!(fill.low <= fill.tail, "{fill:?}");
    assert!(log.owner_state().len() <= layout::MAX_STATE as usize);
    let mut buffer = vec![0; MOST as usize];
    for _ in 0..3 {
        let len = number(bytes) % MOST;
        let start = match bytes.byte() % 3 {
            0 => fill.low,
            1 => fill.tail.saturating_sub(len),
            _ => number(bytes),
        };
        let inside =
            fill.low <= start && start.checked_add(len).is_some_and(|end| end <= fill.tail);
        let read = log.read(start, &mut buffer[..len as usize]);
        assert!(read.is_err() || inside, "{start} + {len} of {fill:?}");
        let _ = log.written_at(start);
    }
    let _ = log.oldest();
}

pub fn run(input: &[u8]) {
    let mut bytes = Bytes(input);
    let units = 1 + u32::from(bytes.byte() % 3);
    let capacity = (1 + u64::from(bytes.byte() % 4)) * UNIT;
    let new = NewLog { capacity, units, state: 500, ..NewLog::default() };
    let size = Store::bytes_of(&new).expect("in range") as usize;
    let device = Arc::new(Crash::new(size));
    let made =
        DiskLog::create_on(Box::new(device.clone()), Arc::new(Trusting), &key(), &new, b"state");
    let mut log = made.expect("is made");
    let shape = log.header().shape;
    for _ in 0..60 {
        if bytes.is_empty() {
            break;
        }
        // The end and the state that it must have if it is opened now.
        let mut known = None;
        match bytes.byte() % 9 {
            0..=2 => {
                let len = number(&mut bytes) % MOST;
                let at = log.fill().tail.saturating_add(u64::from(bytes.byte()) / 128);
                let _ = log.append(at, &vec![bytes.byte(); len as usize]);
            }
            3 | 4 => {
                let state = vec![bytes.byte(); usize::from(bytes.byte()) * 2 + 8];
                if log.commit(&state, 7).is_ok() {
                    assert!(state.len() <= 500);
                    known = Some((log.fill().tail, state));
                }
            }
            5 => {
                let fill = log.fill();
                let to = fill.low + number(&mut bytes) % (fill.tail - fill.low + 2);
                let _ = log.truncate(to);
            }
            6 => {
                // As far as content may be skipped: its owner has counted it.
                let to = log.fill().tail.saturating_add(number(&mut bytes) % (1 << 40));
                let _ = log.skip(to);
            }
            7 => {
                let to = number(&mut bytes) % (1 << 60);
                let _ = log.restart(to);
            }
            _ => {
                drop(log);
                damage(&device, shape, &mut bytes);
                match open(&device) {
                    Some(opened) => log = opened,
                    None => return,
                }
            }
        }
        work(&mut log, &mut bytes);
        if let Some((tail, state)) = known {
            let opened = open(&device).expect("what was committed opens");
            assert_eq!((opened.fill().tail, opened.owner_state()), (tail, &state[..]));
        }
    }
}
