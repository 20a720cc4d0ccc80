//! A CA of the site's own: made here or brought along, with certificates that it issues for the names
//! of services.

use super::facts::{Facts, reissue};
use super::services::Service;
use crate::keys::file::{self, CreateError};
use crate::keys::{FileError, FileKind, OwnershipError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    NameConstraints, SanType, SerialNumber, SigningKey,
};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};

/// Clocks of clients may be this late.
const LATE: Duration = Duration::hours(1);
/// How long a certificate for a name is valid.
const LEAF: Duration = Duration::days(7);
/// Bytes of a serial number. RFC 5280 allows 20 with a leading zero bit; browsers want at least 8.
const SERIAL: usize = 16;

/// A CA that cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A file cannot be read, or others can use or replace it.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file exists.
    #[error("{} exists and is not overwritten: choose another name", .0.display())]
    Exists(
        /// The file.
        PathBuf,
    ),
    /// A new file would be in a directory where others can replace it.
    #[error(transparent)]
    Ownership(OwnershipError),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file lacks what it should have.
    #[error("{} has no {what} in PEM, or a truncated one", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        what: &'static str,
    },
    /// The key is of a kind that cannot be used.
    #[error(
        "the key in {} is not one of ECDSA (P-256, P-384), Ed25519 or RSA in PKCS#8: convert it with `openssl pkcs8 -topk8 -nocrypt`",
        .0.display()
    )]
    KeyKind(
        /// The file.
        PathBuf,
    ),
    /// The certificate has another key.
    #[error("{} is not the key of {}", key.display(), certificate.display())]
    OtherKey {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The certificate cannot issue others.
    #[error("{} is no CA: it cannot issue certificates", .0.display())]
    NotCa(
        /// The file.
        PathBuf,
    ),
    /// The certificate is not valid yet, or not any more.
    #[error("{} is valid from {from} to {until}: make another, or check the clock", path.display())]
    Expired {
        /// The file.
        path: PathBuf,
        /// The first day.
        from: String,
        /// The last day.
        until: String,
    },
    /// The certificate's constraints exclude a service.
    #[error("{} may not issue certificates for {name}: it is for {}", path.display(), permitted.join(", "))]
    NotPermitted {
        /// The file.
        path: PathBuf,
        /// The service.
        name: String,
        /// Names that it permits.
        permitted: Vec<String>,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(rcgen::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// A CA to be made.
#[derive(Clone, Debug)]
pub struct NewAuthority {
    /// Names that it may issue certificates for; empty for all.
    pub only: Vec<Service>,
    /// Its name, for people; `None` for one that is made up.
    pub name: Option<String>,
    /// How many days it is valid.
    pub days: u32,
}

/// A CA and its key.
pub struct Authority {
    certificate: CertificateDer<'static>,
    /// What is to be sent after a certificate that it issued: nothing, if it is a root.
    chain: Vec<CertificateDer<'static>>,
    issuer: Issuer<'static, KeyPair>,
    facts: Facts,
    path: PathBuf,
}

impl fmt::Debug for Authority {
    /// Without its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("path", &self.path).finish_non_exhaustive()
    }
}

impl NewAuthority {
    /// Makes a CA, and writes its key, with mode 0600, and its certificate to new files.
    ///
    /// The certificate has name constraints (RFC 5280, section 4.2.1.10): the names of `only` and
    /// all below them, and no address. X.509 cannot say "this name, and none below".
    ///
    /// # Errors
    /// [`AuthorityError`]; nothing is left of a CA that cannot be written whole.
    pub fn save(&self, key: &Path, certificate: &Path) -> Result<Authority, AuthorityError> {
        for path in [key, certificate] {
            if path.symlink_metadata().is_ok() {
                return Err(AuthorityError::Exists(path.to_path_buf()));
            }
        }
        let pair = KeyPair::generate().map_err(AuthorityError::Make)?;
        let made = self.params(&pair)?.self_signed(&pair).map_err(AuthorityError::Make)?;
        create(key, true, &pem("PRIVATE KEY", pair.serialized_der()))?;
        create(certificate, false, &pem("CERTIFICATE", made.der())).inspect_err(|_| {
            // A key alone is of no use, and nobody has seen it.
            let _ = std::fs::remove_file(key);
        })?;
        Authority::new(vec![made.der().clone()], pair, certificate, key)
    }

    fn params(&self, pair: &KeyPair) -> Result<CertificateParams, AuthorityError> {
        let mut params = CertificateParams::default();
        let now = OffsetDateTime::now_utc();
        (params.not_before, params.not_after) =
            (now - LATE, now + Duration::days(self.days.into()));
        params.serial_number = Some(serial()?);
        let name = self.name.clone().unwrap_or_else(|| {
            // Two CAs with one name confuse those who verify.
            let id = params.key_identifier(pair);
            let hex: String = id.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            format!("Oncewire CA {hex}")
        });
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if !self.only.is_empty() {
            let mut bases: Vec<_> = self.only.iter().map(Service::base).collect();
            bases.sort_unstable();
            bases.dedup();
            let every = |ip| GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(ip, 0));
            params.name_constraints = Some(NameConstraints {
                permitted_subtrees: bases
                    .into_iter()
                    .map(|base| GeneralSubtree::DnsName(base.to_owned()))
                    .collect(),
                excluded_subtrees: vec![
                    every(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
                    every(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
                ],
            });
        }
        Ok(params)
    }
}

impl Authority {
    /// Reads a CA's key and certificate. Of several certificates in the file, the first is the CA's.
    ///
    /// # Errors
    /// [`AuthorityError`] if it cannot be used now.
    pub fn load(key: &Path, certificate: &Path) -> Result<Authority, AuthorityError> {
        let der = private_key(key)?;
        let pair = KeyPair::try_from(&der).map_err(|_| AuthorityError::KeyKind(key.into()))?;
        Authority::new(certificates(certificate)?, pair, certificate, key)
    }

    fn new(
        mut chain: Vec<CertificateDer<'static>>,
        pair: KeyPair,
        path: &Path,
        key: &Path,
    ) -> Result<Authority, AuthorityError> {
        let no_certificate = || AuthorityError::Pem { path: path.into(), what: "certificate" };
        let certificate = chain.first().cloned().ok_or_else(no_certificate)?;
        let parsed = webpki::EndEntityCert::try_from(&certificate).map_err(|_| no_certificate())?;
        if parsed.issuer() == parsed.subject() {
            chain.clear();
        }
        let facts = Facts::of(&certificate).ok_or_else(no_certificate)?;
        let spki = rcgen::PublicKeyData::subject_public_key_info(&pair);
        if parsed.subject_public_key_info().as_ref() != spki {
            return Err(AuthorityError::OtherKey { key: key.into(), certificate: path.into() });
        }
        if !facts.is_ca {
            return Err(AuthorityError::NotCa(path.into()));
        }
        let now = OffsetDateTime::now_utc();
        if !(facts.not_before..facts.not_after).contains(&now) {
            return Err(AuthorityError::Expired {
                path: path.into(),
                from: facts.not_before.date().to_string(),
                until: facts.not_after.date().to_string(),
            });
        }
        let mut params = CertificateParams::default();
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        if let Some(id) = &facts.key_id {
            params.key_identifier_method = KeyIdMethod::PreSpecified(id.clone());
        }
        let issuer = Issuer::new(params, pair);
        Ok(Authority { certificate, chain, issuer, facts, path: path.into() })
    }

    /// Checks that it may issue certificates for all of these services.
    ///
    /// # Errors
    /// [`AuthorityError::NotPermitted`] with the first that it may not.
    pub fn check<'a>(
        &self,
        services: impl IntoIterator<Item = &'a Service>,
    ) -> Result<(), AuthorityError> {
        match services.into_iter().find(|service| !self.facts.permits(service.base())) {
            None => Ok(()),
            Some(service) => Err(AuthorityError::NotPermitted {
                path: self.path.clone(),
                name: service.to_string(),
                permitted: self.facts.permitted.clone(),
            }),
        }
    }

    /// Names that it permits; empty if it has no constraints, so that whoever gets its key can
    /// impersonate any site to those who trust it.
    pub fn permitted(&self) -> &[String] {
        if self.facts.is_constrained() { &self.facts.permitted } else { &[] }
    }

    /// Its certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Certificates that lead from it to a CA that applications trust.
    pub(super) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// SHA-256 of its certificate in hexadecimal, as programs show it to people.
    pub fn fingerprint(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.certificate);
        let pairs: Vec<_> = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        pairs.join(":")
    }

    /// The last day on which it is valid.
    pub fn until(&self) -> String {
        self.facts.not_after.date().to_string()
    }

    /// Issues a certificate for a name, valid for a week from an hour ago, or as long as the CA.
    ///
    /// # Errors
    /// [`AuthorityError::Make`], [`AuthorityError::Random`].
    pub(super) fn issue(
        &self,
        name: &str,
        key: &KeyPair,
    ) -> Result<CertificateDer<'static>, AuthorityError> {
        let mut params = CertificateParams::default();
        let now = OffsetDateTime::now_utc();
        params.not_before = (now - LATE).max(self.facts.not_before);
        params.not_after = (now + LEAF).min(self.facts.not_after);
        // All certificates have one key, from which rcgen would derive one number for all of them.
        params.serial_number = Some(serial()?);
        params.distinguished_name = DistinguishedName::new();
        // The longest common name (RFC 5280, appendix A.1). Nobody reads it, but an empty subject
        // would need another form of the names.
        let common: String = name.chars().take(64).collect();
        params.distinguished_name.push(DnType::CommonName, common);
        let dns = Ia5String::try_from(name).map_err(AuthorityError::Make)?;
        params.subject_alt_names = vec![SanType::DnsName(dns)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.is_ca = IsCa::ExplicitNoCa;
        let issued = params.signed_by(key, &self.issuer).map_err(AuthorityError::Make)?;
        // rcgen cannot write every name, such as one with several domain components, but whoever
        // verifies compares the issuer with the CA's subject byte by byte (RFC 5280, section 7.1).
        let sign = |signed: &[u8]| self.issuer.key().sign(signed).ok();
        let issued = reissue(issued.der(), &self.facts.subject, sign);
        let failed = AuthorityError::Make(rcgen::Error::CouldNotParseCertificate);
        issued.map(CertificateDer::from).ok_or(failed)
    }
}

/// All certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, AuthorityError> {
    let text = file::read(path, FileKind::Certificates)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let none = || AuthorityError::Pem { path: path.into(), what: "certificate" };
    all.ok().filter(|all| !all.is_empty()).ok_or_else(none)
}

/// The private key of a file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, AuthorityError> {
    let text = file::read(path, FileKind::PrivateKey)?;
    PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|_| AuthorityError::Pem { path: path.into(), what: "private key" })
}

fn create(path: &Path, secret: bool, content: &[u8]) -> Result<(), AuthorityError> {
    file::create(path, secret, content).map_err(|error| match error {
        CreateError::Exists => AuthorityError::Exists(path.into()),
        CreateError::Ownership(error) => AuthorityError::Ownership(error),
        CreateError::Write(source) => AuthorityError::Write { path: path.into(), source },
    })
}

/// RFC 7468.
fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let code = STANDARD.encode(der);
    let lines: Vec<_> = code.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n")).into_bytes()
}

/// A random serial number.
fn serial() -> Result<SerialNumber, AuthorityError> {
    let mut bytes = [0; SERIAL];
    SystemRandom::new().fill(&mut bytes).map_err(|_| AuthorityError::Random)?;
    // Positive, and of full length.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

#[cfg(test)]
mod tests;
