//! The atomics and locks that the structures are made of: those of loom in its tests, else the real ones.

#[cfg(loom)]
#[allow(unused_imports, reason = "not every structure needs all of them")]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
};

#[cfg(not(loom))]
#[allow(unused_imports, reason = "not every structure needs all of them")]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
};
