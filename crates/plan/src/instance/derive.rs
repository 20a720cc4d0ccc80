//! Instances from other instances.

use std::collections::{BTreeSet, HashMap};

use super::{Hop, Ingress, Instance, Path, offsets};
use crate::{
    DeviceId, Error, LinkId, Profile,
    error::{DeviceError, PathError, TrafficError},
};

impl Instance {
    /// The same with another profile.
    ///
    /// # Errors
    /// The profile is out of range.
    pub fn with_profile(mut self, profile: Profile) -> Result<Self, Error> {
        profile.check(&self.paths, self.mss)?;
        self.profile = profile;
        Ok(self)
    }

    /// The same with other volumes, one per path, in bytes per epoch.
    ///
    /// # Errors
    /// Volumes that are not above 0 and finite, or not one per path.
    pub fn with_volumes(mut self, volumes: &[f64]) -> Result<Self, Error> {
        if volumes.len() != self.paths.len() {
            return Err(
                TrafficError::Count { volumes: volumes.len(), paths: self.paths.len() }.into()
            );
        }
        for (path, &volume) in self.paths.iter_mut().zip(volumes) {
            if !(volume > 0.0 && volume.is_finite()) {
                return Err(TrafficError::Range {
                    what: "the volume of a path in bytes".into(),
                    value: volume,
                    range: "above 0",
                }
                .into());
            }
            path.volume = volume;
        }
        self.sum_volumes();
        Ok(self)
    }

    /// The instance at a smaller scale, for emulation: multiplies volumes, memories, operations,
    /// encodings, counted matches and link capacities by `factor`. T, packet sizes and match
    /// lengths stay, and so does every share and ratio.
    ///
    /// # Errors
    /// A factor that is not above 0 and finite.
    pub fn scaled(mut self, factor: f64) -> Result<Self, Error> {
        if !(factor > 0.0 && factor.is_finite()) {
            return Err(TrafficError::Range {
                what: "the scale".into(),
                value: factor,
                range: "above 0",
            }
            .into());
        }
        for device in &mut self.devices {
            device.memory *= factor;
            device.operations *= factor;
            device.encodings *= factor;
        }
        for ingress in &mut self.ingresses {
            ingress.memory *= factor;
            ingress.encodings *= factor;
        }
        self.network
            .links
            .iter_mut()
            .filter_map(|link| link.capacity.as_mut())
            .for_each(|capacity| capacity.0 *= factor);
        if let Profile::Measured(profile) = &mut self.profile {
            profile.pairs.iter_mut().for_each(|pair| pair.2.count *= factor);
        }
        let volumes: Vec<f64> = self.paths.iter().map(|path| path.volume * factor).collect();
        self.with_volumes(&volumes)
    }

    /// The same network and devices with this many times the traffic: volumes, and counted matches.
    ///
    /// # Errors
    /// A factor that is not above 0 and finite, or with which a volume overflows.
    pub fn with_load(mut self, factor: f64) -> Result<Self, Error> {
        if let Profile::Measured(profile) = &mut self.profile {
            profile.pairs.iter_mut().for_each(|pair| pair.2.count *= factor);
        }
        let volumes: Vec<f64> = self.paths.iter().map(|path| path.volume * factor).collect();
        self.with_volumes(&volumes)
    }

    /// The same with a share of every device's memory and operations, and of every packet store, left
    /// out: what a plan is to leave free. 0 is the whole.
    ///
    /// # Errors
    /// A share that is not at least 0 and below 1.
    pub fn reserving(mut self, share: f64) -> Result<Self, Error> {
        if !(0.0..1.0).contains(&share) {
            return Err(DeviceError::Range {
                what: "the headroom".into(),
                value: share,
                range: "a share of at least 0 and below 1",
            }
            .into());
        }
        for device in &mut self.devices {
            device.memory *= 1.0 - share;
            device.operations *= 1.0 - share;
        }
        self.ingresses.iter_mut().for_each(|ingress| ingress.memory *= 1.0 - share);
        Ok(self)
    }

    /// Only the traffic that enters at the node of this ingress, all its slices, with its share by
    /// volume of each device (thesis, section 3.5).
    pub fn single(&self, ingress: usize) -> Self {
        let slices = self.slices_of(ingress);
        let mut all = vec![0.0; self.devices.len()];
        let mut own = vec![0.0; self.devices.len()];
        for path in &self.paths {
            for hop in &path.hops {
                all[hop.device] += path.volume;
                if slices.contains(&(path.ingress as usize)) {
                    own[hop.device] += path.volume;
                }
            }
        }
        let mut ingresses = self.ingresses[slices.clone()].to_vec();
        let range = ingresses[0].paths.start..ingresses[ingresses.len() - 1].paths.end;
        let mut paths = self.paths[range.start as usize..range.end as usize].to_vec();
        paths.iter_mut().for_each(|path| path.ingress -= slices.start as u32);
        let mut devices = self.devices.clone();
        for (device, (own, all)) in devices.iter_mut().zip(own.iter().zip(&all)) {
            let share = if *all > 0.0 { own / all } else { 0.0 };
            // An unlimited device stays unlimited; 0 times infinity is NaN.
            let part = |whole: f64| if whole.is_infinite() { whole } else { whole * share };
            device.memory = part(device.memory);
            device.operations = part(device.operations);
            device.encodings = part(device.encodings);
        }
        let number = |path| range.contains(&path).then(|| path - range.start);
        let profile = self.profile.renumbered(number);
        let first = self.hop_offsets[range.start as usize];
        let hop_offsets = self.hop_offsets[range.start as usize..=range.end as usize]
            .iter()
            .map(|offset| offset - first)
            .collect();
        for ingress in &mut ingresses {
            ingress.store = 0;
            ingress.paths = ingress.paths.start - range.start..ingress.paths.end - range.start;
        }
        Self {
            network: self.network.clone(),
            epoch: self.epoch,
            packet: self.packet,
            mss: self.mss,
            counted: self.counted.clone(),
            devices,
            ingresses,
            paths,
            profile,
            hop_offsets,
        }
    }

    /// Only the traffic of these ingresses, with unchanged devices: other traffic is carried plain
    /// and uses none of their resources, as in partial deployment (thesis, section 3.5).
    ///
    /// # Errors
    /// No ingress, or an unknown one.
    pub fn only(&self, ingresses: &[usize]) -> Result<Self, Error> {
        let chosen: BTreeSet<usize> = ingresses.iter().copied().collect();
        if chosen.is_empty() {
            return Err(TrafficError::NoIngress.into());
        }
        if let Some(unknown) = chosen.iter().find(|&&ingress| ingress >= self.ingresses.len()) {
            return Err(TrafficError::Index {
                what: "ingress",
                index: *unknown,
                count: self.ingresses.len(),
            }
            .into());
        }
        let mut numbers = vec![None; self.paths.len()];
        let mut paths = Vec::new();
        let mut kept: Vec<Ingress> = Vec::with_capacity(chosen.len());
        for ingress in chosen {
            let from = paths.len() as u32;
            let node = self.ingresses[ingress].node;
            let store = kept.last().map_or(0, |last| last.store + u32::from(last.node != node));
            for path in self.paths_of(ingress) {
                numbers[path] = Some(paths.len() as u32);
                paths.push(Path { ingress: kept.len() as u32, ..self.paths[path].clone() });
            }
            kept.push(Ingress {
                store,
                paths: from..paths.len() as u32,
                ..self.ingresses[ingress].clone()
            });
        }
        let profile = self.profile.renumbered(|path| numbers[path as usize]);
        Ok(Self {
            network: self.network.clone(),
            counted: self.counted.clone(),
            devices: self.devices.clone(),
            ingresses: kept,
            hop_offsets: offsets(&paths),
            paths,
            profile,
            ..*self
        })
    }

    /// The device at the head of each link.
    pub(crate) fn devices_of_links(&self) -> Vec<Option<DeviceId>> {
        let mut of_link = vec![None; self.network.links.len()];
        let mut of_node = vec![None; self.network.nodes.len()];
        for (number, device) in self.devices.iter().enumerate() {
            match device.link {
                Some(link) => of_link[link] = Some(DeviceId::new(number)),
                None => of_node[device.node] = Some(DeviceId::new(number)),
            }
        }
        for (device, link) in of_link.iter_mut().zip(&self.network.links) {
            *device = device.or(of_node[link.to]);
        }
        of_link
    }

    /// Only these paths, at least one; `keep` has an entry for each. Ingresses without one are left
    /// out, devices stay.
    pub(crate) fn with_paths(&self, keep: &[bool]) -> Self {
        let mut numbers = vec![None; self.paths.len()];
        let mut paths: Vec<Path> = Vec::new();
        let mut kept: Vec<Ingress> = Vec::new();
        for (at, ingress) in self.ingresses.iter().enumerate() {
            let from = paths.len() as u32;
            for path in self.paths_of(at).filter(|&path| keep[path]) {
                numbers[path] = Some(paths.len() as u32);
                paths.push(Path { ingress: kept.len() as u32, ..self.paths[path].clone() });
            }
            let to = paths.len() as u32;
            if from < to {
                let last = kept.last();
                let store =
                    last.map_or(0, |last| last.store + u32::from(last.node != ingress.node));
                kept.push(Ingress { store, paths: from..to, ..ingress.clone() });
            }
        }
        let mut instance = Self {
            network: self.network.clone(),
            counted: self.counted.clone(),
            devices: self.devices.clone(),
            ingresses: kept,
            hop_offsets: offsets(&paths),
            paths,
            profile: self.profile.renumbered(|path| numbers[path as usize]),
            ..*self
        };
        instance.sum_volumes();
        instance
    }

    /// The same with other links of these paths, and the devices that they lead to. `device_of_link`
    /// is per link. Paths of an ingress need not form a tree any more ([`Instance::check_trees`]).
    pub(crate) fn rerouted<'a>(
        mut self,
        routes: impl IntoIterator<Item = (u32, &'a [LinkId])>,
        device_of_link: &[Option<DeviceId>],
    ) -> Self {
        for (path, links) in routes {
            let mut length = 0;
            let hops = links.iter().zip(1..).filter_map(|(&link, distance)| {
                length += u32::from(self.counted[link]);
                device_of_link[link].map(|device| Hop { device, distance, saves: length })
            });
            let hops = hops.collect();
            let path = &mut self.paths[path as usize];
            (path.links, path.hops, path.length) = (links.into(), hops, length);
        }
        self.hop_offsets = offsets(&self.paths);
        self
    }

    /// Removes the hops for which `keep`, given the index of a path and a hop, returns false. Links
    /// and devices stay.
    ///
    /// # Errors
    /// Two paths of one ingress keep a shared hop but different hops before it: what one can decode
    /// of the other would not be one range of hashes (thesis, section 3.3). Choosing by device
    /// alone never causes this.
    pub fn restricted(&self, keep: impl Fn(usize, &Hop) -> bool) -> Result<Self, Error> {
        let mut paths = self.paths.clone();
        let mut ingress = u32::MAX;
        // Device to the one kept before it on this ingress's paths. If that is always the same, so
        // are all earlier ones, by induction.
        let mut before: HashMap<DeviceId, Option<DeviceId>> = HashMap::new();
        for (number, path) in paths.iter_mut().enumerate() {
            if path.ingress != ingress {
                ingress = path.ingress;
                before.clear();
            }
            path.hops = path.hops.iter().filter(|hop| keep(number, hop)).copied().collect();
            let mut last = None;
            for hop in &path.hops {
                if *before.entry(hop.device).or_insert(last) != last {
                    let ingress =
                        self.network.nodes[self.ingresses[ingress as usize].node].id.clone();
                    return Err(PathError::RestrictedUnevenly {
                        ingress,
                        device: self.device_name(hop.device.index()),
                    }
                    .into());
                }
                last = Some(hop.device);
            }
        }
        Ok(Self {
            network: self.network.clone(),
            counted: self.counted.clone(),
            devices: self.devices.clone(),
            ingresses: self.ingresses.clone(),
            profile: self.profile.clone(),
            hop_offsets: offsets(&paths),
            paths,
            ..*self
        })
    }

    /// [`Instance::restricted`] for paths that need not form trees, without its check.
    pub(crate) fn filtered(mut self, keep: impl Fn(usize, &Hop) -> bool) -> Self {
        for (number, path) in self.paths.iter_mut().enumerate() {
            path.hops = path.hops.iter().filter(|hop| keep(number, hop)).copied().collect();
        }
        self.hop_offsets = offsets(&self.paths);
        self
    }

    /// The same with devices of infinite memory, of infinite operations, or of both: SmartRE-nomem
    /// and SmartRE-noproc of the thesis, section 3.5, which sets M_r or L_r to infinity. Ingresses
    /// keep their limits.
    pub fn relaxed(mut self, memory: bool, operations: bool) -> Self {
        for device in &mut self.devices {
            if memory {
                device.memory = f64::INFINITY;
            }
            if operations {
                device.operations = f64::INFINITY;
            }
        }
        self
    }
}
