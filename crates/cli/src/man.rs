//! `oncewire man` and `oncewire completions`: both come from the definition of the command line.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{Destination, finish};
use crate::stdout;
use clap::CommandFactory;
use clap_mangen::Man;

/// oncewire(1) on standard output, or a page for each command in a directory.
pub(crate) fn pages(args: &ManArgs) -> Outcome {
    let mut program = Cli::command();
    program.build();
    let Some(directory) = &args.dir else {
        return stdout::text(&String::from_utf8_lossy(&page(program)?));
    };
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::io("create the directory", directory.display(), &error))?;
    let commands = program
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
        .cloned()
        .collect::<Vec<_>>();
    let mut written = Vec::new();
    for command in [program].into_iter().chain(commands) {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let mut file = Destination::within(directory, &format!("{name}.1"))?.open()?;
        file.write(&page(command)?)?;
        written.push(file);
    }
    finish(written)
}

fn page(command: clap::Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page).map_err(|error| Failure::report(&error))?;
    Ok(page)
}

pub(crate) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "oncewire", &mut script);
    stdout::text(&String::from_utf8_lossy(&script))
}
