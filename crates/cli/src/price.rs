//! Money, without floating point: what is on an invoice must add up.

use oncewire_report::text::unprintable;
use std::fmt;
use std::str::FromStr;

/// Parts of a unit of money that are told apart.
const PARTS: u128 = 1_000_000_000;
/// Decimals of a price.
const DECIMALS: usize = 9;
/// Most digits before the point of a price.
const DIGITS: usize = 9;
/// Most characters of a currency.
const CURRENCY: usize = 8;

/// The price of traffic, such as `0.09/GB`, `$90/TB` or `0.08 EUR/GB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Price {
    /// As it was written.
    text: String,
    parts: u128,
    bytes: u64,
    before: String,
    after: String,
}

/// A text that is no price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotPrice;

impl fmt::Display for NotPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write a price of a MB, GB or TB, such as 0.09/GB, $90/TB or 0.08 EUR/GB")
    }
}

impl std::error::Error for NotPrice {}

impl FromStr for Price {
    type Err = NotPrice;

    fn from_str(text: &str) -> Result<Price, NotPrice> {
        let (amount, unit) = text.rsplit_once('/').unwrap_or((text, "GB"));
        let bytes = match unit.trim() {
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => return Err(NotPrice),
        };
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let first = amount.find(is_number).ok_or(NotPrice)?;
        let last = amount.rfind(is_number).ok_or(NotPrice)?;
        let currency = |text: &str| {
            let is_sign = |c: char| !unprintable(c) && !"-−+,/".contains(c);
            let fits = text.chars().count() <= CURRENCY && text.chars().all(is_sign);
            fits.then(|| text.to_owned()).ok_or(NotPrice)
        };
        let (before, after) =
            (currency(amount[..first].trim_start())?, currency(amount[last + 1..].trim_end())?);
        let number = &amount[first..=last];
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() > DIGITS
            || decimals.len() > DECIMALS
            || !is_digits(whole)
            || !is_digits(decimals)
            || whole.len() + decimals.len() == 0
        {
            return Err(NotPrice);
        }
        let parts = format!("{whole}{decimals:0<DECIMALS$}").parse().map_err(|_| NotPrice)?;
        Ok(Price { text: text.trim().to_owned(), parts, bytes, before, after })
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Price {
    /// What this many bytes cost, in billionths of the currency, rounded down. A negative number of
    /// bytes is what was lost.
    fn parts(&self, bytes: i128) -> i128 {
        let cost = bytes.unsigned_abs() * self.parts / u128::from(self.bytes);
        let cost = i128::try_from(cost).unwrap_or(i128::MAX);
        if bytes < 0 { -cost } else { cost }
    }

    /// What bytes cost, for people: two decimals, or four where two would be zeros.
    pub(crate) fn of(&self, bytes: i128) -> String {
        let parts = self.parts(bytes);
        let size = parts.unsigned_abs();
        let decimals: u32 = if size >= PARTS / 200 || size == 0 { 2 } else { 4 };
        let unit = PARTS / 10_u128.pow(decimals);
        let rounded = (size + unit / 2) / unit;
        let (less, rounded) = match rounded {
            0 if size > 0 => (if parts < 0 { "> " } else { "< " }, 1),
            rounded => ("", rounded),
        };
        let scale = 10_u128.pow(decimals);
        let whole = u64::try_from(rounded / scale)
            .map_or_else(|_| (rounded / scale).to_string(), oncewire_report::format::count_of);
        let sign = if parts < 0 { "−" } else { "" };
        let width = decimals as usize;
        format!("{less}{sign}{}{whole}.{:0width$}{}", self.before, rounded % scale, self.after)
    }

    /// What bytes cost, for programs: exact to a billionth, without the currency.
    pub(crate) fn exact(&self, bytes: i128) -> String {
        let parts = self.parts(bytes);
        let size = parts.unsigned_abs();
        let sign = if parts < 0 { "-" } else { "" };
        format!("{sign}{}.{:09}", size / PARTS, size % PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_as_people_write_them() {
        let gigabytes = |text: &str, bytes: i128| text.parse::<Price>().map(|one| one.of(bytes));
        let giga = 1_000_000_000;
        for (text, bytes, shown) in [
            ("0.09/GB", 1000 * giga, "90.00"),
            ("0.09", 1000 * giga, "90.00"),
            ("$90/TB", 12_345 * giga, "$1,111.05"),
            ("0.08 EUR/GB", 10 * giga, "0.80 EUR"),
            ("€ 2/MB", 3_000_000, "€ 6.00"),
            (".1/GB", -20 * giga, "−2.00"),
            // Floating point has 0.1 + 0.2, and 1.005 is less.
            ("1.005/GB", giga, "1.01"),
            ("0.3/GB", 3 * giga, "0.90"),
            ("0.09/GB", 1000, "< 0.0001"),
            ("$0.09/GB", -1000, "> −$0.0001"),
            ("0.09/GB", 55_000_000, "0.0050"),
            ("0.09/GB", 56_000_000, "0.01"),
            ("0.09/GB", 0, "0.00"),
            ("999999999/MB", u64::MAX.into(), "18446744055262807541290.45"),
        ] {
            assert_eq!(gigabytes(text, bytes), Ok(shown.into()), "{text}");
        }
        let long = format!("{}1/GB", "x".repeat(9));
        for wrong in [
            "",
            "/GB",
            "x/GB",
            "1/kB",
            "-1/GB",
            "1e3/GB",
            "1.2.3/GB",
            "1,5/GB",
            ".",
            &long,
            "1\u{1b}/GB",
            "1\u{202e}/GB",
            "1000000000/GB",
            "0.0000000001/GB",
            "NaN/GB",
            "1/GB/GB",
        ] {
            assert_eq!(gigabytes(wrong, 1), Err(NotPrice), "{wrong}");
        }
    }

    #[test]
    fn programs_get_every_digit() {
        let price: Price = "$0.09/GB".parse().unwrap();
        assert_eq!(price.exact(1), "0.000000000");
        assert_eq!(price.exact(123_456_789_012), "11.111111011");
        assert_eq!(price.exact(-500_000_000), "-0.045000000");
        assert_eq!(price.to_string(), "$0.09/GB");
    }
}
