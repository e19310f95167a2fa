//! Memory that a traced process fills and a recorder empties: a ring of 64-bit words for each thread.
//!
//! ```text
//! page 0          Head: what it is, how large, whether the recorder still listens
//! then            SlotHead × n_slots: who writes, how far, how far it was read (a cache line for each side)
//! then            ring_words × 8 bytes × n_slots: the words
//! ```
//!
//! The [`Shared`] memory is a nameless file of the recorder, which traced processes reach by a path. A thread *claims* a
//! slot and is its only [`Producer`]; the recorder reads it as its only [`Consumer`]. What was published is in the memory
//! of both: it can be read after the producer was killed. A full ring makes the producer wait; when the recorder has
//! closed, or is no more, producers go on without recording.
//!
//! A heap of names may follow the words, where all producers intern names ([`Heap`]).
//!
//! What the words mean is a matter of each front end; those of the emulator's plugin are in [`qemu`], those of workload
//! events in [`prism`]. Nothing here allocates or takes a lock once the memory is mapped, so that it can be used in signal
//! handlers and below `malloc`.

#[cfg(not(loom))]
pub mod fifo;
mod heap;
mod layout;
#[cfg(not(loom))]
pub mod life;
#[cfg(not(loom))]
mod map;
#[cfg(loom)]
#[path = "modelled.rs"]
mod map;
#[cfg(not(loom))]
pub mod prism;
#[cfg(not(loom))]
pub mod qemu;
mod sides;
mod sync;

pub use heap::{BadName, Heap, MAX_NAME};
pub use layout::{NOTE_WORDS, Shape};
pub use map::Shared;
pub use sides::{BadGroup, Claim, Consumer, Producer, SlotState};
