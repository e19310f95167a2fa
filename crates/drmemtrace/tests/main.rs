//! All integration tests of the crate in one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod check;
mod check_rules;
mod cores;
mod damage;
mod edits;
mod fuzzing;
mod golden;
mod raise;
mod raw;
mod reading;
mod reshard;
mod rewriting;
mod schedule;
mod schedule_files;
mod workloads;
mod write;
mod write_folder;
mod write_random;
mod write_runs;
