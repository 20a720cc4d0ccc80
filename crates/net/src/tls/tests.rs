//! Handshakes over loopback, with this TLS and with one that supports only certificates.

use super::verifier::Policy;
use super::*;
use crate::handshake::HandshakeError;
use crate::keys::Peer;
use rustls::DigitallySignedStruct;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::CertifiedKey;
use std::io;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

fn secret() -> SecretKey {
    SecretKey::generate().unwrap()
}

fn only(key: PublicKey) -> AuthorizedPeers {
    AuthorizedPeers::new([Peer::from(key)])
}

/// The server sends, the client reads. What each end got: the peer's key, or an error.
type Seen<T> = io::Result<(PublicKey, T)>;

async fn handshake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
) -> (Seen<Vec<u8>>, Seen<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let (stream, _) = listener.accept().await?;
        let mut stream = TlsAcceptor::from(server).accept(stream).await?;
        let key = peer_key(stream.get_ref().1).map_err(io::Error::other)?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await?;
        Ok((key, ()))
    };
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        let mut stream = TlsConnector::from(client).connect(server_name(), stream).await?;
        let key = peer_key(stream.get_ref().1).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes).await;
        assert!(read.is_ok() || bytes.is_empty(), "bytes for a client that was refused");
        read.map(|_| (key, bytes))
    };
    tokio::join!(connect, serve)
}

/// The key in the error of an end that refused its peer.
fn refused(error: io::Error) -> PublicKey {
    match HandshakeError::of_tls(error, Credential::RawKey) {
        HandshakeError::UnknownKey { key } => key,
        other => panic!("{other:?}"),
    }
}

fn is_credential(error: io::Error) -> bool {
    matches!(HandshakeError::of_tls(error, Credential::RawKey), HandshakeError::Credential { .. })
}

/// A peer whose TLS supports only certificates: its key and certificate.
struct Stranger {
    public: PublicKey,
    der: Vec<CertificateDer<'static>>,
    pair: rcgen::KeyPair,
}

impl Stranger {
    fn new() -> Stranger {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let public = PublicKey(pair.public_key_raw().try_into().unwrap());
        // Names and an expired date, which must not matter.
        let mut parameters =
            rcgen::CertificateParams::new(["stranger.example".to_string()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(1999, 12, 31);
        let der = vec![parameters.self_signed(&pair).unwrap().into()];
        Stranger { public, der, pair }
    }

    fn key(&self) -> rustls::pki_types::PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.pair.serialize_der()).into()
    }

    fn client(&self) -> Arc<ClientConfig> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier(AnyPeer)))
            .with_client_auth_cert(self.der.clone(), self.key())
            .unwrap();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Arc::new(config)
    }

    fn server(&self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::new(Verifier(AnyPeer)))
            .with_single_cert(self.der.clone(), self.key())
            .unwrap();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Arc::new(config)
    }
}

/// Checks signatures as TLS stacks without raw keys do, and accepts any peer.
#[derive(Debug)]
struct AnyPeer;

impl Policy for AnyPeer {
    fn expects_raw_key(&self) -> bool {
        false
    }

    fn accept(&self, _: &CertificateDer<'_>, _: &[CertificateDer<'_>]) -> Result<(), Error> {
        Ok(())
    }

    fn check(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, shown, signed, &algorithms)
    }
}

#[tokio::test]
async fn a_client_with_a_certificate_is_judged_by_its_key() {
    let (b, stranger, other) = (secret(), Stranger::new(), Stranger::new());
    let server = ServerTls::new(&b, &only(stranger.public)).unwrap();
    let (at_client, at_server) = handshake(stranger.client(), server.config().unwrap()).await;
    // It sees the server's key in a certificate, too.
    assert_eq!(at_client.unwrap(), (b.public(), b"hello".to_vec()));
    assert_eq!(at_server.unwrap(), (stranger.public, ()));
    let (at_client, at_server) = handshake(other.client(), server.config().unwrap()).await;
    at_client.unwrap_err();
    assert_eq!(refused(at_server.unwrap_err()), other.public);
    // A client with raw keys is still asked for one.
    let a = secret();
    let server = ServerTls::new(&b, &only(a.public())).unwrap().config().unwrap();
    let (at_client, at_server) =
        handshake(client_config(&a, &only(b.public()), Credential::RawKey).unwrap(), server).await;
    assert_eq!((at_client.unwrap().0, at_server.unwrap().0), (b.public(), a.public()));
}

#[tokio::test]
async fn a_server_with_a_certificate_is_judged_by_its_key() {
    let (a, stranger, other) = (secret(), Stranger::new(), Stranger::new());
    let client = |credential| client_config(&a, &only(stranger.public), credential).unwrap();
    // The client learns that the server has no raw key.
    let (at_client, at_server) = handshake(client(Credential::RawKey), stranger.server()).await;
    assert!(is_credential(at_client.unwrap_err()));
    at_server.unwrap_err();
    let (at_client, at_server) =
        handshake(client(Credential::Certificate), stranger.server()).await;
    assert_eq!(at_client.unwrap(), (stranger.public, b"hello".to_vec()));
    assert_eq!(at_server.unwrap(), (a.public(), ()));
    let (at_client, at_server) = handshake(client(Credential::Certificate), other.server()).await;
    assert_eq!(refused(at_client.unwrap_err()), other.public);
    at_server.unwrap_err();
}

#[tokio::test]
async fn certificates_do_not_replace_keys() {
    let (b, honest) = (secret(), Stranger::new());
    let refuses = async |stranger: &Stranger| {
        let server = server_config(&b, &only(honest.public)).unwrap();
        let (at_client, at_server) = handshake(stranger.client(), server).await;
        at_client.unwrap_err();
        at_server.unwrap_err();
    };
    // Another peer's certificate.
    let thief = Stranger::new();
    let mut config = (*thief.client()).clone();
    let key =
        ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(thief.pair.serialize_der())).unwrap();
    let shown = Arc::new(CertifiedKey::new(honest.der.clone(), key));
    config.client_auth_cert_resolver =
        Arc::new(Identity { key: shown.clone(), certificate: shown, raw: Arc::default() });
    let (at_client, at_server) =
        handshake(Arc::new(config), server_config(&b, &only(honest.public)).unwrap()).await;
    at_client.unwrap_err();
    at_server.unwrap_err();
    // A chain, although its first certificate is good.
    refuses(&Stranger { der: [honest.der.clone(), Stranger::new().der].concat(), ..honest.copy() })
        .await;
    // A key of another algorithm, and bytes that are not a certificate.
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let der = vec![rcgen::CertificateParams::default().self_signed(&pair).unwrap().into()];
    refuses(&Stranger { der, pair, public: honest.public }).await;
    for bad in
        [&[][..], &[0x30; 200], &honest.public.to_spki(), &honest.der[0][..honest.der[0].len() - 1]]
    {
        assert!(certified_key(&CertificateDer::from(bad)).is_err());
    }
}

impl Stranger {
    /// The same key and certificate.
    fn copy(&self) -> Stranger {
        let pair = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(
            &PrivatePkcs8KeyDer::from(self.pair.serialize_der()),
            &rcgen::PKCS_ED25519,
        );
        Stranger { public: self.public, der: self.der.clone(), pair: pair.unwrap() }
    }
}

#[tokio::test]
async fn peers_that_accept_each_other_connect() {
    let (a, b) = (secret(), secret());
    let client = client_config(&a, &only(b.public()), Credential::RawKey).unwrap();
    let server = server_config(&b, &only(a.public())).unwrap();
    // Twice with the same settings: nothing is resumed.
    for _ in 0..2 {
        let (at_client, at_server) = handshake(client.clone(), server.clone()).await;
        assert_eq!(at_client.unwrap(), (b.public(), b"hello".to_vec()));
        assert_eq!(at_server.unwrap(), (a.public(), ()));
    }
}

#[tokio::test]
async fn a_stranger_gets_no_byte() {
    let (a, b, stranger) = (secret(), secret(), secret());
    let client = client_config(&stranger, &only(b.public()), Credential::RawKey).unwrap();
    let server = server_config(&b, &only(a.public())).unwrap();
    let (at_client, at_server) = handshake(client, server).await;
    at_client.unwrap_err();
    assert_eq!(refused(at_server.unwrap_err()), stranger.public());
}

#[tokio::test]
async fn an_empty_set_accepts_no_peer() {
    let (a, b) = (secret(), secret());
    let client = client_config(&a, &only(b.public()), Credential::RawKey).unwrap();
    let server = server_config(&b, &AuthorizedPeers::new([])).unwrap();
    let (at_client, at_server) = handshake(client, server).await;
    at_client.unwrap_err();
    at_server.unwrap_err();
}

#[tokio::test]
async fn a_wrong_server_is_refused() {
    let (a, b, other) = (secret(), secret(), secret());
    let client = client_config(&a, &only(b.public()), Credential::RawKey).unwrap();
    let server = server_config(&other, &only(a.public())).unwrap();
    let (at_client, at_server) = handshake(client, server).await;
    assert_eq!(refused(at_client.unwrap_err()), other.public());
    at_server.unwrap_err();
}

#[tokio::test]
async fn a_key_shown_without_its_secret_is_refused() {
    let (a, b, thief) = (secret(), secret(), secret());
    let stolen = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(thief.pkcs8())).unwrap();
    let shown =
        CertifiedKey::new(vec![CertificateDer::from(a.public().to_spki().to_vec())], stolen);
    let mut client = (*client_config(&a, &only(b.public()), Credential::RawKey).unwrap()).clone();
    client.client_auth_cert_resolver =
        Arc::new(rustls::client::AlwaysResolvesClientRawPublicKeys::new(Arc::new(shown)));
    let server = server_config(&b, &only(a.public())).unwrap();
    let (at_client, at_server) = handshake(Arc::new(client), server).await;
    at_client.unwrap_err();
    at_server.unwrap_err();
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_the_next_handshake() {
    let scratch = TempDir::new().unwrap();
    let path = scratch.path().join("peers");
    let (a, b) = (secret(), secret());
    std::fs::write(&path, format!("{} a\n", a.public())).unwrap();
    let peers = AuthorizedPeers::with_file([], &path).unwrap();
    let client = client_config(&a, &only(b.public()), Credential::RawKey).unwrap();
    let server = server_config(&b, &peers).unwrap();
    handshake(client.clone(), server.clone()).await.1.unwrap();
    std::fs::write(&path, "# nobody\n").unwrap();
    assert_eq!(peers.reload().unwrap().removed, [a.public()]);
    let (at_client, at_server) = handshake(client.clone(), server.clone()).await;
    at_client.unwrap_err();
    assert_eq!(refused(at_server.unwrap_err()), a.public());
    std::fs::write(&path, format!("{}\n", a.public())).unwrap();
    peers.reload().unwrap();
    handshake(client, server).await.1.unwrap();
}

#[tokio::test]
async fn a_client_without_a_key_is_refused() {
    let (a, b) = (secret(), secret());
    let provider = Arc::new(ring::default_provider());
    let mut client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(
            Some(&only(b.public())),
            &provider,
            Arc::new(true.into()),
        )))
        .with_no_client_auth();
    client.alpn_protocols = vec![ALPN.to_vec()];
    let server = server_config(&b, &only(a.public())).unwrap();
    let (at_client, at_server) = handshake(Arc::new(client), server).await;
    at_client.unwrap_err();
    at_server.unwrap_err();
}

#[tokio::test]
async fn another_protocol_or_none_is_refused() {
    let (a, b) = (secret(), secret());
    for protocols in [vec![b"h2".to_vec()], vec![]] {
        let mut client =
            (*client_config(&a, &only(b.public()), Credential::RawKey).unwrap()).clone();
        client.alpn_protocols = protocols;
        let server = server_config(&b, &only(a.public())).unwrap();
        let (at_client, at_server) = handshake(Arc::new(client), server).await;
        at_client.unwrap_err();
        at_server.unwrap_err();
    }
}
