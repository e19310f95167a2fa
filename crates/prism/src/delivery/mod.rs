//! Delivery of events from other processes, through shared memory.
//!
//! A front end runs in another process than the analysis. There are two ways of delivery between them, and both end in a
//! [`Sink`](crate::hooks::Sink):
//!
//! | module | contents |
//! |---|---|
//! | [`receiver`] | our own: a ring for each producer in one file, through `quipu-ring`, which has the producers' side |
//! | [`core`] | Prism's: the core's side of eight buffers and two FIFOs for each channel |
//! | [`folder`] | the folder of either, private to the user; removes those of killed processes |
//! | [`fault`] | faults in the data of another process, and their places |
//!
//! No data from another process can crash this one: they are copied before they are read, and a file that is truncated
//! causes an error.
//!
//! SPEC: prism.md#delivery

mod chunk;
pub mod core;
pub mod fault;
pub mod folder;
pub mod receiver;

pub use self::core::Core;
pub use fault::{Fault, Wrong};
/// The producers' side of our own delivery.
pub use quipu_ring::prism as producer;
pub use receiver::Receiver;
