//! How an end shows its key: raw, or in a certificate.

use super::TlsError;
use crate::keys::SecretKey;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// This end's key pair, as the TLS stack wants it.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) certificate: Arc<CertifiedKey>,
    /// Whether the raw key is shown.
    pub(super) raw: Arc<AtomicBool>,
}

impl Identity {
    pub(super) fn new(secret: &SecretKey, raw: bool) -> Result<Identity, TlsError> {
        let pkcs8 = PrivatePkcs8KeyDer::from(secret.pkcs8());
        let key = ring::sign::any_eddsa_type(&pkcs8).map_err(TlsError::Setup)?;
        let shown = |der| Arc::new(CertifiedKey::new(vec![der], key.clone()));
        // Names and dates do not matter. The certificate is the same each time, because Ed25519
        // signatures are.
        let pair = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &rcgen::PKCS_ED25519)
            .map_err(TlsError::Certificate)?;
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

/// Whether the certificate types include raw public keys, number 2 in IANA's registry.
fn has_raw_keys<T: Copy + Into<u8>>(offered: Option<&[T]>) -> bool {
    offered.is_some_and(|types| types.iter().any(|&kind| kind.into() == 2))
}

/// What a server shows and asks for, depending on the client's hello. It serves one connection: the
/// TLS stack passes the hello first, and then asks for the forms.
#[derive(Debug)]
pub(super) struct AsOffered {
    pub(super) identity: Identity,
    /// Shared with the verifier.
    pub(super) client_is_raw: Arc<AtomicBool>,
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

/// A server that shows a certificate, whatever the client offers.
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
