//! Accepting or refusing the key that a peer shows.

use super::{UnknownPeer, certified_key};
use crate::keys::{AuthorizedPeers, PublicKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, SignatureScheme,
};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whom to accept, for clients and servers alike.
pub(crate) trait Policy: Debug + Send + Sync {
    /// Whether a client without a key is refused.
    fn is_mandatory(&self) -> bool {
        true
    }

    /// Signatures that are offered.
    fn schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    /// Whether the peer's key comes as a raw public key, not in a certificate.
    fn expects_raw_key(&self) -> bool;

    /// Whether the owner of `shown` may be the peer; `others` is the rest of the chain.
    fn accept(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
    ) -> Result<(), Error>;

    /// Whether the peer owns `shown`: checks the signature of the handshake.
    fn check(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error>;
}

/// Accepts a peer whose key is on the list at this moment, or without a list any key.
#[derive(Debug)]
pub(super) struct OnTheList {
    peers: Option<AuthorizedPeers>,
    algorithms: WebPkiSupportedAlgorithms,
    raw: Arc<AtomicBool>,
}

impl OnTheList {
    fn key(&self, shown: &CertificateDer<'_>) -> Result<PublicKey, Error> {
        let key =
            if self.expects_raw_key() { PublicKey::from_spki(shown) } else { certified_key(shown) };
        key.map_err(|_| CertificateError::BadEncoding.into())
    }
}

impl Policy for OnTheList {
    fn expects_raw_key(&self) -> bool {
        self.raw.load(Ordering::Relaxed)
    }

    fn accept(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
    ) -> Result<(), Error> {
        if !others.is_empty() {
            return Err(CertificateError::BadEncoding.into());
        }
        let key = self.key(shown)?;
        if self.peers.as_ref().is_some_and(|peers| !peers.contains(&key)) {
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
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(&spki[..]),
            signed,
            &self.algorithms,
        )
    }
}

/// A policy as the TLS stack wants it.
#[derive(Debug, Default)]
pub(crate) struct Verifier<P>(pub(crate) P);

impl Verifier<OnTheList> {
    /// `raw` says whether the peer's key comes raw; it is read during the handshake.
    pub(super) fn new(
        peers: Option<&AuthorizedPeers>,
        provider: &CryptoProvider,
        raw: Arc<AtomicBool>,
    ) -> Verifier<OnTheList> {
        Verifier(OnTheList {
            peers: peers.cloned(),
            algorithms: provider.signature_verification_algorithms,
            raw,
        })
    }
}

/// What the two verifier traits have in common. TLS 1.2 is not offered, so nobody asks for its
/// signatures.
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
            shown: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.0.check(message, shown, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.schemes()
        }

        fn requires_raw_public_keys(&self) -> bool {
            self.0.expects_raw_key()
        }
    };
}

impl<P: Policy> ServerCertVerifier for Verifier<P> {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.accept(shown, others).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl<P: Policy> ClientCertVerifier for Verifier<P> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.is_mandatory()
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.accept(shown, others).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}
