//! Hostile records of the directory, with right checksums, so that what they say is believed as far
//! as it can be; and pages without a checksum among them.

use super::Bytes;
use super::hostile::{Case, Kind};

pub fn run(input: &[u8]) {
    let mut bytes = Bytes(input);
    let case = Case::new(&mut bytes);
    while !bytes.is_empty() {
        let kind = if bytes.byte() & 7 == 0 { Kind::Any } else { Kind::Record };
        case.write(&kind, &mut bytes);
    }
    case.work();
}
