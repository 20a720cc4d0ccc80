//! TLS 1.3 between two peers that know each other by their Ed25519 keys.
//!
//! A peer shows its key as a raw public key (RFC 7250), or in an X.509 certificate if the TLS of
//! either end does not support raw keys. Only the key in a certificate counts: dates, names, issuer
//! and signature are ignored, and a chain is refused. In both cases the signature of the handshake
//! proves the key. A server follows what the client's hello offers, and prefers raw keys. A client
//! asks for raw keys first, and for a certificate ([`Credential`]) if those were refused.
//!
//! Both ends prove their keys, and each accepts only those in its [`AuthorizedPeers`] at that
//! moment. There are no session tickets, no resumption and no 0-RTT data, so a key that was just
//! revoked is refused. The client sends no server name.
//!
//! A stranger who connects to a server learns its public key and that it speaks [`ALPN`], nothing
//! else: TLS 1.3 servers prove themselves first. A stranger who answers a client learns only that it
//! speaks [`ALPN`]: the client sends its key after it has accepted the server's.
//!
//! In TLS 1.3 the client completes the handshake before the server has seen the client's key. **A
//! connect that succeeded does not mean that the server has accepted this client**: a refusal
//! arrives as an error of the first read. So the client waits for the server's first message before
//! it reports a session. The server's accept fails before it reads or writes application data.

mod identity;
pub(crate) mod verifier;

use crate::keys::{AuthorizedPeers, PublicKey, PublicKeyError, SecretKey};
#[cfg(test)]
pub(crate) use identity::certificate_only;
use identity::{AsOffered, Identity};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{AlertDescription, ClientConfig, CommonState, Error, PeerIncompatible, ServerConfig};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use verifier::Verifier;

/// The application protocol that both ends must name (RFC 7301).
pub const ALPN: &[u8] = b"oncewire/1";

/// TLS cannot be set up, or a connection lacks the properties required here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The TLS stack refuses this end's key or settings.
    #[error("cannot set up TLS with this end's key: {0}")]
    Setup(#[source] Error),
    /// This end's key cannot be put into a certificate, for peers without raw public keys.
    #[error("cannot put this end's key into a certificate: {0}")]
    Certificate(#[source] rcgen::Error),
    /// The handshake is not finished, or the peer did not prove a key.
    #[error("the peer has not proved that it owns a key")]
    NoKey,
    /// The peer's key is not an Ed25519 key.
    #[error("the peer's key is not an Ed25519 key: {0}")]
    Key(#[from] PublicKeyError),
    /// The peer speaks TLS but not [`ALPN`].
    #[error("the peer speaks TLS but not oncewire/1: it seems to be another program")]
    Protocol,
}

/// The peer's key is not on the list. The verifier puts it inside the `rustls` error, as
/// [`rustls::CertificateError::Other`]; [`crate::HandshakeError`] takes it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {0} is not authorized")]
pub struct UnknownPeer(
    /// The key that the peer showed. It has not yet proved that it owns the key.
    pub PublicKey,
);

/// The form in which an end shows its key and wants to see the other's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// As a raw public key.
    #[default]
    RawKey,
    /// In an X.509 certificate, for peers whose TLS does not support raw public keys.
    Certificate,
}

impl Credential {
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Credential::RawKey => "a raw public key",
            Credential::Certificate => "a certificate",
        }
    }
}

/// Settings for a client. It accepts any server whose key is in `peers`; [`peer_key`] returns which
/// one it was.
///
/// # Errors
/// [`TlsError`] if the TLS stack refuses the key.
pub fn client_config(
    secret: &SecretKey,
    peers: &AuthorizedPeers,
    credential: Credential,
) -> Result<Arc<ClientConfig>, TlsError> {
    client_config_for(secret, peers, credential, ALPN)
}

/// [`client_config`] for another application protocol.
pub(crate) fn client_config_for(
    secret: &SecretKey,
    peers: &AuthorizedPeers,
    credential: Credential,
    alpn: &[u8],
) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let identity = Identity::new(secret, credential == Credential::RawKey)?;
    let verifier = Arc::new(Verifier::new(Some(peers), &provider, identity.raw.clone()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::Setup)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(identity));
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    Ok(Arc::new(config))
}

/// Settings for a server. It accepts any client whose key is in `peers`, and none without a key.
#[derive(Clone, Debug)]
pub struct ServerTls {
    identity: Identity,
    /// `None` accepts any key.
    peers: Option<AuthorizedPeers>,
    provider: Arc<CryptoProvider>,
    alpn: Vec<u8>,
}

impl ServerTls {
    /// Prepares the settings.
    ///
    /// # Errors
    /// [`TlsError`] if the TLS stack refuses the key.
    pub fn new(secret: &SecretKey, peers: &AuthorizedPeers) -> Result<ServerTls, TlsError> {
        let identity = Identity::new(secret, true)?;
        Ok(ServerTls {
            identity,
            peers: Some(peers.clone()),
            provider: Arc::new(ring::default_provider()),
            alpn: ALPN.to_vec(),
        })
    }

    /// The same for another application protocol.
    #[cfg(target_os = "linux")]
    pub(crate) fn speaking(self, alpn: &[u8]) -> ServerTls {
        ServerTls { alpn: alpn.to_vec(), ..self }
    }

    /// For clients that come with a token, whatever their keys are.
    pub(crate) fn enrolling(&self) -> ServerTls {
        ServerTls { peers: None, alpn: crate::enroll::ALPN.to_vec(), ..self.clone() }
    }

    /// Settings for one connection: they depend on what the client's first message offers.
    ///
    /// # Errors
    /// [`TlsError::Setup`].
    pub fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let identity = Identity { raw: Arc::default(), ..self.identity.clone() };
        let client_is_raw = Arc::<AtomicBool>::default();
        let peers = self.peers.as_ref();
        let verifier = Arc::new(Verifier::new(peers, &self.provider, client_is_raw.clone()));
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(TlsError::Setup)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AsOffered { identity, client_is_raw }));
        config.alpn_protocols = vec![self.alpn.clone()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok(Arc::new(config))
    }
}

/// Settings for a single connection; see [`ServerTls`].
///
/// # Errors
/// [`TlsError`] if the TLS stack refuses the key.
pub fn server_config(
    secret: &SecretKey,
    peers: &AuthorizedPeers,
) -> Result<Arc<ServerConfig>, TlsError> {
    ServerTls::new(secret, peers)?.config()
}

/// Whether TLS failed over the form in which keys are shown: the other [`Credential`] may work.
pub(crate) fn refuses_credential(error: &Error) -> bool {
    match error {
        Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension) => true,
        Error::AlertReceived(alert) => OTHER_CREDENTIAL.contains(alert),
        _ => false,
    }
}

/// Alerts with which peers refuse an offer of certificate types that they do not support.
pub(crate) const OTHER_CREDENTIAL: [AlertDescription; 3] = [
    AlertDescription::HandshakeFailure,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::UnsupportedExtension,
];

/// A name for connectors, which require one. It is neither sent nor checked: only the key counts.
pub fn server_name() -> ServerName<'static> {
    ServerName::IpAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED).into())
}

/// The key that the peer of a finished handshake has proved to own.
///
/// Call it at both ends before anything else: a client that names no protocol gets through the
/// handshake.
///
/// # Errors
/// [`TlsError::NoKey`] during the handshake, [`TlsError::Key`] for another kind of key, and
/// [`TlsError::Protocol`] unless the connection agreed on [`ALPN`].
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

/// The key that the peer of a finished handshake showed, in either form: the verifier has checked
/// that it is the agreed one.
pub(crate) fn shown_key(certificates: &[CertificateDer<'_>]) -> Result<PublicKey, TlsError> {
    let [shown] = certificates else { return Err(TlsError::NoKey) };
    Ok(PublicKey::from_spki(shown).or_else(|_| certified_key(shown))?)
}

/// The key in a certificate.
fn certified_key(certificate: &CertificateDer<'_>) -> Result<PublicKey, PublicKeyError> {
    let parsed = webpki::EndEntityCert::try_from(certificate)
        .map_err(|_| PublicKeyError::Spki { len: certificate.len() })?;
    PublicKey::from_spki(&parsed.subject_public_key_info())
}

#[cfg(test)]
mod tests;
