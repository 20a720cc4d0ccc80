//! Certificates that applications get: made for a name when it is first asked for, or a service's own.

use super::asking::Asking;
use super::authority::{Authority, AuthorityError};
use super::origin::{NamedCertificate, certified, crypto};
use super::services::Service;
use super::watched::Watched;
use crate::sync::lock;
use rcgen::KeyPair;
use rustls::crypto::ring::{Ticketer, sign};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoClientAuth, NoServerSessionStorage, ProducesTickets, ResolvesServerCert,
};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{Error, ServerConfig};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Names whose certificates are kept.
const MOST: usize = 1024;
/// How long a certificate of a week is shown.
const SHOWN: Duration = Duration::from_secs(3 * 24 * 3600);

/// Issues certificates, and keeps the last ones.
pub(super) struct Issuing {
    files: (PathBuf, PathBuf),
    authority: Watched<Authority>,
    /// The key of all of them, new with each process.
    pair: KeyPair,
    signing: Arc<dyn SigningKey>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Who issued them.
    of: Option<Arc<Authority>>,
    leaves: HashMap<String, Leaf>,
    /// Uses so far.
    clock: u64,
}

struct Leaf {
    key: Arc<CertifiedKey>,
    made: Instant,
    used: u64,
}

impl Issuing {
    pub(super) fn new(key: PathBuf, certificate: PathBuf) -> Result<Issuing, AuthorityError> {
        let authority = Watched::new(vec![certificate.clone(), key.clone()], || {
            Authority::load(&key, &certificate)
        })?;
        let pair = KeyPair::generate().map_err(AuthorityError::Make)?;
        let pkcs8 = PrivatePkcs8KeyDer::from(pair.serialized_der());
        let signing = sign::any_ecdsa_type(&pkcs8.into())
            .map_err(|_| AuthorityError::Make(rcgen::Error::CouldNotParseKeyPair))?;
        Ok(Issuing { files: (key, certificate), authority, pair, signing, kept: Mutex::default() })
    }

    /// The CA as it is now.
    pub(super) fn authority(&self) -> Arc<Authority> {
        let (key, certificate) = &self.files;
        self.authority.get(|| Authority::load(key, certificate))
    }

    /// The certificate for a name.
    pub(super) fn leaf(&self, name: &str) -> Result<Arc<CertifiedKey>, AuthorityError> {
        let authority = self.authority();
        let mut kept = lock(&self.kept);
        if !kept.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, &authority)) {
            *kept = Kept { of: Some(authority.clone()), ..Kept::default() };
        }
        kept.clock += 1;
        let clock = kept.clock;
        if let Some(leaf) = kept.leaves.get_mut(name).filter(|leaf| leaf.made.elapsed() < SHOWN) {
            leaf.used = clock;
            return Ok(leaf.key.clone());
        }
        let mut chain = vec![authority.issue(name, &self.pair)?];
        chain.extend_from_slice(authority.chain());
        let key = Arc::new(CertifiedKey::new(chain, self.signing.clone()));
        if kept.leaves.len() >= MOST
            && let Some(oldest) = kept.leaves.iter().min_by_key(|(_, leaf)| leaf.used)
        {
            let oldest = oldest.0.clone();
            kept.leaves.remove(&oldest);
        }
        let leaf = Leaf { key: key.clone(), made: Instant::now(), used: clock };
        kept.leaves.insert(name.to_owned(), leaf);
        Ok(key)
    }
}

/// The certificate that a service has of its own.
pub(super) struct Own {
    named: NamedCertificate<Service>,
    key: Watched<Arc<CertifiedKey>>,
}

impl Own {
    pub(super) fn new(named: NamedCertificate<Service>) -> Result<Own, AuthorityError> {
        let NamedCertificate { certificate, key, .. } = &named;
        let watched = Watched::new(vec![certificate.clone(), key.clone()], || {
            certified(certificate, key).map(Arc::new)
        })?;
        Ok(Own { named, key: watched })
    }

    pub(super) fn service(&self) -> &Service {
        &self.named.name
    }

    pub(super) fn key(&self) -> Arc<CertifiedKey> {
        let NamedCertificate { certificate, key, .. } = &self.named;
        (*self.key.get(|| certified(certificate, key).map(Arc::new))).clone()
    }
}

/// Settings for the connections of applications.
pub(super) struct Terms {
    tickets: Arc<dyn ProducesTickets>,
}

impl Terms {
    pub(super) fn new() -> Result<Terms, Error> {
        Ok(Terms { tickets: Ticketer::new()? })
    }

    /// Settings for one connection, which agrees on this protocol, and whose client may be asked for
    /// a certificate.
    pub(super) fn config(
        &self,
        key: Arc<CertifiedKey>,
        protocol: Option<Vec<u8>>,
        asking: Option<Arc<Asking>>,
    ) -> Result<Arc<ServerConfig>, Error> {
        let verifier: Arc<dyn ClientCertVerifier> = match asking {
            None => Arc::new(NoClientAuth),
            Some(asking) => asking,
        };
        let mut config = ServerConfig::builder_with_provider(crypto())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(One(key)));
        config.alpn_protocols = protocol.into_iter().collect();
        // What a client needs to resume is in its ticket.
        config.ticketer = self.tickets.clone();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // The order of our suites counts, as programs that test TLS expect.
        config.ignore_client_order = true;
        // No early data: it could be repeated by others.
        config.max_early_data_size = 0;
        Ok(Arc::new(config))
    }
}

/// The certificate of a connection.
#[derive(Debug)]
struct One(Arc<CertifiedKey>);

impl ResolvesServerCert for One {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::https::NewAuthority;

    #[test]
    fn certificates_are_kept_for_some_names_and_one_ca() {
        let dir = tempfile::TempDir::new().unwrap();
        let [key, certificate] = ["ca.key", "ca.crt"].map(|name| dir.path().join(name));
        let new = NewAuthority { only: vec!["*.example".parse().unwrap()], name: None, days: 30 };
        new.save(&key, &certificate).unwrap();
        let issuing = Issuing::new(key.clone(), certificate.clone()).unwrap();
        let leaf = |name: &str| issuing.leaf(name).unwrap().cert[0].clone();
        let first = leaf("a.example");
        assert_eq!(leaf("a.example"), first);
        for n in 0..10_000 {
            leaf(&format!("n{n}.example"));
        }
        assert_eq!(lock(&issuing.kept).leaves.len(), MOST);
        let again = leaf("a.example");
        assert_ne!(again, first, "10,000 names later");
        // Another CA in its place.
        lock(&issuing.kept).of = None;
        assert_ne!(leaf("a.example"), again);
    }
}
