//! Runs every case of every enabled family: prints and checks it as its files say, recognises it by content, and reads it in
//! several ways with equal results, damaged or not.

use quipu::model::{OpenOptions, Trace};
use quipu::source::Source;
use quipu_testkit::{cases, fuzz};
use std::fs;
use std::path::PathBuf;

/// Number of places of an input that are damaged.
const N_PLACES: usize = 16;

/// Calls `body` with each case and its format.
fn each_case(body: impl Fn(&'static dyn quipu::model::Format, PathBuf)) -> usize {
    let of = |format: &&'static dyn quipu::model::Format| cases::inputs(format.info().name);
    let all: Vec<_> = quipu::FORMATS
        .iter()
        .flat_map(|format| of(format).into_iter().map(move |input| (*format, input)))
        .collect();
    let n_cases = all.len();
    all.into_iter().for_each(|(format, input)| body(format, input));
    n_cases
}

#[test]
fn every_case_is_printed_and_checked_as_its_files_say() {
    let n_cases = each_case(|format, input| cases::holds(format, &input));
    assert!(n_cases > 0 || !cfg!(feature = "plaintext"), "there are no cases");
}

#[test]
fn every_sound_case_is_recognised() {
    each_case(|format, input| {
        if cases::is_sound(&input) {
            let trace: Box<dyn Trace> = quipu::open_path(&input, &OpenOptions::default())
                .unwrap_or_else(|error| panic!("{}: {error}", input.display()));
            assert_eq!(trace.meta().format, format.info().name, "{}", input.display());
            let tools = quipu::tools_of(format.info().name).map(|tool| tool.info().name);
            assert!(tools.collect::<Vec<_>>().contains(&"check"), "{}", format.info().name);
        }
    });
}

#[test]
fn every_case_is_read_the_same_in_every_way_also_where_it_is_damaged() {
    each_case(|format, input| {
        let whole = fs::read(&input).unwrap();
        fuzz::format(format, &whole);
        for nth in 0..N_PLACES {
            let at = whole.len() * nth / N_PLACES;
            fuzz::format(format, &whole[..at]);
            let mut changed = whole.clone();
            if let Some(byte) = changed.get_mut(at) {
                *byte ^= 0x20;
            }
            fuzz::format(format, &changed);
        }
    });
}

#[test]
fn every_format_can_be_asked_for_by_its_name() {
    for format in quipu::FORMATS {
        let named = quipu::format_named(format.info().name).unwrap();
        assert_eq!(named.info().name, format.info().name);
    }
    let source = Source::from_bytes("none", b"none of all".as_slice());
    assert!(quipu::open(&source, &OpenOptions::default()).is_err());
}
