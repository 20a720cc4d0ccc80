//! The value of a test result: the integral of the benefit over links.

/// `beta(w)` (Martynov, section 5): the benefit for a link of rate `link` of an encoder that saves
/// the share `savings` of the bytes and processes at most `throughput`. All rates have the same
/// unit. It is `(T(w) - w) / w` with `T(w) = min(throughput, w / (1 - savings))`.
///
/// 1 means twice the effective throughput. Below 0, the link is slower with the encoder than
/// without it.
pub fn benefit(savings: f64, throughput: f64, link: f64) -> f64 {
    // Nothing remains to be sent, so only the encoder limits the rate.
    let effective =
        if savings >= 1.0 { throughput } else { throughput.min(link / (1.0 - savings)) };
    (effective - link) / link
}

/// The integral of [`benefit`] over links from `slowest` (above 0) to `throughput`, in the unit of
/// the rates. 0 if the encoder is not faster than the slowest link. Savings are at most 1; below 0,
/// where encoding adds bytes, the value is negative.
///
/// With `r` the savings, `T` the throughput and `a` the slowest link, the encoder limits links
/// above `k = T (1 - r)`. Below `k` the benefit is `r / (1 - r)`, above it `T / w - 1`. So the
/// value is
///
/// - `-T ln(1 - r) - a r / (1 - r)`, if `0 <= r` and `a <= k`;
/// - `T ln(T / a) - (T - a)`, if `a > k`, also where `r` is 1;
/// - `(T - a) r / (1 - r)`, if `r < 0`: then `k` is above `T`.
pub fn value(savings: f64, throughput: f64, slowest: f64) -> f64 {
    if throughput <= slowest {
        return 0.0;
    }
    let knee = throughput * (1.0 - savings);
    if savings < 0.0 {
        (throughput - slowest) * savings / (1.0 - savings)
    } else if slowest <= knee {
        -throughput * (-savings).ln_1p() - slowest * savings / (1.0 - savings)
    } else {
        throughput * (throughput / slowest).ln() - (throughput - slowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The integral by the midpoint rule, over intervals of equal ratio.
    fn numeric(savings: f64, throughput: f64, slowest: f64) -> f64 {
        if throughput <= slowest {
            return 0.0;
        }
        let (steps, range) = (20_000, (throughput / slowest).ln());
        let at = |step: f64| slowest * (range * step / f64::from(steps)).exp();
        (0..steps)
            .map(|step| {
                let step = f64::from(step);
                benefit(savings, throughput, at(step + 0.5)) * (at(step + 1.0) - at(step))
            })
            .sum()
    }

    #[test]
    fn cases_by_hand() {
        // Half saved: 1 up to 50, then 100 / w - 1.
        let ln2 = std::f64::consts::LN_2;
        assert!((value(0.5, 100.0, 10.0) - (40.0 + 100.0 * ln2 - 50.0)).abs() < 1e-9);
        assert_eq!(value(0.0, 100.0, 1.0), 0.0);
        assert_eq!(value(0.9, 1.0, 1.0), 0.0, "no link is slow enough");
        assert_eq!(value(0.9, 0.5, 1.0), 0.0);
        // Everything saved: the encoder limits every link.
        assert!((value(1.0, 100.0, 1.0) - (100.0 * 100f64.ln() - 99.0)).abs() < 1e-9);
        // Encoding that doubles the bytes halves the throughput of every link.
        assert!((value(-1.0, 11.0, 1.0) + 5.0).abs() < 1e-9);
        assert_eq!(benefit(1.0, 100.0, 50.0), 1.0);
        assert_eq!(benefit(0.75, 100.0, 10.0), 3.0);
        assert_eq!(benefit(0.75, 100.0, 200.0), -0.5);
    }

    proptest! {
        #[test]
        fn the_closed_form_equals_the_integral(savings in -1.0..1.0f64, throughput in 0.1..5000.0f64, slowest in 0.01..100.0f64) {
            let (exact, numeric) = (value(savings, throughput, slowest), numeric(savings, throughput, slowest));
            prop_assert!((exact - numeric).abs() <= 1e-3 * (1.0 + exact.abs()), "{} {}", exact, numeric);
        }

        #[test]
        fn more_savings_and_more_speed_are_worth_more(savings in 0.0..0.99f64, throughput in 1.0..5000.0f64) {
            let base = value(savings, throughput, 0.256);
            prop_assert!(value(savings + 0.01, throughput, 0.256) >= base - 1e-9);
            prop_assert!(value(savings, throughput * 1.1, 0.256) >= base - 1e-9);
        }
    }
}
