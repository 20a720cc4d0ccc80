//! Quantities with units. A rate does not compile where a number of bytes is expected, nor an
//! amount per second where one per epoch is.
//!
//! They are the types of settings and of arguments. Sums over millions of paths inside the solver
//! are bare numbers, in the units that their documentation gives.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Defines a quantity over `f64`.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        /// The number alone.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

quantity! {
    /// A number of bytes, which a mean or a share may make a fraction.
    Bytes
}

quantity! {
    /// A rate in bit/s.
    BitRate
}

quantity! {
    /// Events per second.
    PerSecond
}

quantity! {
    /// A time in seconds, within a run or as a length.
    Seconds
}

impl Bytes {
    /// How long these take at `rate`.
    pub fn at(self, rate: BitRate) -> Seconds {
        Seconds(self.0 * 8.0 / rate.0)
    }
}

impl BitRate {
    /// What it carries in `time`.
    pub fn during(self, time: Seconds) -> Bytes {
        Bytes(self.0 * time.0 / 8.0)
    }
}

impl PerSecond {
    /// The number of events in `time`.
    pub fn during(self, time: Seconds) -> f64 {
        self.0 * time.0
    }
}

#[cfg(test)]
mod tests {
    use super::{BitRate, Bytes, PerSecond, Seconds};

    #[test]
    fn rates_are_in_bits_and_sizes_in_bytes() {
        assert_eq!(Bytes(3e9).at(BitRate(2.4e9)), Seconds(10.0));
        assert_eq!(BitRate(2.4e9).during(Seconds(10.0)), Bytes(3e9));
        assert_eq!(PerSecond(2.5e6).during(Seconds(10.0)), 2.5e7);
    }
}
