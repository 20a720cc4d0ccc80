//! The first message of TLS from an application: what it wants, without losing a byte of it.

use rustls::server::{Accepted, Acceptor};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// Most bytes that are read for it. TLS allows 16 MiB; browsers send up to 2 KB.
const MOST: usize = 32 << 10;
/// How long it may take. Whoever waits for the other side to speak first does so this long.
const TIME: Duration = Duration::from_secs(5);
/// First byte of a TLS record with a handshake message.
const HANDSHAKE: u8 = 0x16;

/// What an application sent first.
pub(super) struct Hello {
    /// All bytes that were read.
    pub(super) bytes: Vec<u8>,
    /// TLS that can go on from here; `None` if it is something else.
    pub(super) tls: Option<Box<Accepted>>,
}

/// Reads a ClientHello. `bytes` were read before. What is none, or not complete within the limits, is
/// returned as it is.
///
/// # Errors
/// The connection's.
pub(super) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    bytes: Vec<u8>,
) -> io::Result<Hello> {
    let mut hello = Hello { bytes, tls: None };
    let mut acceptor = Acceptor::default();
    let mut used = 0;
    let read = async {
        loop {
            if hello.bytes.first().is_some_and(|&first| first != HANDSHAKE) {
                return io::Result::Ok(());
            }
            while used < hello.bytes.len() {
                let mut rest = &hello.bytes[used..];
                // It stops where a message is complete.
                match acceptor.read_tls(&mut rest) {
                    Ok(0) | Err(_) => return Ok(()),
                    Ok(len) => used += len,
                }
                match acceptor.accept() {
                    Ok(None) => {}
                    Ok(Some(accepted)) => {
                        // More than one flight cannot follow before an answer, and without early
                        // data nothing follows.
                        hello.tls = (used == hello.bytes.len()).then(|| Box::new(accepted));
                        return Ok(());
                    }
                    Err(_) => return Ok(()),
                }
            }
            let room = MOST.saturating_sub(hello.bytes.len());
            if room == 0 {
                return Ok(());
            }
            hello.bytes.reserve(room.min(4096));
            if (&mut *stream).take(room as u64).read_buf(&mut hello.bytes).await? == 0 {
                return Ok(());
            }
        }
    };
    // After a timeout, it is as far as it came.
    if let Ok(result) = timeout(TIME, read).await {
        result?;
    }
    Ok(hello)
}

impl Hello {
    /// The name in server_name, in lower case.
    pub(super) fn name(&self) -> Option<String> {
        self.tls.as_ref()?.client_hello().server_name().map(str::to_ascii_lowercase)
    }

    /// The protocols offered by ALPN.
    pub(super) fn protocols(&self) -> Vec<Vec<u8>> {
        let hello = self.tls.as_ref().map(|tls| tls.client_hello());
        let all = hello.as_ref().and_then(|hello| hello.alpn());
        all.map(|all| all.map(<[u8]>::to_vec).collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::sync::Arc;

    /// A ClientHello for a name.
    fn client(name: &str, sni: bool) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.enable_sni = sni;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// What is read of bytes that come one by one, and whether they were kept.
    async fn seen(bytes: &[u8], first: usize) -> (Option<String>, Vec<Vec<u8>>) {
        let mut rest = &bytes[first..];
        let hello = read(&mut rest, bytes[..first].to_vec()).await.unwrap();
        assert_eq!([&hello.bytes, rest].concat(), bytes, "bytes were lost");
        (hello.name(), hello.protocols())
    }

    #[tokio::test]
    async fn hellos_say_name_and_protocols_however_they_are_divided() {
        let bytes = client("Registry.EXAMPLE", true);
        let expected =
            (Some("registry.example".to_owned()), vec![b"h2".to_vec(), b"http/1.1".to_vec()]);
        for first in [0, 1, 5, 100, bytes.len()] {
            assert_eq!(seen(&bytes, first).await, expected, "{first}");
        }
        // In two records.
        let (head, body) = bytes.split_at(5);
        let record = |part: &[u8]| [&head[..3], &(part.len() as u16).to_be_bytes(), part].concat();
        let two = [record(&body[..40]), record(&body[40..])].concat();
        assert_eq!(seen(&two, 0).await, expected);
        assert_eq!(seen(&client("registry.example", false), 0).await.0, None);
    }

    #[tokio::test]
    async fn what_is_no_hello_is_kept_and_has_no_name() {
        let good = client("registry.example", true);
        let mut with_nul = good.clone();
        let at = good.windows(8).position(|part| part == b"registry").unwrap();
        with_nul[at + 3] = 0;
        let mut long = good.clone();
        long.extend([0x17; MOST]);
        let mut cases = vec![
            Vec::new(),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
            vec![0x80, 0x2e, 0x01, 0x03, 0x01],
            vec![HANDSHAKE; 100],
            vec![HANDSHAKE; 2 * MOST],
            [&good[..5], &[2], &good[6..]].concat(),
            good[..good.len() - 1].to_vec(),
            with_nul,
            long,
        ];
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 0xff;
            cases.push(changed);
        }
        for bytes in cases {
            let (name, _) = seen(&bytes, 0).await;
            // Some changes leave another valid hello, but never for another name that was typed.
            assert!(name.as_deref().is_none_or(|name| name.len() == 16), "{name:?}");
        }
        assert_eq!(seen(&good[..good.len() - 1], 0).await.0, None);
    }
}
