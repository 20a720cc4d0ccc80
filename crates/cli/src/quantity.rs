//! Sizes as people write them, and as people read them.

use oncewire_codec::adapt::CpuShare;
use std::time::Duration;

/// Most digits of a size behind its point: more would not tell bytes apart.
const SIZE_DIGITS: usize = 9;

/// Reads `65536`, `64K`, `64 KiB`, `1.5G` (powers of 1,024) and `250 MB`, `3GB` (powers of 1,000), up to P: whatever [`bytes`] and
/// [`binary`] write, and what people do. Upper and lower case are the same. A fraction is rounded to whole bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || "not a size: write a number and a unit, such as 256M or 256MiB (2^20 bytes), 1.5G, or 250MB (10^6 bytes)".to_string();
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
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || fraction.is_some_and(|fraction| !digits(fraction) || fraction.len() > SIZE_DIGITS || scale == 1) {
        return Err(wrong());
    }
    let fraction = fraction.unwrap_or_default();
    let unit = 10u128.pow(fraction.len() as u32);
    let number = format!("{whole}{fraction}").parse::<u128>().ok();
    let size = number.and_then(|number| number.checked_mul(scale)).and_then(|size| size.checked_add(unit / 2));
    size.and_then(|size| u64::try_from(size / unit).ok()).ok_or_else(|| "too large for a size".to_string())
}

/// Reads `10ms`, `30s`, `5m`, `2h`.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "not a time: write a number and a unit such as 10ms, 30s or 5m".to_string())?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err("not a time: its unit is ms, s, m or h, such as 10ms, 30s or 5m".into()),
    };
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(|| "too long for a time".to_string())
}

/// Reads `100Mbit`, `1.5 Gbit/s`, `512kbit`: bits per second, with decimal prefixes.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let wrong = || "not a rate: write a number and a unit such as 512kbit, 100Mbit or 1Gbit".to_string();
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
    let price = number.trim_start_matches(['$', '€', '£']).parse::<f64>().map_err(|_| wrong())? * scale;
    if price >= 0.0 && price.is_finite() { Ok(price) } else { Err(wrong()) }
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
    let thousandths = format!("{whole}{tenth}").parse().ok().and_then(|share| CpuShare::from_thousandths(share).ok());
    thousandths.ok_or_else(|| format!("out of range: use 0.1% to {}%", CpuShare::MAX / 10))
}

/// Reads `50%`, `0.1%`, or `0.5`: a share of a whole.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number.trim_end(), 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / scale).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "not a share: write a percentage from 0% to 100%".into())
}

/// Bytes with three significant digits and a decimal unit: `15.7 MB`.
pub(crate) fn bytes(n: u64) -> String {
    scaled(n as f64, "B")
}

/// Bytes per second.
pub(crate) fn rate(bytes: u64, time: Duration) -> String {
    if time.is_zero() { "-".into() } else { scaled(bytes as f64 / time.as_secs_f64(), "B/s") }
}

/// Memory and cache sizes, which are set in powers of 1,024: `256 MiB`.
pub(crate) fn binary(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit < units.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() < 0.05 { format!("{value:.0} {}", units[unit]) } else { format!("{value:.1} {}", units[unit]) }
}

fn scaled(mut value: f64, unit: &str) -> String {
    let prefixes = ["", "k", "M", "G", "T", "P"];
    let mut prefix = 0;
    while value >= 999.5 && prefix < prefixes.len() - 1 {
        value /= 1000.0;
        prefix += 1;
    }
    let digits = if prefix == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {}{unit}", prefixes[prefix])
}

/// `part` saved of `whole` in percent: 1 - bytes on the wire / bytes without. Never rounded up to a full 100.
pub(crate) fn savings(wire: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    let percent = 100.0 * (1.0 - wire as f64 / whole as f64);
    if percent < -100.0 {
        // A handful of bytes, and the cost of a session.
        return "< -100 %".into();
    }
    // More digits where they matter: 99.97 %, but 12.3 %.
    if percent >= 99.0 { format!("{:.2} %", (percent * 100.0).floor() / 100.0) } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                assert!(read.abs_diff(n) as f64 <= 0.006 * n as f64, "{n} is shown as {shown} and read as {read}");
            }
        }
        assert_eq!(parse_size(&binary(256 << 20)), Ok(256 << 20));
        assert_eq!(parse_size(&bytes(250_000_000)), Ok(250_000_000));
    }

    #[test]
    fn times_as_people_write_them() {
        assert_eq!(parse_time("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_time("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_time("2h"), Ok(Duration::from_secs(7200)));
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
        for bad in ["", "%", "25", "0%", "-1%", "6400.1%", "1.25%", "1.%", ".5%", "1e1%", "99999999999999%", "+5%"] {
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

    #[test]
    fn quantities_as_people_read_them() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "1.00 kB");
        assert_eq!(bytes(15_680_159), "15.7 MB");
        assert_eq!(bytes(999_700), "1.00 MB");
        assert_eq!(binary(256 << 20), "256 MiB");
        assert_eq!(binary(1536), "1.5 KiB");
        assert_eq!(savings(1, 100_000), "99.99 %");
        assert_eq!(savings(50, 100), "50.0 %");
        assert_eq!(savings(101, 100), "-1.0 %");
        assert_eq!(savings(0, 0), "-");
        assert_eq!(savings(500, 100), "< -100 %");
    }
}
