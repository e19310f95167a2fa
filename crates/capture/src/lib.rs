//! Recording programs: what they execute and access, written as a trace while they run.
//!
//! A front end is a folder that knows one way to watch a program; [`record`] has what they share: the [`record::Job`],
//! the [`record::Summary`]. An emulated program never writes files: it fills memory that it shares with the recorder
//! (`quipu-ring`), so that nothing is lost that had come so far when it is killed, and compressing takes none of its time.
//!
//! | file | what |
//! |---|---|
//! | [`qemu`] | every instruction of an unmodified program, under an emulator |
//! | [`dynamorio`] | DynamoRIO's tracer and converter, where they are installed |
//! | [`tsan`] | what programs leave that were compiled with instrumentation; compilers for them |
//! | [`lackey`] | instructions and accesses of one thread, by Valgrind |
//! | [`program`] | which file a command line means, and for which machine it is |
//! | [`limits`] | how much is recorded |
//! | [`signals`] | what asks the recorder itself to end |
//! | `child` | the program as a child: its signals, its end |
//! | `library` | where the libraries are that traced processes load |

mod child;
pub mod dynamorio;
pub mod events;
pub mod lackey;
mod library;
pub mod limits;
pub mod program;
pub mod qemu;
pub mod record;
pub mod signals;
pub mod tsan;
