//! `oncewire check-config`.

use crate::args::{CheckConfigArgs, RoleName};
use crate::failure::Outcome;
use crate::{stdout, tunnel};

pub(crate) fn run(args: &CheckConfigArgs) -> Outcome {
    let (found, warnings) = match args.role {
        RoleName::Serve => tunnel::describe_server(&args.file)?,
        RoleName::Connect => tunnel::describe_client(&args.file)?,
        #[cfg(target_os = "linux")]
        RoleName::Link => crate::link::describe(&args.file)?,
        #[cfg(target_os = "linux")]
        RoleName::Node => crate::node::describe(&args.file)?,
        #[cfg(target_os = "linux")]
        RoleName::Controller => crate::controller::describe(&args.file)?,
    };
    if args.json {
        return stdout::json(
            &serde_json::json!({ "file": args.file, "good": true, "warnings": warnings }),
        );
    }
    let warnings: String = warnings.iter().map(|what| format!("warning: {what}\n")).collect();
    stdout::text(&format!("{}: {found}\n{warnings}", args.file.display()))
}
