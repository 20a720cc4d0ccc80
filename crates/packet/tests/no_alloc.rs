//! Reading and dissecting allocate nothing per packet, but for fragments.
#![allow(missing_docs)]

mod build;

use oncewire_packet::{CaptureReader, Dissector, Limits, LinkType};

#[test]
fn packets_cost_no_allocation() {
    for link in LinkType::SUPPORTED {
        let mut file =
            [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 12], &u32::from(link.0).to_le_bytes()]
                .concat();
        for (_, packet, _) in build::packets().into_iter().filter(|packet| packet.0 == *link) {
            for _ in 0..20 {
                let len = (packet.len() as u32).to_le_bytes();
                file.extend([&[0; 8][..], &len, &len, &packet].concat());
            }
        }
        let mut capture = CaptureReader::new(&file[..]).unwrap();
        let mut dissector = Dissector::new(Limits::default());
        let mut payload = 0;
        let allocations = allocation_counter::measure(|| {
            while let Some(record) = capture.next() {
                payload += dissector.dissect(&record.unwrap()).unwrap().payload.len();
            }
        });
        assert!(payload >= 20 * build::PAYLOAD.len(), "{link}");
        assert_eq!(allocations.count_total, 0, "{link}");
    }
}
