//! An encoder that shares chunks, its decoder, and flows.

use oncewire_codec::{DEFAULT_BLOCK, Decoded, Decoder, Domain, Encoder, Sharing, Stream};

pub(crate) struct Flows {
    encoder: Encoder,
    decoder: Decoder,
    streams: Vec<Stream>,
}

impl Flows {
    pub(crate) fn new(streams: Vec<Stream>) -> Flows {
        Flows::with_key(streams, 77)
    }

    pub(crate) fn with_key(streams: Vec<Stream>, key: u64) -> Flows {
        let builder = Encoder::builder().cache(8 << 20).sharing(Sharing::Chunks);
        let mut encoder = builder.fingerprint_key(key).build().unwrap();
        let mut decoder = Decoder::builder().cache(8 << 20).build().unwrap();
        // Chunks are looked for from the second domain on.
        for domain in [98, 99] {
            encoder.enter(Domain(domain));
            encoder.prime(&[b'x'; 20_000]).unwrap();
            decoder.prime(&[b'x'; 20_000]);
        }
        Flows { encoder, decoder, streams }
    }

    pub(crate) fn open(&mut self, stream: Stream) -> usize {
        self.streams.push(stream);
        self.streams.len() - 1
    }

    /// Sends content on a flow; returns the bytes on the wire.
    pub(crate) fn send(&mut self, flow: usize, mut content: &[u8]) -> usize {
        let (mut wire, mut frame) = (0, Vec::new());
        // No domain sees the statistics of another.
        self.encoder.reset_context(0).unwrap();
        while !content.is_empty() {
            let stream = &mut self.streams[flow];
            let ahead = &content[..content.len().min(DEFAULT_BLOCK + Stream::AHEAD)];
            let len = content.len().min(DEFAULT_BLOCK);
            let len = if len < content.len() {
                self.encoder.whole_chunks(stream, ahead, len)
            } else {
                len
            };
            let (block, rest) = content.split_at(len);
            frame.clear();
            self.encoder.encode_ahead(stream, ahead, len, 0).unwrap().append_to(&mut frame);
            match self.decoder.decode(&frame) {
                Ok(Decoded::Block { content, .. }) => assert!(content == block),
                other => panic!("{other:?}"),
            }
            wire += frame.len();
            content = rest;
        }
        wire
    }
}
