//! Typed indices. A number of a node does not compile where one of a link is expected.

use std::{
    fmt,
    ops::{Index, IndexMut},
};

use serde::{Deserialize, Serialize};

/// Defines an index type over `u32`. Vectors and slices can be indexed with it; the index panics if
/// it is out of range, as any other does.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id of the element at `index` of its list.
            ///
            /// # Panics
            /// In debug builds, if `index` does not fit a `u32`. Lists in this crate are shorter.
            #[inline]
            pub fn new(index: usize) -> Self {
                debug_assert!(u32::try_from(index).is_ok());
                Self(index as u32)
            }

            /// Index in its list.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// All ids from 0, to be zipped with the list.
            pub fn all() -> impl Iterator<Item = Self> + Clone {
                (0..=u32::MAX).map(Self)
            }

            /// The ids of a list with `count` elements.
            pub fn first(
                count: usize,
            ) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
                (0..count).map(Self::new)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl<T> Index<$name> for [T] {
            type Output = T;

            #[inline]
            fn index(&self, id: $name) -> &T {
                &self[id.index()]
            }
        }

        impl<T> IndexMut<$name> for [T] {
            #[inline]
            fn index_mut(&mut self, id: $name) -> &mut T {
                &mut self[id.index()]
            }
        }

        impl<T> Index<$name> for Vec<T> {
            type Output = T;

            #[inline]
            fn index(&self, id: $name) -> &T {
                &self[id.index()]
            }
        }

        impl<T> IndexMut<$name> for Vec<T> {
            #[inline]
            fn index_mut(&mut self, id: $name) -> &mut T {
                &mut self[id.index()]
            }
        }
    };
}

id! {
    /// Index of a node in [`Network::nodes`](crate::Network::nodes).
    NodeId
}

id! {
    /// Index of a link in [`Network::links`](crate::Network::links).
    LinkId
}

id! {
    /// Index of a device in [`Instance::devices`](crate::Instance::devices), and of the same device
    /// in the plans and manifests of that instance.
    DeviceId
}

id! {
    /// A path's number in a plan, as shim headers carry it. It stays with the path from plan to
    /// plan, so it is not the path's index in an instance.
    PathId
}

id! {
    /// A packet's header hash (`docs/PLANNERS.md`, "Header hash"). Ranges of hashes have ends up to
    /// [`SPACE`](crate::manifest::SPACE), which is not a hash.
    HeaderHash
}

impl From<HeaderHash> for u64 {
    fn from(hash: HeaderHash) -> Self {
        hash.0.into()
    }
}
