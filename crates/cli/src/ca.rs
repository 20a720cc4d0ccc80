//! `oncewire ca`.

use crate::args::CaArgs;
use crate::failure::{Failure, Outcome, without_number};
use crate::stdout;
use oncewire_net::https::{Authority, AuthorityError, NewAuthority};

/// Longest name of a CA, in characters (RFC 5280, appendix A.1).
const LONGEST_NAME: usize = 64;

pub(crate) fn run(args: &CaArgs) -> Outcome {
    if args.only.is_empty() && !args.unconstrained {
        return Err(Failure::usage(
            "no names: say what the CA may issue certificates for with --only NAMES, or pass --unconstrained",
        ));
    }
    let fits = |name: &String| {
        let chars = name.chars();
        (1..=LONGEST_NAME).contains(&chars.clone().count()) && !chars.clone().any(char::is_control)
    };
    if args.name.as_ref().is_some_and(|name| !fits(name)) {
        return Err(Failure::usage(format!("--name: use 1 to {LONGEST_NAME} characters")));
    }
    stdout::check_open()?;
    let new = NewAuthority { only: args.only.clone(), name: args.name.clone(), days: args.days };
    let made = new.save(&args.key, &args.certificate).map_err(|error| {
        let message = without_number(&error);
        match error {
            AuthorityError::Exists(_) => Failure::usage(message),
            _ => Failure::failed(message),
        }
    })?;
    if args.json {
        return stdout::json(&serde_json::json!({
            "key": args.key,
            "certificate": args.certificate,
            "names": made.permitted(),
            "valid_until": made.until(),
            "sha256": made.fingerprint(),
        }));
    }
    stdout::text(&told(&made, args))
}

/// What was made, and how to install it.
fn told(made: &Authority, args: &CaArgs) -> String {
    let (key, certificate) = (args.key.display(), args.certificate.display());
    let names = match made.permitted() {
        [] => "  every name".to_owned(),
        names => names
            .iter()
            .map(|name| format!("  {name} and names below"))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    let fingerprint = made.fingerprint();
    // Two lines of 16 bytes.
    let (first, second) = fingerprint.split_at(fingerprint.len() / 2 + 1);
    format!(
        "\
{key}: private key. Keep it where `oncewire connect --ca` runs, and nowhere else.
{certificate}: certificate of a CA, valid until {}, for
{names}
SHA-256 {first}
        {second}

Install the certificate on each machine whose connections are to be opened:

  Debian    cp {certificate} /usr/local/share/ca-certificates/oncewire.crt
            update-ca-certificates
  Windows   certutil -addstore -f Root {certificate}
  macOS     sudo security add-trusted-cert -d -r trustRoot \\
              -k /Library/Keychains/System.keychain {certificate}
  Firefox   Settings, Certificates, View Certificates, Authorities, Import.
            With the policy Certificates.ImportEnterpriseRoots it reads the
            system's.
  Java      keytool -importcert -cacerts -alias oncewire -file {certificate}
  Python    PIP_CERT=/etc/ssl/certs/ca-certificates.crt, and the same for
            REQUESTS_CA_BUNDLE and SSL_CERT_FILE
  Node.js   NODE_EXTRA_CA_CERTS={certificate}
",
        made.until(),
    )
}
