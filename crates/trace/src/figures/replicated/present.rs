//! Figure 11 as tables, charts and text.

use super::super::layout::{chart, shares, table};
use super::super::tally::{TOTAL, thin};
use super::super::{Figure, FigureId};
use super::published::{CACHE, NAME, Published, SHORTEST};
use super::{DirectionReplicated, HTTP, LARGE, MAX_SERVICES, ReplicatedPackets, TOP, WINDOWS};
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use oncewire_report::format::{bytes, cache, counted, share as percent};

impl ReplicatedPackets {
    /// Tables, charts and text.
    pub fn present(&self) -> Figure {
        Figure {
            number: FigureId::Replicated.number(),
            id: FigureId::Replicated.name(),
            title: "Replicated packets",
            source: "Santos and Wetherall (USENIX ATC 1998), sections 2 and 4, Tables 1 and 2, Figs. 1, 2 and 6",
            definition: format!(
                "A packet is replicated if its payload (all bytes above TCP or UDP) equals that of an earlier packet in its direction, however \
                 long ago. Volumes are payload bytes; packets without payload do not count. HTTP is TCP with the service port {}; the other \
                 services are the {TOP} with the most volume. The interval of a replicated packet is the payload volume of its direction from the \
                 beginning of the previous copy to its own beginning: a window of that many bytes finds it.{}",
                HTTP.map(|port| port.to_string()).join(", "),
                self.published.as_ref().map(|_| system()).unwrap_or_default()
            ),
            finding: self.finding(),
            brief: self.brief().unwrap_or_default(),
            tables: [self.volumes(), self.windows()]
                .into_iter()
                .chain(self.published.as_ref().map(Published::table))
                .collect(),
            charts: self
                .charts()
                .into_iter()
                .chain(self.published.as_ref().and_then(Published::chart))
                .collect(),
            notes: self.notes(),
            memory: self.memory,
        }
    }

    fn volumes(&self) -> Table {
        let columns = [
            ("direction", Unit::Text),
            ("traffic", Unit::Text),
            ("packets", Unit::Count),
            ("volume", Unit::Bytes),
            ("replicated packets", Unit::Count),
            ("replicated", Unit::Bytes),
            ("share", Unit::Share),
        ];
        let mut volumes = table(
            "volume",
            "Payload volume and the part of it that is replicated (Table 1)",
            columns,
        );
        for of in &self.directions {
            let all = ("all".to_owned(), of.all);
            volumes.rows.extend([&all].into_iter().chain(&of.traffic).map(|(name, sums)| {
                vec![
                    of.direction.into(),
                    name.clone().into(),
                    sums.packets.into(),
                    sums.volume.into(),
                    sums.replicated_packets.min(sums.packets).into(),
                    sums.replicated.min(sums.volume).into(),
                    sums.share().into(),
                ]
            }));
        }
        volumes
    }

    fn windows(&self) -> Table {
        let names = WINDOWS.map(bytes);
        let names = names.iter().map(|name| (name.as_str(), Unit::Share));
        let columns = [("direction", Unit::Text)]
            .into_iter()
            .chain(names)
            .chain([("unlimited", Unit::Share)]);
        let caption =
            "Share of the volume that is replicated and whose previous copy lies within a window";
        let mut windows = table("windows", caption, columns);
        windows.rows.extend(self.directions.iter().map(|of| {
            let mut row = vec![of.direction.into()];
            row.extend(of.within.map(|within| Cell::from(of.all.share_of(within))));
            row.push(of.all.share().into());
            row
        }));
        windows
    }

    fn charts(&self) -> [Chart; 2] {
        let axis = Axis::new("payload length", Unit::Bytes);
        let y = shares("replicated volume in payloads of at most that length");
        let mut lengths = chart(
            "lengths",
            "Replicated volume by payload length (Fig. 1)",
            ChartKind::Step,
            axis,
            y,
        );
        let axis = Axis::log("window", Unit::Bytes);
        let caption = "Traffic that is replicated and found within a window (Fig. 2)";
        let mut intervals = chart(
            "intervals",
            caption,
            ChartKind::Line,
            axis,
            shares("replicated share of the volume"),
        );
        for of in self.directions.iter().filter(|of| of.all.replicated > 0) {
            lengths.series.push(Series::new(
                of.direction,
                thin(cumulate(&of.by_length, of.all.replicated), 2000),
            ));
            intervals
                .series
                .push(Series::new(of.direction, cumulate(&of.by_interval, of.all.volume)));
        }
        [lengths, intervals]
    }

    fn brief(&self) -> Option<String> {
        let total = self.directions.last()?;
        let (whole, parts) = (total.all.share()?, total.all.share_of(total.saved)?);
        Some(format!(
            "{} of the payload repeats as packets, {} in parts",
            percent(whole),
            percent(parts)
        ))
    }

    fn finding(&self) -> String {
        let Some(total) = self.directions.last() else { return String::new() };
        let Some(share) = total.all.share() else {
            return "The trace has no whole payloads to compare.".into();
        };
        let mut text = format!(
            "{} of the payload volume is in packets whose whole payload was seen before",
            percent(share)
        );
        if self.directions.len() > 1 {
            let each = self.directions.iter().filter(|of| of.direction != TOTAL);
            let each: Vec<_> = each
                .filter_map(|of| Some(format!("{} {}", percent(of.all.share()?), of.direction)))
                .collect();
            text += &format!(" ({})", each.join(", "));
        }
        let matched = total.all.share_of(total.saved).unwrap_or(0.0);
        text += &format!(
            "; the reference algorithm, which also finds parts of packets, saves {} of the same volume.",
            percent(matched)
        );
        text + &total.where_replicated()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "Payloads are compared by a 128-bit hash (XXH3, fixed seeds). Among n different payloads of ordinary traffic, two collide with a \
             probability of about n^2 / 2^129, which is negligible. The hash is not cryptographic, so a trace could be crafted to collide."
                .to_owned(),
            "Retransmitted segments count as replicated packets, as in the paper. The paper's prototype (section 3.4) only handles payloads of \
             500 bytes and more; its analysis and this figure include all."
                .to_owned(),
        ];
        if let (packets @ 1.., payload) = self.truncated {
            let were = if packets == 1 { "was" } else { "were" };
            notes.push(format!(
                "{} ({} of payload) {were} truncated in the capture and left out, since whether the payload repeats is unknown.",
                counted(packets, "packet"),
                bytes(payload)
            ));
        }
        if !self.samplings.is_empty() {
            let steps: Vec<_> = self
                .samplings
                .iter()
                .map(|(one_in, volume)| format!("1 in {one_in} after {}", bytes(*volume)))
                .collect();
            notes.push(format!(
                "The payloads did not fit into {} and were sampled by their hash ({}): all copies of a payload or none. Volumes are exact. \
                 Replicated volumes are unbiased estimates, in which each sampled packet is weighted by the sampling rate.",
                bytes(self.limit),
                steps.join(", ")
            ));
        }
        if self.unnamed > 0 {
            notes.push(format!(
                "{} of services beyond the first {MAX_SERVICES} are only in the sums.",
                counted(self.unnamed, "packet")
            ));
        }
        notes
    }
}

impl DirectionReplicated {
    /// In which payloads, and how far back, most of the replicated volume is.
    fn where_replicated(&self) -> String {
        let all = self.all.replicated as f64;
        if all == 0.0 {
            return String::new();
        }
        let large: u64 =
            self.by_length.iter().filter(|(len, _)| *len > LARGE).map(|(_, bytes)| bytes).sum();
        let mut text = format!(
            " {} of the replicated volume is in payloads of more than {LARGE} bytes (97 % in 1998)",
            percent(large as f64 / all)
        );
        let mut sum = 0;
        let most = self.by_interval.iter().find(|(_, bytes)| {
            sum += bytes;
            sum as f64 >= 0.9 * all
        });
        if let Some((interval, _)) = most {
            text +=
                &format!(", and 90 % of it repeats a payload at most {} back", bytes(*interval));
        }
        text + "."
    }
}

/// The definition of what the paper's system saves.
fn system() -> String {
    format!(
        " Reduction: payloads of {SHORTEST} bytes and more that are in a cache of {}, least recently used first out, become a name of {NAME} \
         bytes, as in the paper's system (section 3.4). Compression: DEFLATE of each payload at its fastest level. Both: names, and compression \
         of the other payloads. They are shares of all bytes on the wire, headers included, of what goes out, or of all packets if no network is \
         inside.",
        cache(CACHE)
    )
}

/// The points of a distribution as shares of `total`.
fn cumulate(sums: &[(u64, u64)], total: u64) -> Vec<(f64, f64)> {
    let mut sum = 0u64;
    let points = sums.iter().map(|&(x, bytes)| {
        sum += bytes;
        (x as f64, (sum as f64 / total as f64).min(1.0))
    });
    points.collect()
}
