//! HTTPS of named services: the tunnel ends TLS at the client's side and begins it again toward the
//! origin, so that the bytes between are plain and repeats are found.
//!
//! Only services that an operator names are opened ([`Services`]). Applications see a certificate of
//! the site's own CA ([`Authority`]), which they must trust.

mod asking;
mod authority;
mod egress;
mod facts;
mod hello;
mod leaves;
mod lines;
mod origin;
mod passes;
mod services;
mod status;
mod stream;
mod terminate;
mod watched;

pub use authority::{Authority, AuthorityError, NewAuthority};
pub(crate) use egress::serve_tls;
pub use origin::{NamedCertificate, Origins, Pin, PinError};
pub(crate) use passes::From;
pub use services::{Service, ServiceError, Services};
pub use status::HttpsStatus;
pub(crate) use terminate::{Client, TlsFlow};
pub use terminate::{Https, HttpsSettings};
