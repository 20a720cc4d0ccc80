//! Hostile superblocks with right checksums: any bytes, and changes of a valid one.

use super::Bytes;
use super::hostile::Case;
use oncewire_flash::Index;
use oncewire_flash::device::{Device, PAGE};
use oncewire_flash::format::Superblock;

pub fn run(input: &[u8]) {
    let mut any = [0; PAGE];
    let len = input.len().min(120);
    any[8..8 + len].copy_from_slice(&input[..len]);
    read(&mut any);

    let mut bytes = Bytes(input);
    let case = Case::new(&mut bytes);
    let mut pages = [[0; PAGE]; 2];
    for page in &mut pages {
        case.superblock.write(page);
    }
    // Fields end at 112; what follows is ignored.
    while !bytes.is_empty() {
        let which = usize::from(bytes.byte() % 2);
        let at = 8 + usize::from(bytes.byte() % 112);
        pages[which][at] = bytes.byte();
    }
    for (number, page) in pages.iter_mut().enumerate() {
        read(page);
        case.device.write((number * PAGE) as u64, page).expect("writes");
    }
    // It opens, or says why not, and then it has not changed anything.
    let before = content(&case);
    match Index::open(Box::new(case.device.clone()), &case.options) {
        Ok((mut index, _)) => {
            index.insert(b"ab", b"new").expect("inserts");
            let newest = index.get(b"ab").expect("answers");
            assert_eq!(newest, oncewire_flash::Answer::Value(b"new".to_vec()));
            index.close().expect("closes");
        }
        Err(_) => assert!(content(&case) == before, "a refused device was changed"),
    }
}

fn content(case: &Case) -> Vec<u8> {
    let mut all = vec![0; case.device.size() as usize];
    case.device.read(0, &mut all).expect("reads");
    all
}

/// Seals a page. It is refused, or the same when it is written again, with a sane geometry.
fn read(page: &mut [u8; PAGE]) {
    page[..8].copy_from_slice(b"OWINDEX\x01");
    let sum = xxhash_rust::xxh3::xxh3_64(&page[..PAGE - 8]);
    page[PAGE - 8..].copy_from_slice(&sum.to_le_bytes());
    let Ok(read) = Superblock::read(page) else { return };
    let mut again = [0; PAGE];
    read.write(&mut again);
    assert_eq!(Superblock::read(&again).expect("valid"), read);
    let geometry = read.geometry;
    assert!(geometry.end() > geometry.slot_at(0) && geometry.slot_at(0) > geometry.spill_at(1));
    assert!(geometry.slot(read.durable, geometry.partitions - 1, read.durable) < geometry.slots);
}
