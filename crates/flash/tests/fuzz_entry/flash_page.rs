//! Hostile pages of slots and of the spill, with right checksums, and records that lead to them.

use super::Bytes;
use super::hostile::{Case, Kind};

pub fn run(input: &[u8]) {
    let mut bytes = Bytes(input);
    let case = Case::new(&mut bytes);
    while !bytes.is_empty() {
        let kind = match bytes.byte() % 4 {
            0 => Kind::Record,
            1 => Kind::Slot,
            2 => Kind::Spill,
            _ => Kind::Any,
        };
        case.write(&kind, &mut bytes);
    }
    case.work();
}
