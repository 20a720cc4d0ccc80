//! Which scheme to use, in words and numbers.

use super::document::{Choice, Limited, Standing};
use oncewire_plan::baseline::{Scheme, Within};
use oncewire_plan::verdict::{self, Loads, Verdict};
use oncewire_plan::{Copies, Instance};
use oncewire_report::{Unit, format};

/// Hop-by-hop's encoders keep up if they fingerprint this share of the packets.
const KEEPS_UP: f64 = 0.995;

/// The verdict as data.
pub(super) fn choice(instance: &Instance, verdict: &Verdict) -> Choice {
    let whole = instance.footprint();
    let part = |saved: f64| if whole > 0.0 { saved / whole } else { 0.0 };
    let standing = |one: &verdict::Standing| Standing {
        reduction: part(one.saved),
        encoders: one.cost.encoders,
        decoders: one.cost.decoders,
        memory_bytes: one.cost.work.memory,
        operations_per_second: one.cost.work.operations / instance.epoch.0,
    };
    let limited = |one: Within| Limited { reduction: part(one.saved), bound: part(one.bound) };
    let equal = &verdict.equal;
    let mut choice = Choice {
        winner: verdict.winner().name(),
        winner_at_equal_cost: verdict.winner_at_equal_cost().name(),
        smartre: standing(&verdict.smart),
        hop_by_hop: standing(&verdict.hop),
        smartre_lean: verdict.lean.as_ref().map(standing),
        at_devices: limited(equal.devices),
        at_memory: limited(equal.memory),
        at_operations: limited(equal.operations),
        at_all: limited(equal.all),
        ..Choice::default()
    };
    match verdict.loads {
        Some(Loads::SmartReFrom { load, encoded }) => {
            choice.smartre_from_load = Some(load);
            choice.encoded_there = Some(encoded);
        }
        Some(Loads::SmartReUntil { load }) => choice.smartre_until_load = Some(load),
        Some(Loads::Always { tried, .. }) => choice.loads_tried = Some(tried),
        None => {}
    }
    choice
}

/// The headline: what to use, and what both schemes save. `with` says where decoders are, if not
/// everywhere; `best` whether the plan is the best one.
pub(super) fn headline(choice: &Choice, with: &str, best: bool) -> String {
    let rival = if with.is_empty() { "with the same devices" } else { "with as many devices" };
    let [smart, hop] = [choice.smartre.reduction, choice.hop_by_hop.reduction].map(percent);
    let plan = if best { "SmartRE's best plan" } else { "the SmartRE plan found" };
    if choice.smartre.reduction == 0.0 && choice.hop_by_hop.reduction == 0.0 {
        return "Neither SmartRE nor hop-by-hop elimination saves anything here.".into();
    }
    let first = if choice.winner == Scheme::HopByHop.name() {
        format!(
            "Use hop-by-hop elimination: {rival}, it cuts the bytes carried by all links by {hop}, {plan}{with} by {smart}."
        )
    } else {
        format!(
            "Use SmartRE: {}{with} cuts the bytes carried by all links by {smart}, hop-by-hop elimination {rival} by {hop}.",
            if best { "its best plan" } else { "the plan found" }
        )
    };
    [first, loads(choice)].join(" ").trim_end().to_owned()
}

/// Under which load which scheme wins.
fn loads(choice: &Choice) -> String {
    let times = |load: f64| format!("{} times this load", format::number(load, Unit::Number));
    if let Some(load) = choice.smartre_from_load {
        let (verb, side) =
            if load > 1.0 { ("SmartRE wins from", "on") } else { ("Hop-by-hop wins below", "") };
        let why = match choice.encoded_there {
            Some(encoded) if encoded < KEEPS_UP && load > 1.0 => format!(
                ", where hop-by-hop's encoders fingerprint {} of the packets",
                format::number(encoded, Unit::Share)
            ),
            _ => String::new(),
        };
        let on =
            if side.is_empty() || !why.is_empty() { String::new() } else { format!(" {side}") };
        return format!("{verb} {}{on}{why}.", times(load));
    }
    if let Some(load) = choice.smartre_until_load {
        return format!("SmartRE wins up to {}.", times(load));
    }
    match choice.loads_tried {
        Some([low, high]) => format!(
            "That holds at all loads tried, {} to {} times this one.",
            format::number(low, Unit::Number),
            format::number(high, Unit::Number)
        ),
        None => String::new(),
    }
}

/// What it costs, and what is saved at equal cost.
pub(super) fn reasons(choice: &Choice) -> Vec<String> {
    let (smart, hop) = (&choice.smartre, &choice.hop_by_hop);
    if hop.reduction == 0.0 || smart.reduction == 0.0 {
        return Vec::new();
    }
    let times = |hop: f64, smart: f64| format::number(hop / smart, Unit::Number);
    let mut reasons = vec![format!(
        "Hop-by-hop takes {} times SmartRE's devices, {} times its memory and {} times its operations. With no more of these than SmartRE it saves {}, so at equal cost {} wins.",
        times(hop.devices() as f64, smart.devices() as f64),
        times(hop.memory_bytes, smart.memory_bytes),
        times(hop.operations_per_second, smart.operations_per_second),
        percent(choice.at_all.reduction),
        choice.winner_at_equal_cost,
    )];
    if let Some(lean) = &choice.smartre_lean {
        reasons.push(format!(
            "{} of SmartRE's {} devices are enough for a reduction of {}.",
            lean.devices(),
            smart.devices(),
            percent(lean.reduction)
        ));
    }
    let asked = choice.smartre_from_load.is_some()
        || choice.smartre_until_load.is_some()
        || choice.loads_tried.is_some();
    if !asked {
        reasons.push("At which load the winner changes takes more plans: --compare all.".into());
    }
    reasons
}

/// Share of what a plan is expected to save by which another must do better to be offered.
const WORTH_A_WORD: f64 = 0.01;

/// That another plan is expected to save more by references to all copies, if one is.
pub(super) fn offer(copies: &Copies) -> Option<String> {
    (copies.best > (1.0 + WORTH_A_WORD) * copies.optimum).then(|| format!(
        "By references to all copies, as nodes have them, this plan is expected to save {:.1} %, another {:.1} %: --choose expected.",
        100.0 * copies.optimum,
        100.0 * copies.best
    ))
}

/// What the plan that was taken instead of the optimum is expected to save.
pub(super) fn taken(copies: &Copies) -> String {
    format!(
        "By references to all copies, as nodes and `emulate` have them, it is expected to save {:.1} %, the program's optimum {:.1} %.",
        100.0 * copies.best,
        100.0 * copies.optimum
    )
}

fn percent(share: f64) -> String {
    format::number(share, Unit::Share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(winner: Scheme) -> Choice {
        let standing = |reduction, times: f64| Standing {
            reduction,
            encoders: 11,
            decoders: 11 + (times as usize - 1) * 22,
            memory_bytes: 1e10 * times,
            operations_per_second: 1e6 * times,
        };
        Choice {
            winner: winner.name(),
            winner_at_equal_cost: Scheme::SmartRe.name(),
            smartre: standing(0.266, 1.0),
            hop_by_hop: standing(if winner == Scheme::SmartRe { 0.2 } else { 0.333 }, 2.0),
            at_all: Limited { reduction: 0.141, bound: 0.142 },
            ..Choice::default()
        }
    }

    #[test]
    fn the_headline_names_the_winner_and_the_load() {
        let mut hop = example(Scheme::HopByHop);
        hop.smartre_from_load = Some(2.6);
        hop.encoded_there = Some(0.71);
        assert_eq!(
            headline(&hop, "", true),
            "Use hop-by-hop elimination: with the same devices, it cuts the bytes carried by all links by 33.3 %, SmartRE's best plan by 26.6 %. SmartRE wins from 2.60 times this load, where hop-by-hop's encoders fingerprint 71.0 % of the packets."
        );
        hop.encoded_there = Some(1.0);
        assert!(headline(&hop, "", true).ends_with("SmartRE wins from 2.60 times this load on."));
        let mut smart = example(Scheme::SmartRe);
        smart.smartre_from_load = Some(0.4);
        assert_eq!(
            headline(&smart, " with decoders on 10 of 28 links", false),
            "Use SmartRE: the plan found with decoders on 10 of 28 links cuts the bytes carried by all links by 26.6 %, hop-by-hop elimination with as many devices by 20.0 %. Hop-by-hop wins below 0.400 times this load."
        );
        smart.smartre_from_load = None;
        smart.loads_tried = Some([0.015625, 64.0]);
        assert!(
            headline(&smart, "", true)
                .ends_with("That holds at all loads tried, 0.016 to 64 times this one.")
        );
    }

    #[test]
    fn reasons_say_what_it_costs() {
        assert_eq!(
            reasons(&Choice { loads_tried: Some([0.1, 9.0]), ..example(Scheme::HopByHop) }),
            [
                "Hop-by-hop takes 2 times SmartRE's devices, 2 times its memory and 2 times its operations. With no more of these than SmartRE it saves 14.1 %, so at equal cost SmartRE wins."
            ]
        );
        let unasked = reasons(&example(Scheme::HopByHop));
        assert!(unasked.len() == 2 && unasked[1].contains("--compare all"), "{unasked:?}");
    }
}
