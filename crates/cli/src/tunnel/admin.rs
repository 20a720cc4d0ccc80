//! The admin address of a process, from its options.

use super::Options;
use crate::args::admin::AdminAddress;
#[cfg(target_os = "linux")]
use crate::args::process::AdminArgs;
use crate::args::process::WatchArgs;
use crate::args::tunnel::FileArgs;
use crate::failure::{Failure, Outcome};
use oncewire_net::admin::{Admin, Token, TokenError};
use std::path::Path;

/// The same of a node or a controller.
#[cfg(target_os = "linux")]
pub(crate) fn plain_admin<A: FileArgs>(
    options: &Options<A>,
    args: &AdminArgs,
) -> Outcome<Option<Admin>> {
    let AdminArgs { admin: address, admin_token } = args.clone();
    admin(options, &WatchArgs { admin: address, admin_token, ..WatchArgs::default() })
}

/// Where a process answers over HTTP, if it does.
pub(crate) fn admin<A: FileArgs>(options: &Options<A>, args: &WatchArgs) -> Outcome<Option<Admin>> {
    let (token, price) = (args.admin_token.as_deref(), args.admin_price.as_ref());
    let Some(AdminAddress(address)) = args.admin else {
        let without = |key: &str, what: &str| {
            let why = format!("a {what} without an admin address: pass --admin ADDRESS, too");
            Err(options.wrong(key, why))
        };
        return match (token, price) {
            (Some(_), _) => without("admin_token", "token"),
            (None, Some(_)) => without("admin_price", "price"),
            (None, None) => Ok(None),
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
