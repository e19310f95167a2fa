//! Manual pages, one for each verb, generated from the definition of the command line.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Writes the pages into `folder`.
pub(crate) fn write(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    clap_mangen::generate_to(quipu_cli::command(), folder).with_context(|| folder.display().to_string())?;
    println!("{}", folder.display());
    Ok(())
}
