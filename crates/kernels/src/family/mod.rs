//! Kernels that serve only the published algorithms of `oncewire-family`: a tunnel runs none of
//! them.
//!
//! Their searches are methods of [`Kernels`](crate::Kernels), too: [`modp`](crate::Kernels::modp),
//! [`maxp`](crate::Kernels::maxp), [`peaks`](crate::Kernels::peaks),
//! [`gear`](crate::Kernels::gear), [`fast_cdc`](crate::Kernels::fast_cdc) and
//! [`names`](crate::Kernels::names).

mod gear;
mod maxp;
mod names;
mod rabin;
mod rolling;

pub use gear::ChunkSizes;
pub use names::{Chunk, Name, NameKey};
pub use rabin::{RABIN_POLYNOMIAL, greatest_rabin_fingerprint, rabin_fingerprint};
