//! The installed program.

use super::LabError;
use crate::servers::Running;
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs `ip`.
pub(super) fn ip(args: &[&str]) -> Result<(), LabError> {
    run(Command::new("ip").args(args)).map(drop)
}

fn run(command: &mut Command) -> Result<String, LabError> {
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let words = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = command.stdin(Stdio::null()).output().map_err(LabError::system(&*words))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(LabError::Program { command: words, said })
        }
    }
}

/// What `oncewire emulate` says.
pub(super) struct Emulation {
    /// Bytes of packets times links.
    pub(super) packet_links: u64,
    /// Schemes and what each saves of it, caches empty at the start.
    pub(super) schemes: Vec<(String, f64)>,
}

/// The program, run in a directory.
#[derive(Clone)]
pub(super) struct Program {
    path: PathBuf,
    directory: PathBuf,
}

impl Program {
    pub(super) fn new(path: &Path, directory: &Path) -> Program {
        Program { path: path.to_owned(), directory: directory.to_owned() }
    }

    /// A file of its directory.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(args).current_dir(&self.directory).env_remove("XDG_RUNTIME_DIR");
        command
    }

    /// Runs it to its end, and returns its standard output.
    pub(super) fn run(&self, args: &[&str]) -> Result<String, LabError> {
        run(&mut self.command(args))
    }

    /// Starts a verb that runs until it is stopped. Its log goes to a file.
    pub(super) fn start(&self, verb: &str, log: &str, args: &[&str]) -> Result<Running, LabError> {
        let file = File::create(self.place(&format!("{log}.log")))
            .map_err(LabError::system(format!("writing {log}.log")))?;
        let mut command = self.command(&[verb]);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        Running::start(&mut command).map_err(|error| LabError::Unavailable(error.to_string()))
    }

    /// The end of a log.
    pub(super) fn said(&self, log: &str) -> String {
        let text = std::fs::read_to_string(self.place(&format!("{log}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("; ")
    }

    /// Measures the packets of `lab.pcap`, makes plans for them in the directories `smartre`,
    /// `edge-only` and `bare`, and emulates them.
    ///
    /// The packets take `time`, two epochs: what has been sent lately may not have arrived yet, and is
    /// referred to with care.
    pub(super) fn plan_and_emulate(
        &self,
        memory: u64,
        time: Duration,
    ) -> Result<Emulation, LabError> {
        let rate = format!("{:.6}kbit", memory as f64 * 8.0 / 1e3 / (time.as_secs_f64() / 2.0));
        let memory = memory.to_string();
        // Caches limit the plans, speeds do not: nodes have no limits of speed.
        let devices = [
            "net.json",
            "--per-router",
            "--quick",
            "--ingress-memory",
            &memory,
            "--edge-memory",
            &memory,
            "--interior-memory",
            &memory,
            "--encodings",
            "1e9",
            "--operations",
            "1e9",
            "--ingress-rate",
            &rate,
        ];
        let packets =
            ["--capture", "lab.pcap", "--prefixes", "prefixes", "--scale", "100%", "--epochs", "2"];
        let with = |verb, parts: &[&[&str]]| {
            let args: Vec<&str> = [verb].into_iter().chain(parts.concat()).collect();
            self.run(&args)
        };
        with("emulate", &[&devices, &packets, &["--measured", "profile"]])?;
        let measured = ["--profile", "profile", "--volumes"];
        let mut emulation = Emulation { packet_links: 0, schemes: Vec::new() };
        let plans = [("SmartRE", "smartre", None), ("edge-only", "edge-only", Some("--edge-only"))];
        for (name, plan, option) in plans {
            let option: Vec<&str> = option.into_iter().collect();
            let file = format!("{plan}.json");
            let to = ["--manifests", &file, "--manifests-dir", plan];
            with("plan", &[&devices, &measured, &option, &to])?;
            let use_it = ["--plan", &file, "--json"];
            // Hop-by-hop and the ideal once.
            let devices: Vec<&str> = devices
                .into_iter()
                .filter(|word| *word != "--quick" || !option.is_empty())
                .collect();
            let said = with("emulate", &[&devices, &packets, &measured, &option, &use_it])?;
            let said: Value = serde_json::from_str(&said).unwrap_or_default();
            let sum = said["links"].as_array().into_iter().flatten();
            emulation.packet_links =
                sum.map(|link| link["before_bytes"].as_u64().unwrap_or(0)).sum();
            for scheme in said["schemes"].as_array().into_iter().flatten() {
                let saved = scheme["whole_run"].as_f64().unwrap_or(f64::NAN);
                let scheme = scheme["name"].as_str().unwrap_or_default();
                let name = if scheme == "SmartRE" { name } else { scheme };
                emulation.schemes.push((name.to_owned(), saved));
            }
        }
        self.without_ranges("smartre", "bare")?;
        Ok(emulation)
    }

    /// A plan in which nobody caches anything: the paths of another.
    fn without_ranges(&self, from: &str, to: &str) -> Result<(), LabError> {
        let failed = || LabError::system(format!("writing {to}"));
        std::fs::create_dir(self.place(to)).map_err(failed())?;
        for entry in std::fs::read_dir(self.place(from)).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let text = std::fs::read_to_string(&path).map_err(failed())?;
            let mut manifest: Value = serde_json::from_str(&text).unwrap_or_default();
            let paths = manifest.get_mut("paths").and_then(Value::as_array_mut);
            let paths = paths.into_iter().flatten().filter_map(|path| path.get_mut("ranges"));
            paths.for_each(|ranges| *ranges = Value::Array(Vec::new()));
            if let Some(ranges) = manifest.get_mut("ranges") {
                *ranges = Value::Array(Vec::new());
            }
            let name = path.file_name().unwrap_or_default();
            std::fs::write(self.place(to).join(name), manifest.to_string()).map_err(failed())?;
        }
        Ok(())
    }
}
