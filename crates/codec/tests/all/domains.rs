//! Content of one isolation domain is not visible in the frames of another.

use crate::common::config_divided;
use crate::common::content::{History, Piece, Rng, noise, piece, text};
use oncewire_codec::{
    CachePolicy, ChecksumSeed, ConfigError, DEFAULT_BLOCK, Decoded, Decoder, Domain, EncodeError,
    Encoder, EncoderBuilder, FrameError, MAX_BLOCK, Sharing, Stream,
};
use oncewire_family::{FamilySearch, MatcherKind};
use proptest::prelude::*;

const CACHE: u64 = 1 << 20;
const SPAN: u64 = CACHE / 4;
const DOMAINS: usize = 4;

fn apart() -> EncoderBuilder {
    Encoder::builder().cache(CACHE).sharing(Sharing::None)
}

#[derive(Clone, Debug)]
struct Step {
    domain: usize,
    pieces: Vec<Piece>,
    /// The frame is lost, and both ends rewind.
    lost: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let lost = prop_oneof![15 => Just(false), 1 => Just(true)];
    (0..DOMAINS, proptest::collection::vec(piece(), 0..5), lost)
        .prop_map(|(domain, pieces, lost)| Step { domain, pieces, lost })
}

proptest! {
    #![proptest_config(config_divided(2))]

    /// One decoder for each domain, whose log has noise where the other domains' content should
    /// be: a frame that used any of that would fail.
    #[test]
    fn frames_decode_without_content_of_other_domains(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let mut encoder = apart().span(SPAN).contexts(DOMAINS).build().unwrap();
        let mut decoders: Vec<Decoder> = (0..DOMAINS)
            .map(|_| Decoder::builder().cache(CACHE).span(SPAN).contexts(DOMAINS).build().unwrap())
            .collect();
        let (mut history, mut frame, mut epoch) = (History::default(), Vec::new(), 0);
        for Step { domain, pieces, lost } in steps {
            let block = history.block(&pieces, DEFAULT_BLOCK, CACHE);
            frame.clear();
            encoder.enter(Domain(domain as u64));
            encoder.encode_frame(&block, domain).unwrap().append_to(&mut frame);
            if lost {
                epoch += 1;
                let seed = ChecksumSeed { session: 0, epoch };
                if encoder.rewind(decoders[0].acknowledged(), seed).is_err() {
                    // The lost block began a generation.
                    break;
                }
                decoders.iter_mut().for_each(|decoder| decoder.rewind(seed));
                continue;
            }
            for (other, decoder) in decoders.iter_mut().enumerate() {
                if other != domain {
                    decoder.prime(&noise(decoder.acknowledged(), block.len()));
                    continue;
                }
                match decoder.decode(&frame) {
                    Ok(Decoded::Block { content, .. }) => prop_assert!(content == block),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
    }
}

/// Bytes on the wire for a block, with an entropy context that was reset.
fn frame_len(encoder: &mut Encoder, domain: u64, block: &[u8]) -> usize {
    encoder.enter(Domain(domain));
    encoder.reset_context(0).unwrap();
    let mut frame = Vec::new();
    encoder.encode(block, &mut frame).unwrap();
    frame.len()
}

#[test]
fn a_repeat_is_found_in_its_domain_only() {
    let content = noise(1, 40_000);
    let mut encoder = apart().build().unwrap();
    assert!(frame_len(&mut encoder, 1, &content) >= content.len());
    assert!(frame_len(&mut encoder, 2, &content) >= content.len(), "another domain");
    assert!(frame_len(&mut encoder, 0, &content) >= content.len(), "the common domain");
    for domain in [1, 2, 0, 2, 1] {
        assert!(frame_len(&mut encoder, domain, &content) < 40, "domain {domain} again");
    }
    let mut all = Encoder::builder().cache(CACHE).build().unwrap();
    assert!(frame_len(&mut all, 1, &content) >= content.len());
    assert!(frame_len(&mut all, 2, &content) < 40, "sharing all, domains do not matter");
}

#[test]
fn what_one_domain_sends_neither_hides_nor_replaces_what_another_has() {
    // With one key, the second copy would take the first one's entries in the table.
    let content = text(3, 30_000);
    let sizes = |between: &[u8]| {
        let mut encoder = apart().table_entries(1 << 18).build().unwrap();
        frame_len(&mut encoder, 1, &content);
        frame_len(&mut encoder, 2, between);
        frame_len(&mut encoder, 1, &content)
    };
    let (same, other) = (sizes(&content), sizes(&noise(4, content.len())));
    assert_eq!(same, other);
    assert!(same < 100, "{same}");
}

/// The demonstration of SECURITY.md in the codec: a victim's request with a secret, and guesses
/// that differ in one digit.
#[test]
fn a_guess_in_another_domain_is_as_long_whether_it_is_right_or_wrong() {
    let secret = "3f9a07c1d2e4b586";
    let request = |cookie: &str| {
        format!("GET /inbox HTTP/1.1\r\nHost: mail.example\r\nCookie: session={cookie}")
            .into_bytes()
    };
    let mut rng = Rng::new(5);
    let mut recovered = |sharing: Sharing| {
        let mut known = String::new();
        while known.len() < secret.len() {
            let lens = (0..16).map(|digit| {
                let mut encoder =
                    apart().sharing(sharing).fingerprint_key(rng.next()).build().unwrap();
                frame_len(&mut encoder, 1, &request(secret));
                frame_len(&mut encoder, 2, &request(&format!("{known}{digit:x}")))
            });
            let lens: Vec<usize> = lens.collect();
            let least = lens.iter().min().unwrap();
            let right = lens.iter().filter(|&len| len == least).count();
            let digit = lens.iter().position(|len| len == least).unwrap();
            if right != 1 {
                break;
            }
            known.push(char::from_digit(digit as u32, 16).unwrap());
        }
        known
    };
    assert_eq!(recovered(Sharing::All), secret);
    assert_eq!(recovered(Sharing::None), "");
    assert_eq!(recovered(Sharing::Chunks), "");
}

/// Content that does not look compressed and does not repeat.
fn letters(seed: u64, len: usize) -> Vec<u8> {
    noise(seed, len).into_iter().map(|byte| b' ' + byte % 64).collect()
}

/// An encoder and a decoder, and flows of several domains.
struct Flows {
    encoder: Encoder,
    decoder: Decoder,
    streams: Vec<Stream>,
}

impl Flows {
    fn new(sharing: Sharing, domains: &[u64]) -> Flows {
        let mut encoder = apart()
            .sharing(sharing)
            .cache(8 << 20)
            .contexts(16)
            .fingerprint_key(77)
            .build()
            .unwrap();
        let mut decoder = Decoder::builder().cache(8 << 20).contexts(16).build().unwrap();
        // Chunks are looked for from the second domain on.
        for domain in [98, 99] {
            encoder.enter(Domain(domain));
            encoder.prime(&[b'x'; 20_000]).unwrap();
            decoder.prime(&[b'x'; 20_000]);
        }
        Flows {
            encoder,
            decoder,
            streams: domains.iter().map(|&domain| Stream::new(Domain(domain))).collect(),
        }
    }

    /// Six clients send content, so that it is shared.
    fn publish(&mut self, content: &[u8], most: usize) {
        for client in 200..206 {
            self.encoder.reset_context(0).unwrap();
            let flow = std::mem::replace(&mut self.streams[0], Stream::new(Domain(client)));
            self.send(0, content, most);
            self.streams[0] = flow;
        }
        self.encoder.reset_context(0).unwrap();
    }

    /// Sends content on a flow, in blocks of up to `most` bytes; returns the bytes on the wire.
    fn send(&mut self, flow: usize, mut content: &[u8], most: usize) -> usize {
        let mut wire = 0;
        while !content.is_empty() {
            let stream = &mut self.streams[flow];
            let len = content.len().min(most);
            let len = if len < content.len() {
                self.encoder.whole_chunks(stream, content, len)
            } else {
                len
            };
            wire += self.send_block(flow, content, len);
            content = &content[len..];
        }
        wire
    }

    /// Sends the first `len` bytes of what a flow has to send.
    fn send_block(&mut self, flow: usize, content: &[u8], len: usize) -> usize {
        let ahead = &content[..content.len().min(len + Stream::AHEAD)];
        let mut frame = Vec::new();
        let stream = &mut self.streams[flow];
        self.encoder.encode_ahead(stream, ahead, len, flow).unwrap().append_to(&mut frame);
        match self.decoder.decode(&frame) {
            Ok(Decoded::Block { content: block, .. }) => assert!(block == &content[..len]),
            other => panic!("{other:?}"),
        }
        frame.len()
    }
}

#[test]
fn whole_chunks_cross_once_for_all_domains() {
    let content = letters(6, 1_000_000);
    for (block, of_alone) in [(DEFAULT_BLOCK, 0.02), (16 << 10, 0.03), (5_000, 0.1)] {
        let mut flows = Flows::new(Sharing::Chunks, &[1, 2, 3]);
        flows.publish(&content, block);
        for flow in [0, 1, 2] {
            let share = flows.send(flow, &content, block) as f64 / content.len() as f64;
            assert!(share < of_alone, "blocks of {block}: {share}");
        }
    }
    let mut flows = Flows::new(Sharing::None, &[1, 2]);
    flows.publish(&content, DEFAULT_BLOCK);
    assert!(flows.send(1, &content, DEFAULT_BLOCK) * 10 > content.len() * 7);
}

/// Flows of two domains that know nothing of each other yet.
fn strangers() -> Flows {
    let builder =
        Encoder::builder().sharing(Sharing::Chunks).cache(8 << 20).span(1 << 20).contexts(2);
    Flows {
        encoder: builder.fingerprint_key(78).build().unwrap(),
        decoder: Decoder::builder().cache(8 << 20).span(1 << 20).contexts(2).build().unwrap(),
        streams: [1, 2].map(|domain| Stream::new(Domain(domain))).into(),
    }
}

#[test]
fn what_the_first_domain_has_sent_before_there_was_another_counts() {
    // Chunks cross after two to five other clients: more of it with each, and all with the sixth.
    let costs = |content: &[u8], newest: &[u8], block: usize| {
        let mut flows = strangers();
        let first = flows.send(0, content, block) * newest.len() / content.len();
        let mut cost = |client: u64| {
            flows.encoder.reset_context(1).unwrap();
            flows.streams[1] = Stream::new(Domain(client));
            flows.send(1, newest, block) as f64 / first as f64
        };
        [2, 3, 4, 5, 6].map(&mut cost)
    };
    for block in [DEFAULT_BLOCK, 16 << 10] {
        let content = letters(13, 1_000_000);
        let costs = costs(&content, &content, block);
        assert!(costs[0] > 0.98 && (0.7..0.8).contains(&costs[1]), "blocks of {block}: {costs:?}");
        assert!(costs[4] < 0.1, "blocks of {block}: {costs:?}");
    }
    // More than the log holds: the ring was written two times and more.
    let content = letters(14, 20_000_000);
    let costs = costs(&content, &content[19_000_000..], DEFAULT_BLOCK);
    assert!((0.7..0.85).contains(&costs[1]) && costs[4] < 0.1, "{costs:?}");
}

#[test]
fn headers_sent_before_the_second_domain_appeared_are_not_shared() {
    let pages = letters(15, 400_000);
    let mut flows = strangers();
    let send = |flows: &mut Flows, flow: usize| {
        let sizes = pages.chunks(4096).map(|page| {
            flows.streams[flow].begin_message();
            flows.send(flow, page, DEFAULT_BLOCK)
        });
        sizes.sum::<usize>()
    };
    // Another six clients do not share them, either, nor as a whole file.
    let first = send(&mut flows, 0);
    for client in 10..16 {
        flows.streams[1] = Stream::new(Domain(client));
        flows.encoder.reset_context(1).unwrap();
        assert!(send(&mut flows, 1) * 100 > first * 99);
    }
    flows.streams[1] = Stream::new(Domain(20));
    flows.encoder.reset_context(1).unwrap();
    assert!(flows.send(1, &pages, DEFAULT_BLOCK) * 100 > first * 90);
}

#[test]
fn content_that_was_rewound_is_no_backlog() {
    let (content, header) = (noise(16, 100_000), noise(17, 10_240));
    let mut flows = strangers();
    flows.send(0, &content, DEFAULT_BLOCK);
    let at = 50_000;
    flows.encoder.rewind(at, ChecksumSeed::default()).unwrap();
    // Where content lay that could be shared, headers lie now.
    let mut frame = Vec::new();
    for piece in header.chunks(64) {
        flows.streams[0].begin_message();
        frame.clear();
        flows.encoder.encode_stream(&mut flows.streams[0], piece, 0).unwrap().append_to(&mut frame);
    }
    // What follows reaches beyond the end of what was rewound.
    let more = noise(21, 60_000);
    flows.encoder.encode_stream(&mut flows.streams[0], &more, 0).unwrap();
    let mut wire = 0;
    for piece in [&content[..10_000], &content[..10_000], &header] {
        frame.clear();
        let stream = &mut flows.streams[1];
        flows.encoder.encode_stream(stream, piece, 1).unwrap().append_to(&mut frame);
        wire = frame.len();
    }
    assert!(wire >= header.len());
}

#[test]
fn blocks_without_a_search_move_no_cuts() {
    let ladder = Encoder::builder().ladder().unwrap();
    let full = ladder.efforts()[0];
    let none = *ladder.efforts().iter().find(|effort| !effort.search()).unwrap();
    let mut flows = Flows::new(Sharing::Chunks, &[1, 2]);
    flows.encoder.set_effort(none);
    flows.send(0, &noise(18, 200_000), DEFAULT_BLOCK);
    flows.encoder.set_effort(full);
    let content = letters(19, 40_000);
    flows.publish(&content, DEFAULT_BLOCK);
    let mut more = letters(20, 5_000);
    more.extend_from_slice(&content);
    let sent = flows.send(1, &more, DEFAULT_BLOCK);
    assert!(sent < 5_000 + content.len() / 4, "{sent}");
}

#[test]
fn flows_that_take_turns_share_chunks_where_blocks_do_not_divide_them() {
    let content = letters(7, 1_000_000);
    let mut flows = Flows::new(Sharing::Chunks, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let (mut rng, mut at, mut wire) = (Rng::new(8), [0; 12], 0);
    while at.iter().any(|&at| at < content.len()) {
        let flow = rng.below(12);
        let waiting = &content[at[flow]..(at[flow] + 16_384).min(content.len())];
        let len = flows.encoder.whole_chunks(&mut flows.streams[flow], waiting, waiting.len());
        wire += flows.send_block(flow, &content[at[flow]..], len);
        at[flow] += len;
    }
    // Two to five copies of each chunk, and those that are on their way at the same time.
    let copies = wire as f64 / (content.len() * 3 / 4) as f64;
    assert!((3.3..4.2).contains(&copies), "{copies} copies");
}

#[test]
fn a_change_of_one_byte_hides_a_whole_chunk_and_headers_are_never_shared() {
    let page = text(9, 100_000);
    let mut flows = Flows::new(Sharing::Chunks, &[1, 2, 3, 4]);
    let first = flows.send(0, &page, DEFAULT_BLOCK);
    flows.publish(&page, DEFAULT_BLOCK);
    let same = flows.send(1, &page, DEFAULT_BLOCK);
    let mut other = page.clone();
    other[50_000] ^= 1;
    let changed = flows.send(2, &other, DEFAULT_BLOCK);
    assert!(same < first / 8, "{same} of {first}");
    assert!(changed > same + 300, "{changed} and {same}");
    // A message begins with every call: all of it is header.
    let sizes = |flows: &mut Flows, flow: usize| {
        page.chunks(4096)
            .map(|piece| {
                flows.streams[flow].begin_message();
                flows.send(flow, piece, DEFAULT_BLOCK)
            })
            .sum::<usize>()
    };
    assert!(sizes(&mut flows, 3) > first / 2);
}

#[derive(Clone, Debug)]
enum Turn {
    Send { flow: usize, pieces: Vec<Piece>, divided: bool },
    Message { flow: usize },
    Rewind,
}

fn turn() -> impl Strategy<Value = Turn> {
    let pieces = || proptest::collection::vec(piece(), 0..5);
    prop_oneof![
        20 => (0..5usize, pieces(), any::<bool>())
            .prop_map(|(flow, pieces, divided)| Turn::Send { flow, pieces, divided }),
        3 => (0..5usize).prop_map(|flow| Turn::Message { flow }),
        1 => Just(Turn::Rewind),
    ]
}

proptest! {
    #![proptest_config(config_divided(2))]

    #[test]
    fn blocks_with_shared_chunks_decode(turns in proptest::collection::vec(turn(), 1..80)) {
        let mut encoder =
            apart().sharing(Sharing::Chunks).span(SPAN).contexts(5).build().unwrap();
        let mut decoder = Decoder::builder().cache(CACHE).span(SPAN).contexts(5).build().unwrap();
        let mut streams: Vec<Stream> =
            [0, 1, 1, 2, 3].map(|domain| Stream::new(Domain(domain))).to_vec();
        let (mut history, mut frame, mut epoch) = (History::default(), Vec::new(), 0);
        for turn in turns {
            match turn {
                Turn::Send { flow, pieces, divided } => {
                    let content = history.block(&pieces, DEFAULT_BLOCK, CACHE);
                    let mut rest = &content[..];
                    while !rest.is_empty() {
                        let len = if divided {
                            encoder.whole_chunks(&mut streams[flow], rest, rest.len())
                        } else {
                            rest.len()
                        };
                        prop_assert!((1..=rest.len()).contains(&len));
                        let (block, more) = rest.split_at(len);
                        let rest_and = rest;
                        rest = more;
                        frame.clear();
                        encoder.encode_ahead(&mut streams[flow], rest_and, len, flow).unwrap()
                            .append_to(&mut frame);
                        match decoder.decode(&frame) {
                            Ok(Decoded::Block { content, .. }) => prop_assert!(content == block),
                            other => prop_assert!(false, "{other:?}"),
                        }
                    }
                }
                Turn::Message { flow } => streams[flow].begin_message(),
                Turn::Rewind => {
                    epoch += 1;
                    // A frame that is lost, on a flow that goes on.
                    let lost = noise(epoch, 30_000);
                    frame.clear();
                    encoder.encode_stream(&mut streams[0], &lost, 0).unwrap().append_to(&mut frame);
                    let seed = ChecksumSeed { session: 0, epoch };
                    if encoder.rewind(decoder.acknowledged(), seed).is_err() {
                        break;
                    }
                    decoder.rewind(seed);
                }
            }
        }
    }
}

#[test]
fn domains_need_a_search_that_keeps_them_apart_and_the_whole_content() {
    let published = FamilySearch::new(MatcherKind::Published { max_fingerprints: None });
    for builder in
        [apart().search(published), apart().policy(CachePolicy::NewRuns { straddle: false })]
    {
        assert!(matches!(builder.build(), Err(ConfigError::Conflict(_))));
    }
}

#[test]
fn blocks_of_several_domains_have_64_kib_at_most() {
    let mut encoder = apart().max_block(MAX_BLOCK).build().unwrap();
    let mut decoder = Decoder::builder().cache(CACHE).max_block(MAX_BLOCK).build().unwrap();
    let (story, mut frame) = (noise(31, MAX_BLOCK), Vec::new());
    encoder.encode(&story, &mut frame).unwrap();
    assert!(
        matches!(decoder.decode(&frame), Ok(Decoded::Block { content, .. }) if content == story)
    );
    encoder.enter(Domain(2));
    let (len, max) = (DEFAULT_BLOCK + 1, DEFAULT_BLOCK);
    let error = EncodeError::BlockTooLarge { len, max };
    assert_eq!(encoder.encode(&story[..len], &mut frame), Err(error));
    // The first block would go into such a frame now.
    let error = EncodeError::NotHeld { offset: 0, len: MAX_BLOCK };
    assert_eq!(encoder.repair(0, MAX_BLOCK, &mut frame), Err(error));
    // A block of 65,536 bytes, and what says that it has one more.
    encoder.set_explicit_offsets(true);
    frame.clear();
    encoder.encode(&story[..max], &mut frame).unwrap();
    let at = frame.windows(3).position(|field| field == [0x80, 0x80, 4]).unwrap();
    let mut larger = frame.clone();
    larger[at] |= 1;
    let error =
        FrameError::TooLarge { field: "block length", value: len as u64, limit: max as u64 };
    assert_eq!(decoder.decode(&larger), Err(error));
    assert!(
        matches!(decoder.decode(&frame), Ok(Decoded::Block { content, .. }) if content == &story[..max])
    );
}

#[test]
fn one_domain_takes_no_notes() {
    let mut encoder = apart().sharing(Sharing::Chunks).build().unwrap();
    encoder.enter(Domain(7));
    encoder.prime(&noise(11, 300_000)).unwrap();
    assert_eq!(encoder.memory().domains, 0);
    encoder.enter(Domain(8));
    assert!(encoder.memory().domains > 0);
}

#[test]
fn notes_on_domains_stay_within_the_promised_memory() {
    for sharing in [Sharing::None, Sharing::Chunks] {
        assert_notes_fit(&apart().sharing(sharing));
    }
}

fn assert_notes_fit(builder: &EncoderBuilder) {
    let promised = builder.memory();
    let mut encoder = builder.clone().build().unwrap();
    let mut frame = Vec::new();
    for turn in 0..60_000u64 {
        encoder.enter(Domain(turn % 3));
        frame.clear();
        encoder.encode(&turn.to_le_bytes(), &mut frame).unwrap();
    }
    let used = encoder.memory();
    assert!((1..=promised.domains).contains(&used.domains), "{used:?}, {promised:?}");
    assert!(promised.domains as u64 <= CACHE / 10, "{promised:?}");
}
