//! Memory shared by a traced process and a recorder: a ring of 64-bit words for each thread.
//!
//! ```text
//! page 0          Head: what it is, how large, whether the recorder still listens
//! then            SlotHead × n_slots: who writes, how far, how far it was read (a cache line for each side)
//! then            ring_words × 8 bytes × n_slots: the words
//! ```
//!
//! The [`Shared`] memory is an unnamed file of the recorder, which traced processes open by a path. A thread *claims* a slot
//! and is its only [`Producer`]; the recorder reads it as its only [`Consumer`]. Published words can be read even after the
//! producer was killed. A full ring makes the producer wait; once the recorder has closed or died, producers continue without
//! recording.
//!
//! The words may be followed by a heap, in which all producers intern names ([`Heap`]).
//!
//! Each front end defines the meaning of the words; see [`qemu`] for the emulator's plugin and [`prism`] for workload events.
//! Once the memory is mapped, nothing here allocates or takes a lock, so it can be used in signal handlers and inside
//! `malloc`.

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
