//! TLS 1.3 between two peers that know each other by their Ed25519 keys (raw public keys, RFC 7250).
//!
//! Both ends prove their keys, and each accepts only those in its [`AuthorizedPeers`], asked anew at every handshake: there are no session
//! tickets, no resumption and no 0-RTT data, so a key that was revoked a moment ago is refused. The client sends no server name.
//!
//! A stranger who connects to a server learns its public key and that it speaks [`ALPN`], and nothing else: TLS 1.3 servers prove themselves
//! first. One who answers a client learns only that it speaks [`ALPN`]: it sends its key after it has accepted the server's.
//!
//! In TLS 1.3 the client has finished the handshake before the server has seen the client's key. **A connect that succeeded does not mean
//! that the server has accepted us**: the refusal arrives as an error of the first read. So the client waits for the server's first word
//! before it tells anybody that the peer is there. The server's accept fails before it reads or writes any application data.

use crate::keys::{AuthorizedPeers, PublicKey, PublicKeyError, SecretKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, CommonState, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The application protocol of RFC 7301 that both ends must name.
pub const ALPN: &[u8] = b"oncewire/1";

/// TLS that cannot be set up, or a connection that has not the properties asked for here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The TLS stack refuses our key or settings.
    #[error("cannot set up TLS with our key: {0}")]
    Setup(#[source] Error),
    /// The handshake is not finished, or the peer did not prove a key.
    #[error("the peer has not proved its key")]
    NoKey,
    /// The peer's key is of another kind.
    #[error("the peer's key is of another kind: {0}")]
    Key(#[from] PublicKeyError),
    /// The peer speaks TLS but not our protocol.
    #[error("the peer does not speak oncewire/1")]
    Protocol,
}

/// Why a handshake was refused: it is inside the `rustls` error, as [`CertificateError::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {0} is not authorized; if it is the right one, add it with --peer or to the file of authorized peers")]
pub struct UnknownPeer(
    /// The key that the peer showed. It has not proved yet that it owns it.
    pub PublicKey,
);

/// Settings for the end that connects. It accepts any server whose key is in `peers`; [`peer_key`] tells which it was.
pub fn client_config(secret: &SecretKey, peers: &AuthorizedPeers) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Verifier::new(peers, &provider));
    let identity = identity(secret)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::Setup)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(identity)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    Ok(Arc::new(config))
}

/// Settings for the end that listens. It accepts any client whose key is in `peers`, and no client without a key.
pub fn server_config(secret: &SecretKey, peers: &AuthorizedPeers) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Verifier::new(peers, &provider));
    let identity = identity(secret)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::Setup)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(identity)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// The name to give to a connector, which wants one. It is neither sent nor checked: the key is all that counts.
pub fn server_name() -> ServerName<'static> {
    ServerName::IpAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED).into())
}

/// The key that the peer of a finished handshake has proved to own, if the connection also agreed on [`ALPN`].
///
/// Call it at both ends before anything else: a client that names no protocol at all gets through the handshake.
pub fn peer_key(connection: &CommonState) -> Result<PublicKey, TlsError> {
    if connection.is_handshaking() {
        return Err(TlsError::NoKey);
    }
    let [key] = connection.peer_certificates().unwrap_or_default() else { return Err(TlsError::NoKey) };
    let key = PublicKey::from_spki(key)?;
    if connection.alpn_protocol() != Some(ALPN) {
        return Err(TlsError::Protocol);
    }
    Ok(key)
}

/// Why a handshake failed, in words for people.
pub(crate) fn reason(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    if let Some(Error::InvalidCertificate(CertificateError::Other(OtherError(other)))) = inner
        && let Some(unknown) = other.downcast_ref::<UnknownPeer>()
    {
        return unknown.to_string();
    }
    error.to_string()
}

/// Our key pair as the TLS stack wants it, "certificate" being the raw public key.
fn identity(secret: &SecretKey) -> Result<Arc<CertifiedKey>, TlsError> {
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(secret.pkcs8())).map_err(TlsError::Setup)?;
    Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(secret.public().to_spki().to_vec())], key)))
}

/// Accepts a peer whose raw public key is in the set at this moment.
#[derive(Debug)]
struct Verifier {
    peers: AuthorizedPeers,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn new(peers: &AuthorizedPeers, provider: &CryptoProvider) -> Verifier {
        Verifier { peers: peers.clone(), algorithms: provider.signature_verification_algorithms }
    }

    fn accept(&self, key: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        if !others.is_empty() {
            return Err(CertificateError::BadEncoding.into());
        }
        let key = PublicKey::from_spki(key).map_err(|_| CertificateError::BadEncoding)?;
        if !self.peers.contains(&key) {
            return Err(CertificateError::Other(OtherError(Arc::new(UnknownPeer(key)))).into());
        }
        Ok(())
    }

    fn check(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature_with_raw_key(message, &SubjectPublicKeyInfoDer::from(key.as_ref()), signed, &self.algorithms)
    }
}

/// What the two verifier traits have in common. TLS 1.2 is not offered, so its signatures are never asked for.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.check(message, key, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.accept(key, others).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.accept(key, others).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Peer;
    use crate::text::tests::Scratch;
    use std::io;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    fn secret() -> SecretKey {
        SecretKey::generate().unwrap()
    }

    fn only(key: PublicKey) -> AuthorizedPeers {
        AuthorizedPeers::new([Peer::from(key)])
    }

    /// The server greets, the client reads. What each end saw: the peer's key, or its error.
    type Seen<T> = io::Result<(PublicKey, T)>;

    async fn meet(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> (Seen<Vec<u8>>, Seen<()>) {
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

    /// The key inside an error of an end that refused its peer.
    fn refused(error: io::Error) -> PublicKey {
        let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>()).expect("an error of TLS");
        let Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) = error else { panic!("{error}") };
        inner.downcast_ref::<UnknownPeer>().unwrap().0
    }

    #[tokio::test]
    async fn two_that_know_each_other_meet() {
        let (a, b) = (secret(), secret());
        let client = client_config(&a, &only(b.public())).unwrap();
        let server = server_config(&b, &only(a.public())).unwrap();
        // Twice with the same settings: nothing is resumed.
        for _ in 0..2 {
            let (at_client, at_server) = meet(client.clone(), server.clone()).await;
            assert_eq!(at_client.unwrap(), (b.public(), b"hello".to_vec()));
            assert_eq!(at_server.unwrap(), (a.public(), ()));
        }
    }

    #[tokio::test]
    async fn a_stranger_gets_no_byte() {
        let (a, b, stranger) = (secret(), secret(), secret());
        let client = client_config(&stranger, &only(b.public())).unwrap();
        let server = server_config(&b, &only(a.public())).unwrap();
        let (at_client, at_server) = meet(client, server).await;
        at_client.unwrap_err();
        assert_eq!(refused(at_server.unwrap_err()), stranger.public());
    }

    #[tokio::test]
    async fn an_empty_set_accepts_nobody() {
        let (a, b) = (secret(), secret());
        let client = client_config(&a, &only(b.public())).unwrap();
        let server = server_config(&b, &AuthorizedPeers::new([])).unwrap();
        let (at_client, at_server) = meet(client, server).await;
        at_client.unwrap_err();
        at_server.unwrap_err();
    }

    #[tokio::test]
    async fn a_wrong_server_is_refused() {
        let (a, b, other) = (secret(), secret(), secret());
        let client = client_config(&a, &only(b.public())).unwrap();
        let server = server_config(&other, &only(a.public())).unwrap();
        let (at_client, at_server) = meet(client, server).await;
        assert_eq!(refused(at_client.unwrap_err()), other.public());
        at_server.unwrap_err();
    }

    #[tokio::test]
    async fn a_key_shown_without_its_secret_is_refused() {
        let (a, b, thief) = (secret(), secret(), secret());
        let stolen = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(thief.pkcs8())).unwrap();
        let shown = CertifiedKey::new(vec![CertificateDer::from(a.public().to_spki().to_vec())], stolen);
        let mut client = (*client_config(&a, &only(b.public())).unwrap()).clone();
        client.client_auth_cert_resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::new(shown)));
        let server = server_config(&b, &only(a.public())).unwrap();
        let (at_client, at_server) = meet(Arc::new(client), server).await;
        at_client.unwrap_err();
        at_server.unwrap_err();
    }

    #[tokio::test]
    async fn a_revoked_key_is_refused_at_the_next_handshake() {
        let scratch = Scratch::new();
        let path = scratch.path("peers");
        let (a, b) = (secret(), secret());
        std::fs::write(&path, format!("{} a\n", a.public())).unwrap();
        let peers = AuthorizedPeers::with_file([], &path).unwrap();
        let client = client_config(&a, &only(b.public())).unwrap();
        let server = server_config(&b, &peers).unwrap();
        meet(client.clone(), server.clone()).await.1.unwrap();
        std::fs::write(&path, "# nobody\n").unwrap();
        assert_eq!(peers.reload().unwrap().removed, [a.public()]);
        let (at_client, at_server) = meet(client.clone(), server.clone()).await;
        at_client.unwrap_err();
        assert_eq!(refused(at_server.unwrap_err()), a.public());
        std::fs::write(&path, format!("{}\n", a.public())).unwrap();
        peers.reload().unwrap();
        meet(client, server).await.1.unwrap();
    }

    #[tokio::test]
    async fn a_client_without_a_key_is_refused() {
        let (a, b) = (secret(), secret());
        let provider = Arc::new(ring::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(&only(b.public()), &provider)))
            .with_no_client_auth();
        client.alpn_protocols = vec![ALPN.to_vec()];
        let server = server_config(&b, &only(a.public())).unwrap();
        let (at_client, at_server) = meet(Arc::new(client), server).await;
        at_client.unwrap_err();
        at_server.unwrap_err();
    }

    #[tokio::test]
    async fn another_protocol_or_none_is_refused() {
        let (a, b) = (secret(), secret());
        for protocols in [vec![b"h2".to_vec()], vec![]] {
            let mut client = (*client_config(&a, &only(b.public())).unwrap()).clone();
            client.alpn_protocols = protocols;
            let server = server_config(&b, &only(a.public())).unwrap();
            let (at_client, at_server) = meet(Arc::new(client), server).await;
            at_client.unwrap_err();
            at_server.unwrap_err();
        }
    }
}
