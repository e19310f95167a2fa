//! Traces of memory accesses as lines of text: the output of Valgrind's tool lackey, and the input of the simulator Dinero.
//!
//! [`LACKEY`] and [`DIN`] are the formats as the rest of Quipu sees them; both are read only. [`quipu_records::lines`] reads,
//! prints and checks lines; this crate contains the differences between the formats:
//!
//! | file | what |
//! |---|---|
//! | [`lackey`], [`din`] | the lines of each format: kinds, parsing, and recognising a file |
//! | [`table`] | records as rows |
//! | [`rules`] | the rules that a trace must follow |
//!
//! The formats are described in docs/formats/lackey.md and docs/formats/din.md.

pub mod din;
pub mod lackey;
pub mod rules;
pub mod table;

use quipu_records::lines::LineFormat;

/// The output of Valgrind's lackey with `--trace-mem=yes`.
pub static LACKEY: LineFormat = LineFormat {
    language: &lackey::LANGUAGE,
    recognise: lackey::recognise,
    adapt: lackey::adapt,
    tools: &[&lackey::CHECK],
};

/// The input of Dinero: labels and addresses.
pub static DIN: LineFormat = LineFormat {
    language: &din::LANGUAGE,
    recognise: din::recognise,
    adapt: din::adapt,
    tools: &[&din::CHECK],
};
