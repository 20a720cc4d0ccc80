//! What was measured: as an instance, and as text.

use super::*;

/// First line of a measurement's text form.
const TITLE: &str = "# oncewire measurement 1: volumes are `from to bytes`, matches `from to from2 to2 matches bytes`, per epoch";

impl Measurement {
    /// The instance with these volumes and this profile. A path without traffic keeps one byte, so
    /// that no path disappears.
    ///
    /// # Errors
    /// Not as many volumes as paths; a profile out of range.
    pub fn apply(&self, instance: &Instance) -> Result<Instance, Error> {
        let volumes: Vec<f64> = self.volumes.iter().map(|volume| volume.max(1.0)).collect();
        instance
            .clone()
            .with_volumes(&volumes)?
            .with_profile(Profile::Measured(self.profile.clone()))
    }

    /// Checks that the matches of each path have no more bytes than the path. Measurements of a
    /// [`Profiler`] always pass.
    ///
    /// # Errors
    /// [`ProfileError::TooManyMatches`] for the first path that fails.
    pub fn check(&self, instance: &Instance) -> Result<(), Error> {
        for of_path in self.profile.pairs.chunk_by(|a, b| a.0 == b.0) {
            let path = of_path[0].0 as usize;
            let matched: f64 = of_path.iter().map(|pair| pair.2.bytes()).sum();
            let volume = self.volumes.get(path).copied().unwrap_or(0.0);
            // Both may be rounded in the text form.
            let within = matched <= volume * (1.0 + 1e-6);
            if !within {
                let id = |node: NodeId| shorten(&instance.network.nodes[node].id);
                let path = instance
                    .paths
                    .get(path)
                    .ok_or(ProfileError::UnknownPath { path, paths: instance.paths.len() })?;
                let (from, to) =
                    (id(instance.ingresses[path.ingress as usize].node), id(path.egress));
                return Err(ProfileError::TooManyMatches { from, to, matched, volume }.into());
            }
        }
        Ok(())
    }

    /// The instance with its own volumes and this profile: each path has as many matches per byte
    /// as were measured.
    ///
    /// # Errors
    /// As [`Measurement::check`]; a profile out of range.
    pub fn fit(&self, instance: &Instance) -> Result<Instance, Error> {
        self.check(instance)?;
        let mut pairs = self.profile.pairs.clone();
        for (p, _, found) in &mut pairs {
            // A path with matches has a volume; `check` has seen to that.
            found.count *= instance.paths[*p as usize].volume / self.volumes[*p as usize];
        }
        pairs.retain(|pair| pair.2.count > 0.0);
        instance.clone().with_profile(Profile::Measured(Measured { pairs }))
    }

    /// The measurement for an instance scaled by `factor`; the inverse of the factor undoes a
    /// scale.
    pub fn scaled(mut self, factor: f64) -> Self {
        self.volumes.iter_mut().for_each(|volume| *volume *= factor);
        self.profile.pairs.iter_mut().for_each(|pair| pair.2.count *= factor);
        self
    }

    /// Text form; `docs/PLANNERS.md`, "Measured profiles". Paths and pairs without traffic or
    /// matches are left out.
    pub fn to_text(&self, instance: &Instance) -> String {
        let mut text = format!("{TITLE}\n");
        let name = |path: u32| {
            let path = &instance.paths[path as usize];
            let id = |node: NodeId| escape(&instance.network.nodes[node].id);
            format!("{}\t{}", id(instance.ingresses[path.ingress as usize].node), id(path.egress))
        };
        for (path, volume) in self.volumes.iter().enumerate().filter(|(_, volume)| **volume > 0.0) {
            let _ = writeln!(text, "{}\t{volume}", name(path as u32));
        }
        for (p, q, found) in self.profile.pairs.iter().filter(|pair| pair.2.count > 0.0) {
            let _ =
                writeln!(text, "{}\t{}\t{}\t{}", name(*p), name(*q), found.count, found.bytes());
        }
        text
    }

    /// Reads the text form. Paths that the text does not name have no volume.
    ///
    /// # Errors
    /// The first invalid line: an unknown node or path, a duplicate, a number out of range.
    pub fn parse(text: &str, instance: &Instance) -> Result<Self, Error> {
        let nodes: HashMap<&str, NodeId> = instance
            .network
            .nodes
            .iter()
            .zip(NodeId::all())
            .map(|(node, at)| (node.id.as_str(), at))
            .collect();
        let from = |path: &crate::Path| instance.ingresses[path.ingress as usize].node;
        let paths: HashMap<(NodeId, NodeId), u32> = instance
            .paths
            .iter()
            .zip(0..)
            .map(|(path, at)| ((from(path), path.egress), at))
            .collect();
        let reader = Reader { nodes, paths };
        let mut volumes = vec![0.0; instance.paths.len()];
        let mut pairs: BTreeMap<(u32, u32), Match> = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let fail = |reason: String| Error::from(ProfileError::Invalid { line: number, reason });
            let fields: Vec<&str> = line.splitn(MAX_FIELDS, '\t').collect();
            match fields[..] {
                [from, to, volume] => {
                    let path = reader.path(from, to).map_err(fail)?;
                    let volume = amount(volume).map_err(fail)?;
                    if volumes[path as usize] > 0.0 {
                        return Err(fail(format!(
                            "a second volume from {} to {}",
                            shorten(from),
                            shorten(to)
                        )));
                    }
                    volumes[path as usize] = volume;
                }
                [from, to, from2, to2, count, bytes] => {
                    let (p, q) = (
                        reader.path(from, to).map_err(fail)?,
                        reader.path(from2, to2).map_err(fail)?,
                    );
                    if instance.paths[p as usize].ingress != instance.paths[q as usize].ingress {
                        return Err(fail("the two paths have different ingresses".into()));
                    }
                    let (count, bytes) =
                        (amount(count).map_err(fail)?, amount(bytes).map_err(fail)?);
                    let length = bytes / count;
                    if !(length > 0.0 && length <= instance.mss * (1.0 + 1e-9)) {
                        return Err(fail(format!(
                            "{count} matches with {bytes} bytes: each has more than none and at most the largest packet's, {}",
                            instance.mss
                        )));
                    }
                    // Written as a sum, a mean of the largest packet may come back larger by
                    // rounding.
                    if pairs
                        .insert((p, q), Match { count, length: length.min(instance.mss) })
                        .is_some()
                    {
                        return Err(fail(
                            "the matches of these two paths come a second time".into(),
                        ));
                    }
                }
                _ => {
                    return Err(fail(
                        "3 fields (from, to, bytes) or 6 (from, to, from, to, matches, bytes) with tabs between them are needed"
                            .into(),
                    ));
                }
            }
        }
        Ok(Self {
            volumes,
            profile: Measured {
                pairs: pairs.into_iter().map(|((p, q), found)| (p, q, found)).collect(),
            },
        })
    }
}

/// One more than a line may have, to detect extra fields.
const MAX_FIELDS: usize = 7;

struct Reader<'a> {
    nodes: HashMap<&'a str, NodeId>,
    paths: HashMap<(NodeId, NodeId), u32>,
}

impl Reader<'_> {
    fn path(&self, from: &str, to: &str) -> Result<u32, String> {
        let node = |name: &str| {
            let plain = unescape(name);
            self.nodes
                .get(plain.as_str())
                .copied()
                .ok_or_else(|| format!("no node is called {}", shorten(name)))
        };
        let ends = (node(from)?, node(to)?);
        self.paths
            .get(&ends)
            .copied()
            .ok_or_else(|| format!("there is no path from {} to {}", shorten(from), shorten(to)))
    }
}

/// A number above 0.
fn amount(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err(format!("{} is not a number above 0", shorten(text))),
    }
}

/// Text for error messages.
fn shorten(text: &str) -> String {
    text.chars().take(64).filter(|c| !c.is_control()).collect()
}

/// A node's id with control characters, `%` and `#` as `%` and two hexadecimal digits.
pub(super) fn escape(id: &str) -> String {
    id.chars().fold(String::new(), |mut text, c| {
        if c.is_ascii_control() || matches!(c, '%' | '#') {
            let _ = write!(text, "%{:02x}", c as u32);
        } else {
            text.push(c);
        }
        text
    })
}

pub(super) fn unescape(text: &str) -> String {
    let mut parts = text.split('%');
    let mut id = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if byte.is_ascii() => {
                id.push(byte as char);
                id.push_str(&part[2..]);
            }
            _ => {
                id.push('%');
                id.push_str(part);
            }
        }
    }
    id
}
