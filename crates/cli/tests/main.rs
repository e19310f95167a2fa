//! All tests of the crate from outside: one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod absurd;
mod apitrace;
mod browser;
mod cacheray;
mod carried;
mod conversions;
mod damage;
mod dtrace;
mod edits;
mod facts;
mod faults;
mod forced;
mod golden;
mod growing;
mod instrumented;
mod launcher;
mod layout;
mod limits;
mod losses;
mod machine;
mod outputs;
mod page;
mod plaintext;
mod prism;
mod quotients;
mod record;
mod signals;
mod stories;
mod streams;
mod terminal;
mod tools;
mod tutorial;
mod work;
mod written;
