//! HTTPS of named services: the tunnel ends TLS at the client's side and begins it again toward the
//! origin, so that the bytes between are plain and repeats are found.
//!
//! Only services that an operator names are opened ([`Services`]). Applications see a certificate of
//! the site's own CA ([`Authority`]), which they must trust.

mod authority;
mod facts;
mod services;

pub use authority::{Authority, AuthorityError, NewAuthority};
pub use services::{Service, ServiceError, Services};
