//! The instruction set of the kernels, as a value.

use std::fmt;

/// An instruction-set level. Ordered: a later level includes the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust, on every machine. The other levels are tested against it.
    Portable,
    /// `x86_64` with AVX2, and BMI1, BMI2, LZCNT and POPCNT, which every processor with AVX2 of
    /// Intel and AMD has.
    Avx2,
    /// `x86_64` with AVX-512 F, BW and VL (and AVX2).
    Avx512,
}

impl Level {
    /// All levels, lowest first, whether or not this machine has them.
    pub const ALL: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    /// Lower-case name, as printed by the program and accepted in its configuration.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    fn present(self) -> bool {
        match self {
            Level::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                std::is_x86_feature_detected!("avx2")
                    && std::is_x86_feature_detected!("bmi1")
                    && std::is_x86_feature_detected!("bmi2")
                    && std::is_x86_feature_detected!("lzcnt")
                    && std::is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                Level::Avx2.present()
                    && std::is_x86_feature_detected!("avx512f")
                    && std::is_x86_feature_detected!("avx512bw")
                    && std::is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The chosen kernels. A value proves that the machine can run its level, which makes the dispatch
/// in this crate sound: the field is private and only set after the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernels {
    level: Level,
}

impl Kernels {
    /// The best level of this machine.
    pub fn detect() -> Kernels {
        let level = Level::ALL.into_iter().rev().find(|level| level.present());
        Kernels { level: level.unwrap_or(Level::Portable) }
    }

    /// The kernels of exactly this level, or `None` where the machine lacks it.
    pub fn at(level: Level) -> Option<Kernels> {
        level.present().then_some(Kernels { level })
    }

    /// Every level that this machine has, lowest first.
    pub fn available() -> impl Iterator<Item = Kernels> {
        Level::ALL.into_iter().filter_map(Kernels::at)
    }

    /// Which level these kernels use.
    pub fn level(self) -> Level {
        self.level
    }
}

impl Default for Kernels {
    fn default() -> Self {
        Kernels::detect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_portable_level_is_always_there_and_detect_is_the_best() {
        let all: Vec<_> = Kernels::available().collect();
        assert_eq!(all[0].level(), Level::Portable);
        assert_eq!(*all.last().unwrap(), Kernels::detect());
    }
}
