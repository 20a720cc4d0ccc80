//! What was measured: as an instance, and as text.

use super::*;

/// First line of a measurement's text form.
const TITLE: &str = "# oncewire measurement 1: volumes are `from to bytes`, matches `from to from2 to2 matches bytes`, per epoch";

/// Pairs of paths of the same ingress up to which matches between paths are mixed in.
const MIXED_PAIRS: u64 = 4_000_000;
/// Smallest part of an ingress's matches that is mixed in.
const SMALLEST_MIXED: f64 = 1e-7;

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

    /// This measurement with a `share` (0 to 1) of what the instance's own volumes say mixed in, for
    /// plans for other hours: paths that were quiet get some volume and some matches. The volume and
    /// the match bytes of each ingress stay. That share of both is divided among its paths in
    /// proportion to the instance's volumes; the part of it that was measured within paths repeats its
    /// own path, the rest any path, also its own, in the same proportion. Of instances with more than
    /// four million pairs of paths, all of it repeats its own path.
    pub fn mixed(mut self, instance: &Instance, share: f64) -> Self {
        let pairs = |ingress: &crate::Ingress| (ingress.paths.len() as u64).pow(2);
        let all = instance.ingresses.iter().map(pairs).sum::<u64>() <= MIXED_PAIRS;
        let mut mixed: BTreeMap<(u32, u32), (f64, f64)> = BTreeMap::new();
        let mut totals = vec![(0.0, 0.0, 0.0); instance.ingresses.len()];
        for &(p, q, found) in &self.profile.pairs {
            let total = &mut totals[instance.paths[p as usize].ingress as usize];
            total.0 += found.count;
            total.1 += found.bytes();
            total.2 += if p == q { found.bytes() } else { 0.0 };
            mixed.insert((p, q), ((1.0 - share) * found.count, (1.0 - share) * found.bytes()));
        }
        for (ingress, (count, bytes, own)) in instance.ingresses.iter().zip(totals) {
            let volume: f64 = ingress.paths.clone().map(|path| self.volumes[path as usize]).sum();
            let part = |path: u32| instance.paths[path as usize].volume / ingress.volume;
            let own = if all && bytes > 0.0 { own / bytes } else { 1.0 };
            for p in ingress.paths.clone() {
                let measured = &mut self.volumes[p as usize];
                *measured = (1.0 - share) * *measured + share * volume * part(p);
                let mut add = |q: u32, of: f64| {
                    if bytes > 0.0 && of > SMALLEST_MIXED {
                        let sum = mixed.entry((p, q)).or_default();
                        *sum = (sum.0 + share * count * of, sum.1 + share * bytes * of);
                    }
                };
                add(p, own * part(p));
                if own < 1.0 {
                    ingress.paths.clone().for_each(|q| add(q, (1.0 - own) * part(p) * part(q)));
                }
            }
        }
        let pairs = mixed.into_iter().filter(|(_, (count, _))| *count > 0.0);
        let pairs = pairs
            .map(|((p, q), (count, bytes))| (p, q, Match { count, length: bytes / count }))
            .collect();
        self.profile = Measured { pairs, copies: self.profile.copies };
        self
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
        let copies = self.profile.copies;
        instance.clone().with_profile(Profile::Measured(Measured { pairs, copies }))
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
            let ingress = &instance.ingresses[path.ingress as usize];
            // A node without a slice means all of its slices.
            let several = instance.slices_of(path.ingress as usize).len() > 1;
            let slice = if several { format!("{SLICE}{}", ingress.slice) } else { String::new() };
            format!("{}{slice}\t{}", id(ingress.node), id(path.egress))
        };
        if self.profile.copies > 0.0 {
            let _ = writeln!(text, "{COPIES}\t{}", self.profile.copies);
        }
        for (path, volume) in self.volumes.iter().enumerate().filter(|(_, volume)| **volume > 0.0) {
            let _ = writeln!(text, "{}\t{volume}", name(path as u32));
        }
        for (p, q, found) in self.profile.pairs.iter().filter(|pair| pair.2.count > 0.0) {
            let _ =
                writeln!(text, "{}\t{}\t{}\t{}", name(*p), name(*q), found.count, found.bytes());
        }
        text
    }

    /// Reads the text form. Paths that the text does not name have no volume. What it says of a node
    /// without a slice is divided among the node's slices by the volumes of their paths.
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
        let mut paths: HashMap<(NodeId, NodeId), Vec<(u16, u32)>> = HashMap::new();
        for (path, at) in instance.paths.iter().zip(0..) {
            let ingress = &instance.ingresses[path.ingress as usize];
            paths.entry((ingress.node, path.egress)).or_default().push((ingress.slice, at));
        }
        let reader = Reader { nodes, paths, instance };
        let mut volumes = vec![0.0; instance.paths.len()];
        let mut pairs: BTreeMap<(u32, u32), Match> = BTreeMap::new();
        let mut copies = 0.0;
        for (line, number) in text.lines().zip(1..) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let fail = |reason: String| Error::from(ProfileError::Invalid { line: number, reason });
            let fields: Vec<&str> = line.splitn(MAX_FIELDS, '\t').collect();
            match fields[..] {
                [COPIES, number] => copies = amount(number).map_err(fail)?,
                [from, to, volume] => {
                    let volume = amount(volume).map_err(fail)?;
                    for part in reader.parts(from, to).map_err(fail)? {
                        if volumes[part.path as usize] > 0.0 {
                            return Err(fail(format!(
                                "a second volume from {} to {}",
                                shorten(from),
                                shorten(to)
                            )));
                        }
                        volumes[part.path as usize] = volume * part.share;
                    }
                }
                [from, to, from2, to2, count, bytes] => {
                    let (ps, qs) = (
                        reader.parts(from, to).map_err(fail)?,
                        reader.parts(from2, to2).map_err(fail)?,
                    );
                    let ingress = |part: &Part| instance.paths[part.path as usize].ingress;
                    let store = |part: &Part| instance.ingresses[ingress(part) as usize].store;
                    let one_slice = ps.len() == 1 && qs.len() == 1;
                    if store(&ps[0]) != store(&qs[0])
                        || (one_slice && ingress(&ps[0]) != ingress(&qs[0]))
                    {
                        return Err(fail("the two paths have different ingresses".into()));
                    }
                    let (count, bytes) =
                        (amount(count).map_err(fail)?, amount(bytes).map_err(fail)?);
                    let length = bytes / count;
                    if !(length > 0.0 && length <= instance.mss.0 * (1.0 + 1e-9)) {
                        return Err(fail(format!(
                            "{count} matches with {bytes} bytes: each has more than none and at most the largest packet's, {}",
                            instance.mss.0
                        )));
                    }
                    // Written as a sum, a mean of the largest packet may come back larger by
                    // rounding.
                    let length = length.min(instance.mss.0);
                    for p in &ps {
                        let Some(q) = qs.iter().find(|q| ingress(q) == ingress(p)) else {
                            continue;
                        };
                        let found = Match { count: count * p.share, length };
                        if pairs.insert((p.path, q.path), found).is_some() {
                            return Err(fail(
                                "the matches of these two paths come a second time".into(),
                            ));
                        }
                    }
                }
                _ => {
                    return Err(fail(
                        "3 fields (from, to, bytes), 6 (from, to, from, to, matches, bytes) or 2 (copies, number) with tabs between them are needed"
                            .into(),
                    ));
                }
            }
        }
        Ok(Self {
            volumes,
            profile: Measured {
                pairs: pairs.into_iter().map(|((p, q), found)| (p, q, found)).collect(),
                copies,
            },
        })
    }
}

/// One more than a line may have, to detect extra fields.
const MAX_FIELDS: usize = 7;

/// First field of the line with [`Measured::copies`].
const COPIES: &str = "copies";

/// Between a node and the number of its slice; escaped in ids.
const SLICE: char = '#';

struct Reader<'a> {
    nodes: HashMap<&'a str, NodeId>,
    /// Slice and path.
    paths: HashMap<(NodeId, NodeId), Vec<(u16, u32)>>,
    instance: &'a Instance,
}

/// A path, and its part of the volume from its node to its egress.
struct Part {
    path: u32,
    share: f64,
}

impl Reader<'_> {
    /// The paths that a line's names mean: one, or that of each slice. Never empty.
    fn parts(&self, from: &str, to: &str) -> Result<Vec<Part>, String> {
        let node = |name: &str| {
            let plain = unescape(name);
            self.nodes
                .get(plain.as_str())
                .copied()
                .ok_or_else(|| format!("no node is called {}", shorten(name)))
        };
        let unknown = || format!("there is no path from {} to {}", shorten(from), shorten(to));
        let (name, slice) = match from.split_once(SLICE) {
            None => (from, None),
            Some((name, slice)) => (name, Some(slice.parse::<u16>().map_err(|_| unknown())?)),
        };
        let paths = self.paths.get(&(node(name)?, node(to)?)).ok_or_else(unknown)?;
        if let Some(slice) = slice {
            let one = paths.iter().find(|one| one.0 == slice).ok_or_else(unknown)?;
            return Ok(vec![Part { path: one.1, share: 1.0 }]);
        }
        let volume = |path: u32| self.instance.paths[path as usize].volume;
        let whole: f64 = paths.iter().map(|one| volume(one.1)).sum();
        let share = |path| if paths.len() > 1 { volume(path) / whole } else { 1.0 };
        Ok(paths.iter().map(|one| Part { path: one.1, share: share(one.1) }).collect())
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
pub(crate) fn escape(id: &str) -> String {
    id.chars().fold(String::new(), |mut text, c| {
        if c.is_ascii_control() || matches!(c, '%' | '#') {
            let _ = write!(text, "%{:02x}", c as u32);
        } else {
            text.push(c);
        }
        text
    })
}

pub(crate) fn unescape(text: &str) -> String {
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
