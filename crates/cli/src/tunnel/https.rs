//! Options about HTTPS: which services `connect` opens, and how `serve` verifies their origins.

use super::file::Options;
use crate::args::{ConnectArgs, ServeArgs};
use crate::failure::{Failure, Outcome, without_number};
use oncewire_net::https::{AuthorityError, Https, HttpsSettings, Origins};

/// A file that cannot be read fails; one with the wrong content is a wrong value.
fn failure(error: &AuthorityError) -> Failure {
    let message = without_number(error);
    match error {
        AuthorityError::NotPermitted { .. } => Failure::usage(message),
        _ => Failure::failed(message),
    }
}

/// The services that `connect` opens.
pub(super) fn https(options: &Options<ConnectArgs>) -> Outcome<Option<Https>> {
    let args = options.args.https.clone();
    let ca = match (args.ca, args.ca_cert) {
        (None, Some(_)) => {
            return Err(options.wrong("ca_cert", "it needs the private key, --ca FILE"));
        }
        (None, None) if !args.terminate.is_empty() => {
            return Err(options.missing(
                "--terminate needs a CA: make one with `oncewire ca ca.key ca.crt --only NAMES` and pass --ca ca.key",
            ));
        }
        (None, None) => None,
        (Some(_), _) if args.terminate.is_empty() => {
            return Err(
                options.wrong("ca", "it is for the services of --terminate NAMES: name them")
            );
        }
        (Some(key), certificate) => {
            let certificate = certificate.unwrap_or_else(|| key.with_extension("crt"));
            Some((key, certificate))
        }
    };
    if args.terminate.is_empty() && args.https.is_empty() {
        return Ok(None);
    }
    let settings = HttpsSettings { terminate: args.terminate, ca, own: args.https };
    Https::new(settings).map(Some).map_err(|error| {
        let key = match error {
            AuthorityError::NotPermitted { .. } => "terminate",
            _ => "ca",
        };
        options.blame(key, failure(&error))
    })
}

/// What is valid, but should be known.
pub(super) fn warnings(https: &Https) -> Vec<&'static str> {
    let unconstrained = https.authority().is_some_and(|ca| ca.permitted().is_empty());
    let warning = "the CA of --ca may issue certificates for every name: whoever gets its key can impersonate any site to those who trust it; `oncewire ca --only NAMES` makes one that cannot";
    unconstrained.then_some(warning).into_iter().collect()
}

/// How `serve` verifies origins.
pub(super) fn origins(options: &Options<ServeArgs>) -> Outcome<Origins> {
    let args = options.args.origins.clone();
    Origins::new(args.origin_ca, args.origin_pin, args.origin_cert)
        .map_err(|error| options.blame("origin_ca", failure(&error)))
}
