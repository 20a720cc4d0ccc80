//! HTTPS of named services: isolation domains hold for what is opened.

use crate::pair::{LIMIT, Pair, Plan};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_net::https::{Https, HttpsSettings, NewAuthority, Origins};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Protocols of an origin, which sends back what it gets.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// An origin for `localhost`; its CA's certificate goes to a file.
async fn echo(ca: &Path) -> SocketAddr {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let code = STANDARD.encode(issuer.der());
    let pem = format!("-----BEGIN CERTIFICATE-----\n{code}\n-----END CERTIFICATE-----\n");
    std::fs::write(ca, pem).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap().der().clone();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![leaf], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .unwrap();
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let (mut reader, mut writer) = tokio::io::split(stream);
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    address
}

struct Tunnel {
    pair: Pair,
    origin: SocketAddr,
    trust: Arc<RootCertStore>,
    _dir: TempDir,
}

impl Tunnel {
    async fn start(sharing: Sharing) -> Tunnel {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = TempDir::new().unwrap();
        let [key, certificate, origins] =
            ["ca.key", "ca.crt", "origins.crt"].map(|name| dir.path().join(name));
        let origin = echo(&origins).await;
        let new = NewAuthority { only: vec!["localhost".parse().unwrap()], name: None, days: 1 };
        new.save(&key, &certificate).unwrap();
        let mut trust = RootCertStore::empty();
        trust.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
        let mut plan = Plan::new();
        for endpoint in [&mut plan.serve.endpoint, &mut plan.connect.endpoint] {
            endpoint.encoder = EncoderBuilder::default().sharing(sharing);
        }
        plan.serve.endpoint.egress.origins =
            Origins::new(Some(origins), Vec::new(), Vec::new()).unwrap();
        plan.connect.proxies.push("127.0.0.1:0".parse().unwrap());
        let settings = HttpsSettings {
            terminate: vec![format!("localhost:{}", origin.port()).parse().unwrap()],
            ca: Some((key, certificate)),
            own: Vec::new(),
        };
        plan.connect.https = Some(Https::new(settings).unwrap());
        let pair = plan.start().await;
        Tunnel { pair, origin, trust: Arc::new(trust), _dir: dir }
    }

    /// A client's TLS to the origin, as a user of the proxy.
    async fn connect(&self, user: &str, protocol: &[u8]) -> TlsStream<TcpStream> {
        let mut stream = TcpStream::connect(self.pair.client.addresses()[0]).await.unwrap();
        let mut request = vec![5, 1, 2, 1, user.len() as u8];
        request.extend_from_slice(user.as_bytes());
        request.extend_from_slice(&[1, b'x', 5, 1, 0, 3, 9]);
        request.extend_from_slice(b"localhost");
        request.extend_from_slice(&self.origin.port().to_be_bytes());
        stream.write_all(&request).await.unwrap();
        let mut answer = [0; 14];
        timeout(LIMIT, stream.read_exact(&mut answer)).await.unwrap().unwrap();
        let mut config = ClientConfig::builder()
            .with_root_certificates(self.trust.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let stream = timeout(LIMIT, connector.connect(name, stream)).await.unwrap().unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        stream
    }

    /// Bytes of the messages that carry `content`, which a user sends, to the origin.
    async fn cost(&self, user: &str, protocol: &[u8], content: &[u8]) -> u64 {
        let mut stream = self.connect(user, protocol).await;
        let sent = || self.pair.client.status().https[0].wire_sent;
        let before = sent();
        stream.write_all(content).await.unwrap();
        let mut back = vec![0; content.len()];
        timeout(LIMIT, stream.read_exact(&mut back)).await.unwrap().unwrap();
        assert!(back == content);
        sent() - before
    }
}

/// A request with a cookie in HTTP/1.1, or in HTTP/2 with header fields that are neither indexed nor
/// Huffman-coded (RFC 7541, section 6.2.2).
fn request(protocol: &[u8], cookie: &str) -> Vec<u8> {
    let cookie = format!("session={cookie}");
    if protocol == PROTOCOLS[1] {
        let head = "GET /inbox HTTP/1.1\r\nHost: mail.example\r\nAccept: text/html\r\n";
        return format!("{head}Cookie: {cookie}\r\n\r\n").into_bytes();
    }
    let mut block = vec![0x82, 0x87];
    for (name, value) in [
        (":path", "/inbox"),
        (":authority", "mail.example"),
        ("accept", "text/html,application/xhtml+xml"),
        ("cookie", &cookie),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut frame = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    frame.extend_from_slice(&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
    frame.extend(block);
    frame
}

/// Bytes that a guess of a whole cookie costs, for the right one and for the cheapest wrong one.
/// Each is of a user of its own, after the victim has sent its request.
async fn guesses(sharing: Sharing, protocol: &[u8]) -> [u64; 2] {
    const SECRET: &str = "3f9a07c1d2e4b586c0ffee1234567890";
    let tunnel = Tunnel::start(sharing).await;
    for _ in 0..3 {
        tunnel.cost("victim", protocol, &request(protocol, SECRET)).await;
    }
    let mut random = fastrand::Rng::with_seed(41);
    let mut wrong = Vec::new();
    for at in 0..8 {
        let guess = format!("{:032x}", random.u128(..));
        wrong.push(tunnel.cost(&format!("a{at}"), protocol, &request(protocol, &guess)).await);
    }
    let right = tunnel.cost("attacker", protocol, &request(protocol, SECRET)).await;
    let status = &tunnel.pair.client.status().https[0];
    assert_eq!((status.opened, status.passed.len()), (12, 0), "{status:?}");
    tunnel.pair.client.stop();
    tunnel.pair.server.stop();
    [right, wrong.into_iter().min().unwrap()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cookie_in_opened_https_is_guessed_only_where_everything_is_shared() {
    // Bytes of the secret that a right guess saves; what codes of letters differ by is less.
    const SAVED: u64 = 8;
    for protocol in PROTOCOLS {
        let name = String::from_utf8_lossy(protocol);
        let [right, wrong] = guesses(Sharing::All, protocol).await;
        assert!(right + SAVED <= wrong, "{name}: {right}, {wrong}: the demonstration fails");
        for sharing in [Sharing::Chunks, Sharing::None] {
            let [right, wrong] = guesses(sharing, protocol).await;
            assert!(right + SAVED > wrong, "{name}, {sharing:?}: {right} bytes, others {wrong}");
        }
    }
}
