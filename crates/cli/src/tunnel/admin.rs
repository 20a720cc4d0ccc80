//! The admin address of a process, from its options.

use super::Options;
use crate::args::admin::AdminAddress;
use crate::args::tunnel::FileArgs;
use crate::failure::{Failure, Outcome};
use oncewire_net::admin::{Admin, Token, TokenError};
use std::path::Path;

/// Where a process answers over HTTP, if it does.
pub(crate) fn admin<A: FileArgs>(
    options: &Options<A>,
    address: Option<AdminAddress>,
    token: Option<&Path>,
) -> Outcome<Option<Admin>> {
    let Some(AdminAddress(address)) = address else {
        return match token {
            Some(_) => {
                let why = "a token without an admin address: pass --admin ADDRESS, too";
                Err(options.wrong("admin_token", why))
            }
            None => Ok(None),
        };
    };
    let load = |path: &Path| {
        Token::load(path).map_err(|error| {
            let name = path.display();
            let failure = match error {
                TokenError::Io(error) => Failure::io("read", &name, &error),
                TokenError::Readable | TokenError::Invalid => {
                    Failure::failed(format!("{name} is no token's file: {error}"))
                }
            };
            options.blame("admin_token", failure)
        })
    };
    let token = token.map(load).transpose()?;
    Admin::new(address, token).map(Some).map_err(|error| {
        options
            .wrong("admin", format!("{error}: pass --admin-token FILE, or use a loopback address"))
    })
}
