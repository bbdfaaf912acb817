//! From a transport of any type to a job on it.

use super::{Job, Setup};
use crate::common::blocking::{Blocking, Synchronous};
use crate::common::gpufile::{self, Batches};
use crate::common::transport::Transport;
use crate::fio::Running;

/// What a job is made on. Blocking calls and batches have job types of their own, into which they are inlined; all others share one.
pub trait Way: Transport {
    /// Whether every operation ends in submit() or go_on(), so that none is ever in flight.
    const IS_SYNCHRONOUS: bool;
}

impl<B: Blocking> Way for Synchronous<B> {
    const IS_SYNCHRONOUS: bool = true;
}

impl<V: gpufile::Vendor> Way for Batches<V> {
    const IS_SYNCHRONOUS: bool = false;
}

impl Way for Box<dyn Transport> {
    const IS_SYNCHRONOUS: bool = false;
}

/// A way whose type is forgotten until its job is made.
pub trait Unstarted {
    fn is_synchronous(&self) -> bool;

    fn start(self: Box<Self>, setup: Setup) -> Box<dyn Running>;
}

impl<T: Way + 'static> Unstarted for T {
    fn is_synchronous(&self) -> bool {
        T::IS_SYNCHRONOUS
    }

    fn start(self: Box<Self>, setup: Setup) -> Box<dyn Running> {
        Box::new(Job::new(*self, setup))
    }
}
