//! Buffers of all partitions.

mod cuckoo;

pub(crate) use cuckoo::{Buffers, NoPlace, used};
