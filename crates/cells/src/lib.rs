//! Cells: the recording format of programs that record themselves, as frames of a stream.
//!
//! The recorded program maps the file, so nothing is lost when it is killed: the contents of a buffer are in the file. This
//! crate deals with numbers and bytes only: no files, no maps, no threads. It is linked into the recorded program, so it has
//! no dependencies, and allocates only where documented.
//!
//! | file | what |
//! |---|---|
//! | [`layout`] | offsets and sizes of frames, of the room in a buffer, and of the rows of the process |
//! | [`checksum`] | CRC-32C, also while compiling |
//! | [`describe`] | the metadata of a recording: a constant, and the few records that each process and thread adds |
//! | [`cell`] | the cell of 16 bytes, the unit of writing, and its kinds |
//! | [`event`] | cells ⇄ events |
//! | [`pack`] | cells ⇄ fewer bytes, by predicting them |
//! | [`whole`] | recordings in memory, for tests |
//!
//! The format is described in docs/formats/stream.md.

pub mod cell;
pub mod checksum;
pub mod describe;
pub mod event;
pub mod layout;
pub mod pack;
pub mod whole;
