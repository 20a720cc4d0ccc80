//! The tunnel, both ends in this process, on real sockets.

mod flows;
mod pair;
