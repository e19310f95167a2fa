//! Traces of memory accesses as lines of text: what Valgrind's tool lackey prints, and what the simulator Dinero reads.
//!
//! [`LACKEY`] and [`DIN`] are the formats as the rest of Quipu sees them; both are read only. How lines are read, printed and
//! checked is [`quipu_records::lines`]; here is what tells the formats apart:
//!
//! | file | what |
//! |---|---|
//! | [`lackey`], [`din`] | the lines of each format: which there are, how they read, how a file is recognised |
//! | [`table`] | records as rows |
//! | [`rules`] | the rules that a trace must follow |
//!
//! The formats are described in docs/formats/lackey.md and docs/formats/din.md.

pub mod din;
pub mod lackey;
pub mod rules;
pub mod table;

use quipu_records::lines::LineFormat;

/// What Valgrind's lackey prints with `--trace-mem=yes`.
pub static LACKEY: LineFormat = LineFormat {
    language: &lackey::LANGUAGE,
    recognise: lackey::recognise,
    adapt: lackey::adapt,
    tools: &[&lackey::CHECK],
};

/// What Dinero reads: labels and addresses.
pub static DIN: LineFormat = LineFormat {
    language: &din::LANGUAGE,
    recognise: din::recognise,
    adapt: din::adapt,
    tools: &[&din::CHECK],
};
