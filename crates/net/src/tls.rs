//! TLS 1.3 between two peers that know each other by their Ed25519 keys.
//!
//! A key is shown as a raw public key (RFC 7250), or, by and to a peer whose TLS knows none, in an X.509 certificate. Of that nothing counts but
//! the key in it: no date, no name, no issuer, no signature, and there is only the one. What proves the key is the signature of the handshake, in
//! both cases. A server goes by what the client's hello offers, and prefers raw keys; a client asks for raw keys, and with a certificate
//! ([`Credential`]) where that was refused.
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
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, CommonState, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, ServerConfig, SignatureScheme,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The application protocol of RFC 7301 that both ends must name.
pub const ALPN: &[u8] = b"oncewire/1";

/// TLS that cannot be set up, or a connection that has not the properties asked for here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The TLS stack refuses our key or settings.
    #[error("cannot set up TLS with our key: {0}")]
    Setup(#[source] Error),
    /// No certificate can be made of our key, for peers that do not know raw public keys.
    #[error("cannot make a certificate of our key: {0}")]
    Certificate(#[source] rcgen::Error),
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

/// How an end shows its key, and wants to see the other's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// As a raw public key.
    #[default]
    RawKey,
    /// In an X.509 certificate, for peers whose TLS knows no raw public keys.
    Certificate,
}

/// Settings for the end that connects. It accepts any server whose key is in `peers`; [`peer_key`] tells which it was.
pub fn client_config(secret: &SecretKey, peers: &AuthorizedPeers, credential: Credential) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let identity = Identity::new(secret, credential == Credential::RawKey)?;
    let verifier = Arc::new(Verifier::new(peers, &provider, identity.raw.clone()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::Setup)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(identity));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    Ok(Arc::new(config))
}

/// The end that listens. It accepts any client whose key is in `peers`, and no client without a key.
#[derive(Clone, Debug)]
pub struct Listening {
    identity: Identity,
    peers: AuthorizedPeers,
    provider: Arc<CryptoProvider>,
}

impl Listening {
    /// With this key and these peers.
    pub fn new(secret: &SecretKey, peers: &AuthorizedPeers) -> Result<Listening, TlsError> {
        let identity = Identity::new(secret, true)?;
        Ok(Listening { identity, peers: peers.clone(), provider: Arc::new(ring::default_provider()) })
    }

    /// Settings for one connection: they learn from its first message what the client knows.
    pub fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let identity = Identity { raw: Arc::default(), ..self.identity.clone() };
        let client_is_raw = Arc::<AtomicBool>::default();
        let verifier = Arc::new(Verifier::new(&self.peers, &self.provider, client_is_raw.clone()));
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::Setup)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AsOffered { identity, client_is_raw }));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok(Arc::new(config))
    }
}

/// Settings for one connection that is answered; see [`Listening`].
pub fn server_config(secret: &SecretKey, peers: &AuthorizedPeers) -> Result<Arc<ServerConfig>, TlsError> {
    Listening::new(secret, peers)?.config()
}

/// Whether a handshake that failed may succeed with the other [`Credential`].
pub(crate) fn wants_other_credential(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension)) => true,
        Some(Error::AlertReceived(alert)) => OTHER_CREDENTIAL.contains(alert),
        _ => false,
    }
}

/// Alerts with which peers answer an offer of certificate types that they do not know.
pub(crate) const OTHER_CREDENTIAL: [AlertDescription; 3] =
    [AlertDescription::HandshakeFailure, AlertDescription::UnsupportedCertificate, AlertDescription::UnsupportedExtension];

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
    let key = shown_key(connection.peer_certificates().unwrap_or_default())?;
    if connection.alpn_protocol() != Some(ALPN) {
        return Err(TlsError::Protocol);
    }
    Ok(key)
}

/// The key that a peer of a finished handshake showed, of either kind: the verifier saw to the one that was agreed on.
pub(crate) fn shown_key(certificates: &[CertificateDer<'_>]) -> Result<PublicKey, TlsError> {
    let [shown] = certificates else { return Err(TlsError::NoKey) };
    Ok(PublicKey::from_spki(shown).or_else(|_| certified_key(shown))?)
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

/// The key in a certificate.
fn certified_key(certificate: &CertificateDer<'_>) -> Result<PublicKey, PublicKeyError> {
    let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| PublicKeyError::Spki { len: certificate.len() })?;
    PublicKey::from_spki(&parsed.subject_public_key_info())
}

/// Our key pair as the TLS stack wants it.
#[derive(Clone, Debug)]
struct Identity {
    key: Arc<CertifiedKey>,
    certificate: Arc<CertifiedKey>,
    /// Which of them is shown.
    raw: Arc<AtomicBool>,
}

impl Identity {
    fn new(secret: &SecretKey, raw: bool) -> Result<Identity, TlsError> {
        let pkcs8 = PrivatePkcs8KeyDer::from(secret.pkcs8());
        let key = ring::sign::any_eddsa_type(&pkcs8).map_err(TlsError::Setup)?;
        let shown = |der| Arc::new(CertifiedKey::new(vec![der], key.clone()));
        // Without names and with dates that do not matter: the same each time, since Ed25519 signatures are.
        let pair = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &rcgen::PKCS_ED25519).map_err(TlsError::Certificate)?;
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "oncewire");
        let certificate = parameters.self_signed(&pair).map_err(TlsError::Certificate)?;
        Ok(Identity {
            key: shown(CertificateDer::from(secret.public().to_spki().to_vec())),
            certificate: shown(certificate.into()),
            raw: Arc::new(AtomicBool::new(raw)),
        })
    }

    fn shown(&self) -> Arc<CertifiedKey> {
        if self.raw.load(Ordering::Relaxed) { self.key.clone() } else { self.certificate.clone() }
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.shown())
    }

    fn only_raw_public_keys(&self) -> bool {
        self.raw.load(Ordering::Relaxed)
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Whether raw public keys are among the certificate types: 2 in the registry of IANA.
fn has_raw_keys<T: Copy + Into<u8>>(offered: Option<&[T]>) -> bool {
    offered.is_some_and(|types| types.iter().any(|&kind| kind.into() == 2))
}

/// What a server shows and asks for, each by what the client's hello offers. For one connection: the TLS stack shows the hello first, and then asks
/// which kinds it is to be.
#[derive(Debug)]
struct AsOffered {
    identity: Identity,
    /// Known to the verifier, too.
    client_is_raw: Arc<AtomicBool>,
}

impl ResolvesServerCert for AsOffered {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.identity.raw.store(has_raw_keys(hello.server_cert_types()), Ordering::Relaxed);
        self.client_is_raw.store(has_raw_keys(hello.client_cert_types()), Ordering::Relaxed);
        Some(self.identity.shown())
    }

    fn only_raw_public_keys(&self) -> bool {
        self.identity.raw.load(Ordering::Relaxed)
    }
}

/// A server's identity that is shown as a certificate, whatever the client offers.
#[cfg(test)]
pub(crate) fn certificate_only(secret: &SecretKey) -> Arc<dyn ResolvesServerCert> {
    #[derive(Debug)]
    struct Only(Arc<CertifiedKey>);
    impl ResolvesServerCert for Only {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            Some(self.0.clone())
        }
    }
    Arc::new(Only(Identity::new(secret, false).unwrap().certificate))
}

/// Accepts a peer whose key is in the set at this moment.
#[derive(Debug)]
struct Verifier {
    peers: AuthorizedPeers,
    algorithms: WebPkiSupportedAlgorithms,
    /// Whether the key comes as such, not in a certificate.
    raw: Arc<AtomicBool>,
}

impl Verifier {
    fn new(peers: &AuthorizedPeers, provider: &CryptoProvider, raw: Arc<AtomicBool>) -> Verifier {
        Verifier { peers: peers.clone(), algorithms: provider.signature_verification_algorithms, raw }
    }

    fn key(&self, shown: &CertificateDer<'_>) -> Result<PublicKey, Error> {
        let key = if self.raw.load(Ordering::Relaxed) { PublicKey::from_spki(shown) } else { certified_key(shown) };
        key.map_err(|_| CertificateError::BadEncoding.into())
    }

    fn accept(&self, shown: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        if !others.is_empty() {
            return Err(CertificateError::BadEncoding.into());
        }
        let key = self.key(shown)?;
        if !self.peers.contains(&key) {
            return Err(CertificateError::Other(OtherError(Arc::new(UnknownPeer(key)))).into());
        }
        Ok(())
    }

    fn check(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = self.key(shown)?.to_spki();
        verify_tls13_signature_with_raw_key(message, &SubjectPublicKeyInfoDer::from(&spki[..]), signed, &self.algorithms)
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
            self.raw.load(Ordering::Relaxed)
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

    /// A key of a peer whose TLS knows certificates only, and the certificate.
    struct Stranger {
        public: PublicKey,
        der: Vec<CertificateDer<'static>>,
        pair: rcgen::KeyPair,
    }

    impl Stranger {
        fn new() -> Stranger {
            let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
            let public = PublicKey(pair.public_key_raw().try_into().unwrap());
            // Names, and a time that is past: none of it counts.
            let mut parameters = rcgen::CertificateParams::new(["stranger.example".to_string()]).unwrap();
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
                .with_custom_certificate_verifier(Arc::new(Ordinary))
                .with_client_auth_cert(self.der.clone(), self.key())
                .unwrap();
            config.alpn_protocols = vec![ALPN.to_vec()];
            Arc::new(config)
        }

        fn server(&self) -> Arc<ServerConfig> {
            let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(&[&TLS13])
                .unwrap()
                .with_client_cert_verifier(Arc::new(Ordinary))
                .with_single_cert(self.der.clone(), self.key())
                .unwrap();
            config.alpn_protocols = vec![ALPN.to_vec()];
            Arc::new(config)
        }
    }

    /// Verifies as TLS stacks do that know no raw keys, without asking whose the certificate is.
    #[derive(Debug)]
    struct Ordinary;

    macro_rules! ordinary_signatures {
        () => {
            fn verify_tls12_signature(
                &self,
                _: &[u8],
                _: &CertificateDer<'_>,
                _: &DigitallySignedStruct,
            ) -> Result<HandshakeSignatureValid, Error> {
                Err(Error::General("TLS 1.2".into()))
            }

            fn verify_tls13_signature(
                &self,
                message: &[u8],
                certificate: &CertificateDer<'_>,
                signed: &DigitallySignedStruct,
            ) -> Result<HandshakeSignatureValid, Error> {
                let algorithms = ring::default_provider().signature_verification_algorithms;
                rustls::crypto::verify_tls13_signature(message, certificate, signed, &algorithms)
            }

            fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
                ring::default_provider().signature_verification_algorithms.supported_schemes()
            }
        };
    }

    impl ServerCertVerifier for Ordinary {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        ordinary_signatures!();
    }

    impl ClientCertVerifier for Ordinary {
        fn root_hint_subjects(&self) -> &[DistinguishedName] {
            &[]
        }

        fn verify_client_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: UnixTime,
        ) -> Result<ClientCertVerified, Error> {
            Ok(ClientCertVerified::assertion())
        }

        ordinary_signatures!();
    }

    #[tokio::test]
    async fn a_client_that_knows_only_certificates_is_judged_by_its_key() {
        let (b, stranger, other) = (secret(), Stranger::new(), Stranger::new());
        let server = Listening::new(&b, &only(stranger.public)).unwrap();
        let (at_client, at_server) = meet(stranger.client(), server.config().unwrap()).await;
        // It sees our key in a certificate, too.
        assert_eq!(at_client.unwrap(), (b.public(), b"hello".to_vec()));
        assert_eq!(at_server.unwrap(), (stranger.public, ()));
        let (at_client, at_server) = meet(other.client(), server.config().unwrap()).await;
        at_client.unwrap_err();
        assert_eq!(refused(at_server.unwrap_err()), other.public);
        // And one that knows raw keys is still asked for its own.
        let a = secret();
        let server = Listening::new(&b, &only(a.public())).unwrap().config().unwrap();
        let (at_client, at_server) = meet(client_config(&a, &only(b.public()), Credential::RawKey).unwrap(), server).await;
        assert_eq!((at_client.unwrap().0, at_server.unwrap().0), (b.public(), a.public()));
    }

    #[tokio::test]
    async fn a_server_that_knows_only_certificates_is_judged_by_its_key() {
        let (a, stranger, other) = (secret(), Stranger::new(), Stranger::new());
        let client = |credential| client_config(&a, &only(stranger.public), credential).unwrap();
        // Asked for a raw key, it has none: so much the client can tell.
        let (at_client, at_server) = meet(client(Credential::RawKey), stranger.server()).await;
        assert!(wants_other_credential(&at_client.unwrap_err()));
        at_server.unwrap_err();
        let (at_client, at_server) = meet(client(Credential::Certificate), stranger.server()).await;
        assert_eq!(at_client.unwrap(), (stranger.public, b"hello".to_vec()));
        assert_eq!(at_server.unwrap(), (a.public(), ()));
        let (at_client, at_server) = meet(client(Credential::Certificate), other.server()).await;
        let error = at_client.unwrap_err();
        assert!(!wants_other_credential(&error));
        assert_eq!(refused(error), other.public);
        at_server.unwrap_err();
    }

    #[tokio::test]
    async fn certificates_do_not_stand_in_for_keys() {
        let (b, honest) = (secret(), Stranger::new());
        let refuses = async |stranger: &Stranger| {
            let server = server_config(&b, &only(honest.public)).unwrap();
            let (at_client, at_server) = meet(stranger.client(), server).await;
            at_client.unwrap_err();
            at_server.unwrap_err();
        };
        // Somebody else's certificate.
        let thief = Stranger::new();
        let mut config = (*thief.client()).clone();
        let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(thief.pair.serialize_der())).unwrap();
        let shown = Arc::new(CertifiedKey::new(honest.der.clone(), key));
        config.client_auth_cert_resolver = Arc::new(Identity { key: shown.clone(), certificate: shown, raw: Arc::default() });
        let (at_client, at_server) = meet(Arc::new(config), server_config(&b, &only(honest.public)).unwrap()).await;
        at_client.unwrap_err();
        at_server.unwrap_err();
        // A chain, though its first certificate is good.
        refuses(&Stranger { der: [honest.der.clone(), Stranger::new().der].concat(), ..honest.copy() }).await;
        // A key of another algorithm, and what is no certificate.
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let der = vec![rcgen::CertificateParams::default().self_signed(&pair).unwrap().into()];
        refuses(&Stranger { der, pair, public: honest.public }).await;
        for bad in [&[][..], &[0x30; 200], &honest.public.to_spki(), &honest.der[0][..honest.der[0].len() - 1]] {
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
    async fn two_that_know_each_other_meet() {
        let (a, b) = (secret(), secret());
        let client = client_config(&a, &only(b.public()), Credential::RawKey).unwrap();
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
        let client = client_config(&stranger, &only(b.public()), Credential::RawKey).unwrap();
        let server = server_config(&b, &only(a.public())).unwrap();
        let (at_client, at_server) = meet(client, server).await;
        at_client.unwrap_err();
        assert_eq!(refused(at_server.unwrap_err()), stranger.public());
    }

    #[tokio::test]
    async fn an_empty_set_accepts_nobody() {
        let (a, b) = (secret(), secret());
        let client = client_config(&a, &only(b.public()), Credential::RawKey).unwrap();
        let server = server_config(&b, &AuthorizedPeers::new([])).unwrap();
        let (at_client, at_server) = meet(client, server).await;
        at_client.unwrap_err();
        at_server.unwrap_err();
    }

    #[tokio::test]
    async fn a_wrong_server_is_refused() {
        let (a, b, other) = (secret(), secret(), secret());
        let client = client_config(&a, &only(b.public()), Credential::RawKey).unwrap();
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
        let mut client = (*client_config(&a, &only(b.public()), Credential::RawKey).unwrap()).clone();
        client.client_auth_cert_resolver = Arc::new(rustls::client::AlwaysResolvesClientRawPublicKeys::new(Arc::new(shown)));
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
        let client = client_config(&a, &only(b.public()), Credential::RawKey).unwrap();
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
            .with_custom_certificate_verifier(Arc::new(Verifier::new(&only(b.public()), &provider, Arc::new(true.into()))))
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
            let mut client = (*client_config(&a, &only(b.public()), Credential::RawKey).unwrap()).clone();
            client.alpn_protocols = protocols;
            let server = server_config(&b, &only(a.public())).unwrap();
            let (at_client, at_server) = meet(Arc::new(client), server).await;
            at_client.unwrap_err();
            at_server.unwrap_err();
        }
    }
}
