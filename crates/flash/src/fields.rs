//! Fields of pages: numbers in little-endian order, and bytes, at their places.

pub(crate) fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

pub(crate) fn get64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(get(bytes, at))
}

pub(crate) fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(bytes, at))
}

pub(crate) fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(get(bytes, at))
}

pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}
