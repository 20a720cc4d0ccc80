//! `docs/PROTOCOL.md` states the limits of transports that the code has.

const DOC: &str = include_str!("../../../../docs/PROTOCOL.md");

/// Whether the document says so, wherever its lines wrap.
fn says(text: &str) -> bool {
    DOC.split_whitespace().collect::<Vec<_>>().join(" ").contains(text)
}

#[test]
fn limits_of_transports() {
    const QUIC: &str = include_str!("../../src/quic.rs");
    const HANDSHAKE: &str = include_str!("../../src/handshake.rs");
    const SERVER: &str = include_str!("../../src/server/handshake.rs");
    const SESSIONS: &str = include_str!("../../src/server/sessions.rs");
    const DIAL: &str = include_str!("../../src/client/dial.rs");
    const TLS: &str = include_str!("../../src/tls/mod.rs");
    for (source, constant, documented) in [
        (TLS, "ALPN: &[u8] = b\"oncewire/1\";", "is `oncewire/1`"),
        (
            QUIC,
            "WINDOW: u32 = 32 << 20;",
            "are 32 MiB as sent today, a connection's window 8 times",
        ),
        (QUIC, "receive_window(VarInt::from_u32(WINDOW * STREAMS))", "8 times"),
        (
            QUIC,
            "max_concurrent_uni_streams(VarInt::from_u32(0))",
            "There are no unidirectional streams",
        ),
        (DIAL, "TCP_FOR: Duration = Duration::from_secs(600);", "with TCP for 10 minutes"),
        (
            HANDSHAKE,
            "HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);",
            "with QUIC for each of both | 10 s |",
        ),
        (SERVER, "MAX_HELLO: usize = 8 << 10;", "| first message of a transport | 8 KiB |"),
        (SESSIONS, "MAX_PER_PEER: usize = 4;", "| live sessions of one peer at a server | 4 |"),
    ] {
        assert!(source.contains(constant), "docs/PROTOCOL.md is to follow: {constant}");
        assert!(says(documented), "docs/PROTOCOL.md does not say: {documented}");
    }
}
