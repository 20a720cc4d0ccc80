//! Arguments of `man` and `completions`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire man | man -l -
  oncewire man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write a page for each command to this directory, which is created if necessary [default:
    /// oncewire(1) to standard output]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  oncewire completions bash > ~/.bash_completion.d/oncewire
  oncewire completions zsh > ~/.zfunc/_oncewire
  oncewire completions fish > ~/.config/fish/completions/oncewire.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell to write completions for, on standard output
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}
