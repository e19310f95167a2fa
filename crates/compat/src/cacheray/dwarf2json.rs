//! `dwarf2json [--original] BINARY…`: writes the types of each program to `NAME.dwarf.json` next to it, NAME being the part
//! before the first dot.
//!
//! Writes all types with their true sizes; with `--original`, it writes those that Cacheray writes, with its faults.

use quipu::model::Error;
use quipu::model::fresh::{self, Replace};
use quipu::source::Reading;
use quipu::symbols::dwarf::{DebugError, DebugInfo};
use quipu::symbols::extract::{Compat, types_file};
use quipu_console::screen::{Outcome, Result};
use std::path::{Path, PathBuf};

pub(super) const HELP: &str = "\
Usage: quipu as cacheray dwarf2json [--original] BINARY...

Writes the types in the debug information of each program to NAME.dwarf.json next to it, where NAME is
the program's name up to its first dot.

  --original  write only the types that Cacheray's extractor writes, with its faults
";

pub(super) fn run(args: &[String]) -> Result<Outcome> {
    let mut compat = Compat::Right;
    let mut programs = Vec::new();
    for arg in args {
        match arg.as_str() {
            "--original" => compat = Compat::Original,
            option if option.starts_with('-') => {
                return Err(Error::usage(format!("`dwarf2json` has no option `{option}`"))
                    .hint("dwarf2json [--original] BINARY")
                    .into());
            }
            program => programs.push(Path::new(program)),
        }
    }
    if programs.is_empty() {
        return Err(Error::usage("no program is given").hint("dwarf2json BINARY").into());
    }
    for program in programs {
        let damaged = |error: DebugError| {
            // The message already begins with the file.
            let plain = DebugError { file: None, ..error };
            Error::malformed(plain.to_string()).in_file(program.display().to_string())
        };
        Reading::keep(program);
        let info = DebugInfo::open(program).map_err(damaged)?;
        let file = types_file(&info, compat).map_err(damaged)?;
        let target = target(program);
        fresh::put(&target, file.text().as_bytes(), Replace::Allowed)?;
    }
    Ok(Outcome::Fine)
}

/// Path of the types file for a program.
fn target(program: &Path) -> PathBuf {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').next().unwrap_or_default();
    program.with_file_name(format!("{stem}.dwarf.json"))
}
