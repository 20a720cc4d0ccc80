//! Quantities with units: parsing what people write, formatting what they read.

use oncewire_codec::adapt::CpuShare;
pub(crate) use oncewire_report::format::{binary, bytes, rate, savings};
use std::time::Duration;

/// Most decimals of a size; more would be below one byte.
const SIZE_DIGITS: usize = 9;

/// Reads `65536`, `64K`, `64 KiB`, `1.5G` (powers of 1,024) and `250 MB`, `3GB` (powers of 1,000),
/// up to P, in any case. This includes everything that [`bytes`], [`binary`] and [`size`] write.
/// Rounds a fraction to whole bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        "not a size: write a number and a unit, such as 256M or 256MiB (2^20 bytes), 1.5G, or 250MB (10^6 bytes)".to_string()
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.strip_prefix(' ').unwrap_or(unit).to_ascii_uppercase();
    let scale = match unit.strip_prefix(['K', 'M', 'G', 'T', 'P']) {
        None if unit.is_empty() || unit == "B" => 1u128,
        Some(rest) => {
            let power = 1 + "KMGTP".find(&unit[..1]).unwrap_or_default() as u32;
            match rest {
                "" | "I" | "IB" => 1024u128.pow(power),
                "B" => 1000u128.pow(power),
                _ => return Err(wrong()),
            }
        }
        None => return Err(wrong()),
    };
    let (whole, fraction) =
        number.split_once('.').map_or((number, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole)
        || fraction
            .is_some_and(|fraction| !digits(fraction) || fraction.len() > SIZE_DIGITS || scale == 1)
    {
        return Err(wrong());
    }
    let fraction = fraction.unwrap_or_default();
    let unit = 10u128.pow(fraction.len() as u32);
    let number = format!("{whole}{fraction}").parse::<u128>().ok();
    let size = number
        .and_then(|number| number.checked_mul(scale))
        .and_then(|size| size.checked_add(unit / 2));
    size.and_then(|size| u64::try_from(size / unit).ok())
        .ok_or_else(|| "too large for a size".to_string())
}

/// Reads `300G/day`: bytes in 24 hours.
pub(crate) fn parse_day(text: &str) -> Result<u64, String> {
    let wrong = || "not a size a day: write a size and /day, such as 300G/day".to_string();
    let each = text.strip_suffix("/day").or_else(|| text.strip_suffix("/d")).ok_or_else(wrong)?;
    parse_size(each.trim_end())
}

/// A size as options and help write it, such as `64K`, `512M` or `250MB`. [`parse_size`] reads
/// exactly `n` from it.
pub(crate) fn size(n: u64) -> String {
    let scales = [
        (1 << 40, "T"),
        (1 << 30, "G"),
        (1 << 20, "M"),
        (1 << 10, "K"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
    ];
    let unit = scales.into_iter().find(|(scale, _)| n > 0 && n.is_multiple_of(*scale));
    unit.map_or_else(|| n.to_string(), |(scale, unit)| format!("{}{unit}", n / scale))
}

/// A time as options and help write it, such as `250ms` or `60s`. [`parse_time`] reads it.
pub(crate) fn time(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{}s", time.as_secs())
    } else {
        format!("{}ms", time.as_millis())
    }
}

/// Reads `10ms`, `30s`, `5m`, `2h`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| "not a time: write a number and a unit such as 10ms, 30s or 5m".to_string())?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err("not a time: its unit is ms, s, m or h, such as 10ms, 30s or 5m".into()),
    };
    number
        .checked_mul(ms)
        .map(Duration::from_millis)
        .ok_or_else(|| "too long for a time".to_string())
}

/// Reads `100Mbit`, `1.5 Gbit/s`, `512kbit`: bits per second, with decimal prefixes.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let wrong =
        || "not a rate: write a number and a unit such as 512kbit, 100Mbit or 1Gbit".to_string();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.strip_prefix(' ').unwrap_or(unit).trim_end_matches("/s").trim_end_matches("ps");
    let scale = match unit {
        "bit" => 1.0,
        "kbit" | "Kbit" => 1e3,
        "Mbit" => 1e6,
        "Gbit" => 1e9,
        "Tbit" => 1e12,
        _ => return Err(wrong()),
    };
    let rate = number.parse::<f64>().map_err(|_| wrong())? * scale;
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err(wrong()) }
}

/// Reads `0.09/GB`, `90/TB`: the price of a gigabyte of 10^9 bytes.
pub(crate) fn parse_price(text: &str) -> Result<f64, String> {
    let wrong = || "not a price: write a number for a GB or a TB, such as 0.09/GB".to_string();
    let (number, per) = text.split_once('/').unwrap_or((text, "GB"));
    let scale = match per {
        "MB" => 1e3,
        "GB" => 1.0,
        "TB" => 1e-3,
        _ => return Err(wrong()),
    };
    let price =
        number.trim_start_matches(['$', '€', '£']).parse::<f64>().map_err(|_| wrong())? * scale;
    if price >= 0.0 && price.is_finite() { Ok(price) } else { Err(wrong()) }
}

/// Reads `20000`, `$1.5e6`: an amount of money.
pub(crate) fn parse_money(text: &str) -> Result<f64, String> {
    let wrong = || "not an amount of money: write a number such as 20000".to_string();
    let number = text.trim_start_matches(['$', '€', '£']).trim_start();
    let money: f64 = number.parse().map_err(|_| wrong())?;
    if money >= 0.0 && money.is_finite() { Ok(money) } else { Err(wrong()) }
}

/// Reads `25%`, `12.5%`, `150%`: a share of one core.
pub(crate) fn parse_share(text: &str) -> Result<CpuShare, String> {
    let wrong = || "not a share of a core: write a percentage such as 25% or 12.5%".to_string();
    let number = text.strip_suffix('%').map(str::trim_end).ok_or_else(wrong)?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(tenth) || tenth.len() != 1 {
        return Err(wrong());
    }
    let thousandths = format!("{whole}{tenth}")
        .parse()
        .ok()
        .and_then(|share| CpuShare::from_thousandths(share).ok());
    thousandths.ok_or_else(|| format!("out of range: use 0.1% to {}%", CpuShare::MAX / 10))
}

/// Reads `50%`, `0.1%`, or `0.5`: a share of a whole.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let (number, scale) =
        text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let share = number
        .parse::<f64>()
        .ok()
        .map(|number| number / scale)
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "not a share: write a percentage from 0% to 100%".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_a_day() {
        assert_eq!(parse_day("300G/day"), Ok(300 << 30));
        assert_eq!(parse_day("1.5 TB/day"), Ok(1_500_000_000_000));
        for wrong in ["300G", "300G/hour", "/day", "x/day", "300G/day/day", "-1G/day"] {
            assert!(parse_day(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("64K"), Ok(65536));
        assert_eq!(parse_size("64k"), Ok(65536));
        assert_eq!(parse_size("250M"), Ok(250 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("64 KiB"), Ok(65536));
        assert_eq!(parse_size("64ki"), Ok(65536));
        assert_eq!(parse_size("2GB"), Ok(2_000_000_000));
        assert_eq!(parse_size("250 MB"), Ok(250_000_000));
        assert_eq!(parse_size("1.5G"), Ok(3 << 29));
        assert_eq!(parse_size("1.5 KiB"), Ok(1536));
        assert_eq!(parse_size("1.00 kB"), Ok(1000));
        assert_eq!(parse_size("999 B"), Ok(999));
        assert_eq!(parse_size("0.3K"), Ok(307));
        assert_eq!(parse_size("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_size("18446744073709551616"), Err("too large for a size".into()));
        let long = "9".repeat(1000);
        for bad in [
            "",
            "K",
            "B",
            "-1",
            "+1",
            "1.5",
            "1.5 B",
            "1.G",
            ".5G",
            "1.2.3G",
            "12Q",
            "99999999999T",
            "1  G",
            "1 G ",
            " 1G",
            "1GiBB",
            "1IB",
            "1e3",
            "0x10",
            "1,5G",
            "1.0000000000G",
            "1G\n",
            "٣G",
            &long,
            &format!("{long}G"),
            &format!("1.{long}G"),
        ] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_that_are_shown_can_be_read() {
        for n in [
            0,
            1,
            999,
            1000,
            1023,
            1024,
            1536,
            65_536,
            999_499,
            999_500,
            15_680_159,
            250_000_000,
            256 << 20,
            6_000_000_000,
            5 << 40,
        ] {
            for shown in [bytes(n), binary(n)] {
                let read = parse_size(&shown).unwrap_or_else(|error| panic!("{shown}: {error}"));
                assert!(
                    read.abs_diff(n) as f64 <= 0.006 * n as f64,
                    "{n} is shown as {shown} and read as {read}"
                );
            }
        }
        for (n, shown) in [
            (0, "0"),
            (512 << 20, "512M"),
            (4 << 40, "4T"),
            (250_000_000, "250MB"),
            (1 << 16, "64K"),
            (1001, "1001"),
        ] {
            assert_eq!((&size(n)[..], parse_size(&size(n))), (shown, Ok(n)));
        }
        assert_eq!(parse_size(&binary(256 << 20)), Ok(256 << 20));
        assert_eq!(parse_size(&bytes(250_000_000)), Ok(250_000_000));
    }

    #[test]
    fn times_as_people_write_them() {
        assert_eq!(parse_time("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_time("2h"), Ok(Duration::from_secs(7200)));
        for ms in [0, 10, 1500, 60_000] {
            assert_eq!(parse_time(&time(Duration::from_millis(ms))), Ok(Duration::from_millis(ms)));
        }
        for bad in ["", "10", "s", "-1s", "1.5s", "10 s", "99999999999999999999h"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_and_prices_as_people_write_them() {
        assert_eq!(parse_rate("100Mbit"), Ok(100e6));
        assert_eq!(parse_rate("1.5Gbit/s"), Ok(1.5e9));
        assert_eq!(parse_rate("2.4 Gbit/s"), Ok(2.4e9));
        assert_eq!(parse_rate("512kbit"), Ok(512e3));
        assert_eq!(parse_price("0.09/GB"), Ok(0.09));
        assert_eq!(parse_price("90/TB"), Ok(0.09));
        assert_eq!(parse_price("$2"), Ok(2.0));
        assert_eq!(parse_money("$ 20000"), Ok(2e4));
        assert_eq!(parse_money("0"), Ok(0.0));
        for bad in ["", "$", "-1", "inf", "nan", "1/GB", "ten"] {
            assert!(parse_money(bad).is_err(), "{bad}");
        }
        for bad in ["", "100", "Mbit", "0Mbit", "-1Mbit", "1e5Mbit", "100MB"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
        for bad in ["", "/GB", "-1/GB", "1/PB", "x", "inf", "nan"] {
            assert!(parse_price(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_as_people_write_them() {
        let share = |text| parse_share(text).map(CpuShare::thousandths).map_err(drop);
        assert_eq!(share("25%"), Ok(250));
        assert_eq!(share("12.5 %"), Ok(125));
        assert_eq!(share("0.1%"), Ok(1));
        assert_eq!(share("6400%"), Ok(64_000));
        for bad in [
            "",
            "%",
            "25",
            "0%",
            "-1%",
            "6400.1%",
            "1.25%",
            "1.%",
            ".5%",
            "1e1%",
            "99999999999999%",
            "+5%",
        ] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentages_as_people_write_them() {
        assert_eq!(parse_percent("50%"), Ok(0.5));
        assert_eq!(parse_percent("0.1 %"), Ok(0.001));
        assert_eq!(parse_percent("0.25"), Ok(0.25));
        assert_eq!(parse_percent("100%"), Ok(1.0));
        for bad in ["", "%", "101%", "-1%", "nan", "inf%", "x"] {
            assert!(parse_percent(bad).is_err(), "{bad}");
        }
    }
}
