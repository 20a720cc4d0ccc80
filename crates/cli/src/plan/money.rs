//! What is bought, what it costs, and when that is paid back.

use super::document::{Bought, BoughtDevice, Money, Payback};
use crate::args::plan::MoneyArgs;
use crate::failure::{Failure, Outcome};
use oncewire_plan::cost::Cost;
use oncewire_plan::placement::Tariff;
use oncewire_plan::verdict::Verdict;
use oncewire_plan::{Buy, Goal, Instance};
use oncewire_report::format;

/// Days of a month, seconds of a day.
const MONTH_DAYS: f64 = 30.0;
const DAY: f64 = 86_400.0;
const GB: f64 = 1e9;

/// Prices of devices, if any was given.
pub(super) fn tariff(args: &MoneyArgs) -> Option<Tariff> {
    let (device, cache) = (args.price_device, args.price_cache);
    (device.is_some() || cache.is_some())
        .then(|| Tariff { device: device.unwrap_or(0.0), memory: cache.unwrap_or(0.0) / GB })
}

/// What is to be bought.
pub(super) fn buy(args: &MoneyArgs) -> Outcome<Option<Buy>> {
    let goal = match (args.budget, args.target) {
        (Some(money), _) => Goal::Budget(money),
        (None, Some(0.0)) => {
            return Err(Failure::usage(
                "--target 0%: that needs no devices; give a share above 0%",
            ));
        }
        (None, Some(share)) => Goal::Reduction(share),
        (None, None) => return Ok(None),
    };
    let tariff = tariff(args).unwrap_or_default();
    if tariff.device == 0.0 && tariff.memory == 0.0 {
        return Err(Failure::usage(
            "the prices of devices and of their memory are 0; give --price-device or --price-cache above 0",
        ));
    }
    Ok(Some(Buy { tariff, goal }))
}

/// The purchase as data. `name` gives a device's name and label, `node` an ingress's.
pub(super) fn bought(
    whole: &oncewire_plan::placement::Purchase,
    (instance, tariff): (&Instance, &Tariff),
    decoder: impl Fn(usize) -> (String, String),
    encoder: impl Fn(usize) -> (String, String),
) -> Bought {
    let encoders = whole.encoders.iter().map(|&ingress| {
        let (name, label) = encoder(ingress);
        let store = instance.ingresses[ingress].store as usize;
        BoughtDevice { what: "encoder", name, label, price: tariff.encoder(instance, store) }
    });
    let decoders = whole.decoders.iter().map(|&device| {
        let (name, label) = decoder(device.index());
        BoughtDevice { what: "decoder", name, label, price: tariff.decoder(instance, device) }
    });
    let footprint = instance.footprint();
    let part = |saved: f64| if footprint > 0.0 { saved / footprint } else { 0.0 };
    Bought {
        cost: whole.cost,
        reduction: part(whole.saved),
        whole_cost: whole.whole_cost,
        whole_reduction: part(whole.whole_saved),
        proven: whole.proven,
        devices: encoders.chain(decoders).collect(),
    }
}

/// Costs and payback, if any price was given.
pub(super) fn money(args: &MoneyArgs, instance: &Instance, verdict: &Verdict) -> Option<Money> {
    let tariff = tariff(args);
    if tariff.is_none() && args.price_link.is_none() {
        return None;
    }
    let payback = |cost: &Cost, saved: f64| {
        let price = tariff.as_ref().map(|tariff| cost.price(tariff));
        let month = MONTH_DAYS * DAY / instance.epoch.0;
        let saved = args.price_link.map(|link| saved / GB * month * link);
        let months = price.zip(saved).map(|(price, saved)| price / saved);
        Payback {
            price,
            saved_per_month: saved,
            months: months.filter(|months| months.is_finite()),
        }
    };
    Some(Money {
        price_device: args.price_device,
        price_cache: args.price_cache,
        price_link: args.price_link,
        smartre: payback(&verdict.smart.cost, verdict.smart.saved),
        hop_by_hop: payback(&verdict.hop.cost, verdict.hop.saved),
    })
}

/// Costs and payback in words.
pub(super) fn reasons(money: &Money) -> Vec<String> {
    let line = |name: &str, one: &Payback| {
        let mut parts = Vec::new();
        if let Some(price) = one.price {
            parts.push(format!("costs {}", amount(price)));
        }
        if let Some(saved) = one.saved_per_month {
            parts.push(format!("saves {} a month", amount(saved)));
        }
        let back = match (one.months, one.price.is_some() && one.saved_per_month.is_some()) {
            (Some(months), _) => format!(": paid back in {}", time(months)),
            (None, true) => ": never paid back".into(),
            _ => String::new(),
        };
        format!("{name} {}{back}.", parts.join(" and "))
    };
    let lines = [line("SmartRE", &money.smartre), line("Hop-by-hop", &money.hop_by_hop)];
    let constant =
        if money.price_link.is_some() { " The traffic is taken as constant." } else { "" };
    vec![format!("{}{constant}", lines.join(" "))]
}

/// An amount of money: whole from 100 on.
pub(super) fn amount(money: f64) -> String {
    if !money.is_finite() {
        return format::MISSING.into();
    }
    if (100.0..1e18).contains(&money) || (money > 0.0 && money < 100.0 && money.fract() == 0.0) {
        format::count_of(money.round() as u64)
    } else {
        format!("{money:.2}")
    }
}

fn time(months: f64) -> String {
    let days = months * MONTH_DAYS;
    if days < 60.0 {
        format!("{days:.0} days")
    } else if months < 24.0 {
        format!("{months:.0} months")
    } else {
        format!("{:.1} years", months * MONTH_DAYS / 365.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_times_as_people_write_them() {
        for (money, text) in
            [(0.0, "0.00"), (15.0, "15"), (99.994, "99.99"), (1234.5, "1,235"), (2e6, "2,000,000")]
        {
            assert_eq!(amount(money), text);
        }
        for (months, text) in [(0.5, "15 days"), (7.2, "7 months"), (36.5, "3.0 years")] {
            assert_eq!(time(months), text);
        }
    }

    #[test]
    fn paybacks_in_words() {
        let payback = |price, saved| Payback {
            price: Some(price),
            saved_per_month: Some(saved),
            months: (saved > 0.0).then(|| price / saved),
        };
        let money = Money {
            smartre: payback(12_000.0, 1_000.0),
            hop_by_hop: payback(24_000.0, 0.0),
            price_link: Some(0.01),
            ..Money::default()
        };
        assert_eq!(
            reasons(&money),
            [
                "SmartRE costs 12,000 and saves 1,000 a month: paid back in 12 months. Hop-by-hop costs 24,000 and saves 0.00 a month: never paid back. The traffic is taken as constant."
            ]
        );
        let devices = Payback { price: Some(5.0), ..Payback::default() };
        let money = Money { smartre: devices.clone(), hop_by_hop: devices, ..Money::default() };
        assert_eq!(reasons(&money), ["SmartRE costs 5. Hop-by-hop costs 5."]);
    }
}
