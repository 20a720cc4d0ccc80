//! Frozen contexts: each datagram decodes alone, and takes fewer bytes.

use super::content::{noise, text};
use super::{Datagram, deal, decoder, ends};
use oncewire_codec::Reach;
use oncewire_codec::datagram::{
    Class, DatagramDecoded, DatagramDecoder, FrozenContext, Limits, MAX_PREFIX, Training,
};

const LIMITS: Limits = Limits { segment: 1400, room: 1424, earlier: false };
const HOW: (Class, Reach) = (Class::Unknown, Reach::Acknowledged);

fn bytes(datagrams: &[Datagram]) -> usize {
    datagrams.iter().map(|datagram| datagram.frame.len()).sum()
}

/// Sources of this crate: content as context 0 expects it.
fn sources() -> Vec<u8> {
    let files = ["src/log.rs", "src/params.rs", "src/adapt.rs", "src/chunks.rs"];
    let read =
        |file| std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    files.into_iter().flat_map(read).collect()
}

fn content_of(decoder: &mut DatagramDecoder, datagram: &Datagram) -> Vec<u8> {
    match decoder.decode(datagram.counter, &datagram.frame) {
        Ok(DatagramDecoded::Content { bytes, stored: true, .. }) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_datagram_decodes_alone_with_its_context() {
    let content = sources();
    let (known, new) = content.split_at(content.len() / 2);
    let trained = Training::new(known, MAX_PREFIX).finish().context(known);
    let (mut encoder, _) = ends(1 << 20, 1 << 16);
    let mut sizes = Vec::new();
    for (number, context) in
        [(None, None), (Some(0), Some(FrozenContext::built_in())), (Some(9), Some(trained))]
    {
        if let Some(number) = number {
            encoder.set_context(number, context.as_ref());
        }
        encoder.use_context(number);
        let (mut counter, mut sum, mut count) = (0, 0, 0);
        for run in new.chunks(40_000) {
            let dealt = deal(&mut encoder, run, HOW, &LIMITS, &mut counter);
            (sum, count) = (sum + bytes(&dealt), count + dealt.len());
            for datagram in dealt {
                let mut decoder = decoder(1 << 20, 1 << 16);
                decoder.set_context(0, Some(&FrozenContext::built_in()));
                if let Some(number) = number {
                    decoder.set_context(number, context.as_ref());
                }
                assert!(content_of(&mut decoder, &datagram) == datagram.content);
                // Not with another context.
                if let (Some(number), 0x40) = (number, datagram.frame[0] & 0x40) {
                    decoder.set_context(
                        number,
                        Some(&FrozenContext::new(b"", &FrozenContext::built_in().codes()).unwrap()),
                    );
                    assert!(decoder.decode(datagram.counter, &datagram.frame).is_err());
                    decoder.set_context(number, None);
                    assert!(decoder.decode(datagram.counter, &datagram.frame).is_err());
                }
            }
        }
        sizes.push((sum, count));
    }
    let [(raw, plain), (built_in, fewer), (trained, fewest)] = sizes[..] else { unreachable!() };
    assert!(built_in * 100 < raw * 45, "{built_in} of {raw}");
    assert!(trained * 100 < raw * 40, "{trained} of {raw}");
    assert!(fewer * 5 < plain * 3 && fewest * 5 < plain * 3, "{plain}, {fewer}, {fewest}");
}

#[test]
fn incompressible_content_stays_as_it_is() {
    let run = noise(3, 60_000);
    let (mut encoder, _) = ends(1 << 20, 1 << 16);
    encoder.set_context(0, Some(&FrozenContext::built_in()));
    encoder.use_context(Some(0));
    let mut counter = 0;
    let raw = deal(&mut encoder, &run, HOW, &LIMITS, &mut counter);
    assert!(raw.iter().all(|datagram| datagram.frame.len() == datagram.content.len() + 3));
    // And in a run that is called compressible, nothing becomes longer.
    let mixed = [text(1, 20_000), noise(4, 20_000)].concat();
    let dealt =
        deal(&mut encoder, &mixed, (Class::Compressible, Reach::Sent), &LIMITS, &mut counter);
    assert!(dealt.iter().all(|datagram| datagram.frame.len() <= datagram.content.len() + 4));
    assert!(bytes(&dealt) < 33_000, "{}", bytes(&dealt));
}

#[test]
fn a_withdrawal_between_fit_and_write_counts() {
    let (mut encoder, mut decoder) = ends(1 << 20, 1 << 16);
    for end in 0..2 {
        let context = FrozenContext::built_in();
        if end == 0 {
            encoder.set_context(0, Some(&context));
        } else {
            decoder.set_context(0, Some(&context));
        }
    }
    encoder.use_context(Some(0));
    let old = text(1, 2000);
    let mut tokens = oncewire_codec::datagram::RunTokens::default();
    encoder.search(&old, Class::Unknown, Reach::Sent, &mut tokens).unwrap();
    encoder.write(&tokens, &old, 0..2000, &LIMITS, &mut Vec::new());
    encoder.search(&old, Class::Unknown, Reach::Sent, &mut tokens).unwrap();
    let limits = Limits { segment: 0, ..LIMITS };
    assert_eq!(encoder.fit(&tokens, 0, &limits), 2000);
    encoder.withdraw(0..2000);
    let mut frame = Vec::new();
    encoder.write(&tokens, &old, 0..2000, &limits, &mut frame);
    assert_eq!(encoder.written_literals(), 2000, "it refers to nothing");
    assert!(
        matches!(decoder.decode(1, &frame), Ok(DatagramDecoded::Content { bytes, .. }) if bytes == old)
    );
}
