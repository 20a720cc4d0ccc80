//! `oncewire invite` and `oncewire enroll`.

use crate::args::{EnrollArgs, InviteArgs};
use crate::failure::{Failure, Outcome, note, without_number};
use crate::stdout;
use crate::tunnel::key_failure;
use oncewire_net::HandshakeError;
use oncewire_net::enroll::{
    EnrollError, Invitation, InvitationError, Invitations, Token, TokenError, enroll_blocking,
};
use oncewire_net::keys::SecretKey;
use std::io::Read;
use std::time::SystemTime;

/// Longest standard input that is read for a token, in bytes.
const LONGEST: u64 = 4096;

pub(crate) fn invite(args: &InviteArgs) -> Outcome {
    stdout::check_open()?;
    let failed = |error: InvitationError| {
        let message = without_number(&error);
        match error {
            InvitationError::Peer(_) | InvitationError::Name | InvitationError::Until => {
                Failure::usage(message)
            }
            _ => Failure::failed(message),
        }
    };
    if args.name.contains(char::is_whitespace) {
        return Err(failed(InvitationError::Name));
    }
    let mut words = args.name.clone();
    if !args.allow.is_empty() {
        words += &format!(" allow={}", args.allow.join(","));
    }
    if let Some(day) = &args.expires {
        words += &format!(" expires={day}");
    }
    let until = SystemTime::now().checked_add(args.valid);
    let until = until.ok_or_else(|| Failure::usage("--valid is too long"))?;
    let invitation = Invitation::new(&words, until).map_err(failed)?;
    let key = SecretKey::load(&args.key).map_err(|error| key_failure(&error))?;
    let invitations = Invitations::at(&args.directory).map_err(failed)?;
    let token = invitations.add(&invitation, key.public()).map_err(failed)?;
    let until = invitation.until();
    if args.json {
        return stdout::json(&serde_json::json!({
            "token": token.to_string(), "name": invitation.name(), "until": until,
        }));
    }
    note(&format!(
        "Good once, until {until}. At {}: oncewire enroll HOST:PORT --key FILE --token TOKEN",
        invitation.name()
    ));
    stdout::text(&format!("{token}\n"))
}

pub(crate) fn enroll(args: &EnrollArgs) -> Outcome {
    stdout::check_open()?;
    let token = token(&args.token)?;
    let secret = match SecretKey::load(&args.key) {
        Err(error) if error.is_not_found() => SecretKey::generate().and_then(|secret| {
            secret.save(&args.key)?;
            Ok(secret)
        }),
        other => other,
    };
    let secret = secret.map_err(|error| key_failure(&error))?;
    enroll_blocking(&args.server, &token, &secret).map_err(|error| {
        Failure::failed(match &error {
            EnrollError::Handshake(HandshakeError::UnknownKey { key }) => format!(
                "{} has the key {key}, and the token is for another hub: {}",
                args.server,
                token.server()
            ),
            error => without_number(error),
        })
    })?;
    let (server, key) = (&args.server, args.key.display());
    if args.json {
        return stdout::json(&serde_json::json!({
            "server": server.to_string(),
            "server_key": token.server().to_string(),
            "public_key": secret.public().to_string(),
            "file": args.key,
        }));
    }
    stdout::text(&format!(
        "\
{server} accepts this key now: {}
Connect with, for example:

  oncewire connect {server} --key {key} --proxy 1080 \\
    --peer {}
",
        secret.public(),
        token.server()
    ))
}

fn token(text: &str) -> Outcome<Token> {
    let mut read = String::new();
    let text = if text == "-" {
        std::io::stdin()
            .take(LONGEST)
            .read_to_string(&mut read)
            .map_err(|error| Failure::failed(format!("cannot read the token: {error}")))?;
        read.trim()
    } else {
        text
    };
    text.parse().map_err(|error: TokenError| Failure::usage(error.to_string()))
}
