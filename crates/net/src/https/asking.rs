//! Certificates of clients: asked for if the origin asks, so that those that have one are known. They
//! cannot be passed on, because only their owner can prove that they are theirs.

use super::origin::crypto;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks one client for a certificate. Clients without one may continue.
#[derive(Debug, Default)]
pub(super) struct Asking {
    has_one: AtomicBool,
}

impl Asking {
    /// Whether the client has shown a certificate, so that its handshake failed.
    pub(super) fn has_one(&self) -> bool {
        self.has_one.load(Ordering::Relaxed)
    }
}

impl ClientCertVerifier for Asking {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.has_one.store(true, Ordering::Relaxed);
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        crypto().signature_verification_algorithms.supported_schemes()
    }
}
