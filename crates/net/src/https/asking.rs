//! Certificates of clients: asked for if the origin asks, so that those that have one are known. They
//! cannot be passed on, because only their owner can prove that they are theirs.

use super::origin::crypto;
use crate::tls::verifier::{Policy, Verifier};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks one client for a certificate. Clients without one may continue.
pub(super) type Asking = Verifier<Asked>;

/// Refuses every certificate, and remembers that there was one.
#[derive(Debug, Default)]
pub(super) struct Asked {
    has_one: AtomicBool,
}

impl Asking {
    /// Whether the client has shown a certificate, so that its handshake failed.
    pub(super) fn has_one(&self) -> bool {
        self.0.has_one.load(Ordering::Relaxed)
    }
}

impl Policy for Asked {
    fn is_mandatory(&self) -> bool {
        false
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        crypto().signature_verification_algorithms.supported_schemes()
    }

    fn expects_raw_key(&self) -> bool {
        false
    }

    fn accept(&self, _: &CertificateDer<'_>, _: &[CertificateDer<'_>]) -> Result<(), Error> {
        self.has_one.store(true, Ordering::Relaxed);
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn check(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}
