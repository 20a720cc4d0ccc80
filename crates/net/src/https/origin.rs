//! TLS to the origins of services, at the end that connects to them.

use super::authority::{AuthorityError, certificates, private_key};
use super::lines::{Answer, Reason};
use super::watched::Watched;
use crate::sync::lock;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError,
    ProtocolVersion, RootCertStore, SignatureScheme,
};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream, client};
use tracing::{debug, warn};

/// How long the system's CAs are used before they are read again.
const SYSTEM_ROOTS: Duration = Duration::from_secs(3600);

/// How long an origin of TLS 1.3 that asked for a certificate may take to refuse a client without
/// one: twice as long as the handshake, within these.
const REFUSAL_TIME: Range<Duration> = Duration::from_millis(100)..Duration::from_secs(2);

/// How origins are verified, and what they are shown. The default: by the system's CAs, and nothing.
#[derive(Clone, Debug, Default)]
pub struct Origins(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// CAs in the place of the system's.
    bundle: Option<(PathBuf, Watched<Arc<dyn ServerCertVerifier>>)>,
    system: Mutex<Option<(Arc<dyn ServerCertVerifier>, Instant)>>,
    /// SHA-256 of the keys that the origin of a name may have.
    pins: HashMap<String, Vec<[u8; 32]>>,
    /// Certificates for origins that ask for one, by name.
    identities: HashMap<String, (PathBuf, PathBuf, Watched<Arc<CertifiedKey>>)>,
}

/// A key that the origin of a name must have, written `NAME=sha256/BASE64`: SHA-256 of its
/// SubjectPublicKeyInfo (RFC 7469, section 2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    name: String,
    hash: [u8; 32],
}

/// A text that is no pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected NAME=sha256/BASE64, with the SHA-256 of a public key")]
pub struct PinError;

impl std::str::FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Pin, PinError> {
        let (name, hash) = text.split_once("=sha256/").ok_or(PinError)?;
        let hash = STANDARD.decode(hash).ok().and_then(|hash| hash.try_into().ok());
        let name = name.parse().map_err(|_| PinError)?;
        match (name, hash) {
            (crate::target::Host::Name(name), Some(hash)) => Ok(Pin { name, hash }),
            _ => Err(PinError),
        }
    }
}

/// A name with a certificate and its key, written `NAME=CERTIFICATE:KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertificate<N> {
    /// What it is for.
    pub name: N,
    /// File of the certificate, with those between it and a CA.
    pub certificate: PathBuf,
    /// File of its private key.
    pub key: PathBuf,
}

impl<N: std::str::FromStr<Err: std::fmt::Display>> std::str::FromStr for NamedCertificate<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<NamedCertificate<N>, String> {
        let form = || "expected NAME=CERTIFICATE:KEY, with two files".to_owned();
        let (name, files) = text.split_once('=').ok_or_else(form)?;
        let (certificate, key) = files.rsplit_once(':').ok_or_else(form)?;
        if certificate.is_empty() || key.is_empty() {
            return Err(form());
        }
        let name = name.parse().map_err(|error: N::Err| error.to_string())?;
        Ok(NamedCertificate { name, certificate: certificate.into(), key: key.into() })
    }
}

/// A certificate with its key, for TLS.
///
/// # Errors
/// [`AuthorityError`] if it cannot be read, or the key is another one's.
pub(super) fn certified(certificate: &Path, key: &Path) -> Result<CertifiedKey, AuthorityError> {
    let (chain, der) = (certificates(certificate)?, private_key(key)?);
    let key_kind = |_| AuthorityError::KeyKind(key.into());
    let signing = provider::sign::any_supported_type(&der).map_err(key_kind)?;
    let certified = CertifiedKey::new(chain, signing);
    certified.keys_match().map_err(|_| AuthorityError::OtherKey {
        key: key.into(),
        certificate: certificate.into(),
    })?;
    Ok(certified)
}

impl Origins {
    /// Origins are verified by the CAs of `bundle`, or else by the system's; those of `pins` must
    /// have one of their keys as well. Those of `certificates` get a certificate if they ask.
    ///
    /// # Errors
    /// [`AuthorityError`] if a file cannot be used.
    pub fn new(
        bundle: Option<PathBuf>,
        pins: Vec<Pin>,
        certificates: Vec<NamedCertificate<crate::target::Host>>,
    ) -> Result<Origins, AuthorityError> {
        let mut inner = Inner::default();
        if let Some(path) = bundle {
            let watched = Watched::new(vec![path.clone()], || bundle_verifier(&path))?;
            inner.bundle = Some((path, watched));
        }
        for Pin { name, hash } in pins {
            inner.pins.entry(name).or_default().push(hash);
        }
        for NamedCertificate { name, certificate, key } in certificates {
            let watched = Watched::new(vec![certificate.clone(), key.clone()], || {
                certified(&certificate, &key).map(Arc::new)
            })?;
            inner.identities.insert(name.to_string(), (certificate, key, watched));
        }
        Ok(Origins(Arc::new(inner)))
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, String> {
        if let Some((path, watched)) = &self.0.bundle {
            return Ok((*watched.get(|| bundle_verifier(path))).clone());
        }
        let mut system = lock(&self.0.system);
        match &*system {
            Some((verifier, read)) if read.elapsed() < SYSTEM_ROOTS => Ok(verifier.clone()),
            _ => {
                let found = rustls_native_certs::load_native_certs();
                if let Some(error) = found.errors.first() {
                    debug!(%error, "some of the system's CAs cannot be read");
                }
                let verifier = verifier(found.certs).map_err(|()| {
                    "this end finds no CAs of the system: install ca-certificates, or name a bundle with --origin-ca".to_owned()
                })?;
                *system = Some((verifier.clone(), Instant::now()));
                Ok(verifier)
            }
        }
    }

    /// Begins TLS with the origin of a name, offering these protocols. Returns the connection and
    /// what to tell the opener, with the protocol chosen.
    ///
    /// # Errors
    /// Why it failed, as a word and as text.
    pub(crate) async fn begin(
        &self,
        stream: TcpStream,
        name: &str,
        protocols: Vec<Vec<u8>>,
        limit: Duration,
    ) -> Result<(TlsStream<TcpStream>, Answer), (Reason, String)> {
        let other = |text: String| (Reason::Failed, text);
        let judge = Judge {
            verifier: self.verifier().map_err(other)?,
            pins: self.0.pins.get(name).cloned().unwrap_or_default(),
        };
        let identity = self.0.identities.get(name).map(|(certificate, key, watched)| {
            (*watched.get(|| certified(certificate, key).map(Arc::new))).clone()
        });
        let shown = Arc::new(Shown { identity, lacking: AtomicBool::new(false) });
        let mut config = ClientConfig::builder_with_provider(crypto())
            .with_safe_default_protocol_versions()
            .map_err(|error| other(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(judge))
            .with_client_cert_resolver(shown.clone());
        config.alpn_protocols = protocols;
        // A resumed connection would not be verified again.
        config.resumption = Resumption::disabled();
        let server =
            ServerName::try_from(name.to_owned()).map_err(|error| other(error.to_string()))?;
        let handshake = TlsConnector::from(Arc::new(config)).connect(server, stream);
        let begun = Instant::now();
        let mut stream = match tokio::time::timeout(limit, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(shown.reason(&error)),
            Err(_) => return Err((Reason::Timeout, format!("no answer in {} s", limit.as_secs()))),
        };
        let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        if !shown.lacking.load(Ordering::Relaxed) {
            return Ok((stream.into(), Answer::Tls(protocol)));
        }
        // In TLS 1.3 an origin refuses only after the handshake.
        if stream.get_ref().1.protocol_version() == Some(ProtocolVersion::TLSv1_3) {
            let wait = (2 * begun.elapsed()).clamp(REFUSAL_TIME.start, REFUSAL_TIME.end);
            // An origin that says nothing waits for a request.
            if let Ok(Err(text)) = tokio::time::timeout(wait, first_word(&mut stream)).await {
                return Err((Reason::ClientCertificate, text));
            }
        }
        Ok((stream.into(), Answer::Asks(protocol)))
    }
}

/// Waits for what an origin sends first after its handshake. The application's part of it stays to be
/// read.
///
/// # Errors
/// The origin refuses: why, for people.
async fn first_word(stream: &mut client::TlsStream<TcpStream>) -> Result<(), String> {
    let (tcp, tls) = stream.get_mut();
    loop {
        tcp.readable().await.map_err(|error| error.to_string())?;
        match tls.read_tls(&mut Ready(tcp)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.to_string()),
            Ok(0) => return Err("the origin closed the connection".to_owned()),
            Ok(_) => {
                return tls.process_new_packets().map(drop).map_err(|error| error.to_string());
            }
        }
    }
}

/// What can be read now.
struct Ready<'a>(&'a TcpStream);

impl io::Read for Ready<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

/// The algorithms of all connections.
pub(super) fn crypto() -> Arc<CryptoProvider> {
    static PROVIDER: std::sync::LazyLock<Arc<CryptoProvider>> =
        std::sync::LazyLock::new(|| Arc::new(provider::default_provider()));
    PROVIDER.clone()
}

fn bundle_verifier(path: &Path) -> Result<Arc<dyn ServerCertVerifier>, AuthorityError> {
    let none = |()| AuthorityError::Pem { path: path.into(), what: "certificate" };
    verifier(certificates(path)?).map_err(none)
}

/// A verifier with these CAs; those that cannot be used are skipped.
fn verifier(all: Vec<CertificateDer<'static>>) -> Result<Arc<dyn ServerCertVerifier>, ()> {
    let mut roots = RootCertStore::empty();
    let (_, skipped) = roots.add_parsable_certificates(all);
    if skipped > 0 {
        warn!(skipped, "some CAs cannot be used");
    }
    match WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto()).build() {
        Ok(verifier) => Ok(verifier),
        Err(_) => Err(()),
    }
}

/// Verifies an origin, and compares its key.
#[derive(Debug)]
struct Judge {
    verifier: Arc<dyn ServerCertVerifier>,
    /// SHA-256 of its possible keys; empty for any.
    pins: Vec<[u8; 32]>,
}

/// The origin has another key than it must have.
#[derive(Debug, thiserror::Error)]
#[error("its key has the pin sha256/{0}")]
struct OtherPin(String);

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        if !self.pins.is_empty() {
            let parsed = webpki::EndEntityCert::try_from(end_entity)
                .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
            let hash = digest::digest(&digest::SHA256, &parsed.subject_public_key_info());
            if !self.pins.iter().any(|pin| pin == hash.as_ref()) {
                let other = OtherPin(STANDARD.encode(hash));
                return Err(CertificateError::Other(OtherError(Arc::new(other))).into());
            }
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Whether the certificate is of a CA, as most are that are signed by their own key.
fn is_ca(error: &Arc<dyn std::error::Error + Send + Sync>) -> bool {
    matches!(error.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// What an origin is shown that asks for a certificate.
#[derive(Debug)]
struct Shown {
    identity: Option<Arc<CertifiedKey>>,
    /// It asked, and there is none.
    lacking: AtomicBool,
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        if self.identity.is_none() {
            self.lacking.store(true, Ordering::Relaxed);
        }
        self.identity.clone()
    }

    fn has_certs(&self) -> bool {
        // Or it would not hear of the question.
        true
    }
}

impl Shown {
    /// Why a handshake failed.
    fn reason(&self, error: &io::Error) -> (Reason, String) {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        let reason = match tls {
            None if error.kind() == io::ErrorKind::TimedOut => Reason::Timeout,
            None => Reason::Failed,
            Some(Error::InvalidCertificate(why)) => match why {
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Reason::Expired,
                CertificateError::UnknownIssuer => Reason::Issuer,
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Reason::Name,
                CertificateError::Other(other) if other.0.is::<OtherPin>() => Reason::Pin,
                CertificateError::Other(other) if is_ca(&other.0) => Reason::Issuer,
                _ => Reason::Certificate,
            },
            Some(Error::AlertReceived(_)) if self.lacking.load(Ordering::Relaxed) => {
                Reason::ClientCertificate
            }
            Some(Error::AlertReceived(
                AlertDescription::ProtocolVersion
                | AlertDescription::InsufficientSecurity
                | AlertDescription::NoApplicationProtocol,
            )) => Reason::Protocol,
            Some(Error::AlertReceived(_)) => Reason::Refused,
            Some(
                Error::PeerIncompatible(_)
                | Error::PeerMisbehaved(_)
                | Error::InvalidMessage(_)
                | Error::InappropriateMessage { .. }
                | Error::InappropriateHandshakeMessage { .. }
                | Error::NoApplicationProtocol,
            ) => Reason::Protocol,
            Some(_) => Reason::Failed,
        };
        (reason, error.to_string())
    }
}
