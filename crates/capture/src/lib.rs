//! Records programs: their instructions and memory accesses, written to a trace while they run.
//!
//! Each front end is a folder that implements one way to record; [`record`] contains the types that they share: the
//! [`record::Job`] and the [`record::Summary`]. An emulated program never writes files: it fills memory that it shares with
//! the recorder (`quipu-ring`). So nothing written before it is killed is lost, and compression takes none of its time.
//!
//! | file | what |
//! |---|---|
//! | [`qemu`] | every instruction of an unmodified program, under an emulator |
//! | [`dynamorio`] | DynamoRIO's tracer and converter, if they are installed |
//! | [`tsan`] | recordings of programs compiled with instrumentation; compilers for them |
//! | [`lackey`] | instructions and accesses of one thread, by Valgrind |
//! | [`program`] | the file that a command line runs, and its architecture |
//! | [`limits`] | the part of the execution to record |
//! | [`signals`] | signals that ask the recorder itself to end |
//! | `child` | the program as a child process: signals, exit status |
//! | `switch` | turning recording on and off by time and by a signal |
//! | `library` | search for the libraries loaded into traced processes |

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
mod switch;
pub mod tsan;
