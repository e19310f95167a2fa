//! `quipu new-tool`: a crate, or a file of C, that `quipu run --tool` loads.

use quipu::model::Error;
use quipu::model::fresh::{Fresh, Replace, cannot};
use quipu_console::screen::{Outcome, Result, Screen};
use std::fs;
use std::path::{Path, PathBuf};

/// Generate a tool for `quipu run --tool` that compiles and runs
///
/// Writes a folder with a Rust crate, or a C file with its header: a tool that counts the bytes that each thread loads and
/// stores, as a starting point. The crate depends on the `quipu-hooks` that this program was built with.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Folder to create; its name is that of the tool
    #[arg(value_name = "NAME")]
    path: PathBuf,
    /// Language: rust or c
    #[arg(long, value_name = "LANGUAGE", default_value = "rust", ignore_case = true)]
    language: Language,
    /// Source of `quipu-hooks`: a folder, or a repository URL, used at the revision of this program; by default the folder
    /// that this program was built from
    #[arg(long, value_name = "WHERE")]
    hooks: Option<String>,
}

/// Language of a generated tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Language {
    Rust,
    C,
}

const AFTER_HELP: &str = "\
Examples:
  quipu new-tool mine && cd mine && cargo test && cargo build --release
  quipu run --tool mine/target/release/libmine.so trace.dir
  quipu new-tool --language c mine && make -C mine

Exit codes:
  0  done
  2  could not do it; nothing was written";

/// Folder of the crate that this program was built with.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hooks");
/// Revision that this program was built from, if the build set it.
const REVISION: Option<&str> = option_env!("QUIPU_REVISION");

const MANIFEST: &str = include_str!("new_tool/Cargo.toml.in");
const CRATE: &str = include_str!("new_tool/lib.rs.in");
const SOURCE: &str = include_str!("new_tool/tool.c.in");
const MAKEFILE: &str = include_str!("new_tool/Makefile.in");
const HEADER: &str = include_str!("../../../hooks/include/quipu_tool.h");

/// The name of a tool, which has to be a valid crate name.
fn name_of(path: &Path) -> Result<String, Error> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(is_plain) {
        return Ok(name);
    }
    Err(Error::usage(format!("`{name}` cannot be the name of a tool"))
        .hint("a letter, then letters, digits, `-` and `_`"))
}

/// The name of a tool's type: `my-own` becomes `MyOwnTool`. The suffix avoids keywords and imported names.
fn type_of(name: &str) -> String {
    let words = name.split(['-', '_']).filter(|word| !word.is_empty());
    let capital = words.map(|word| {
        let (first, rest) = word.split_at(1); // Names are ASCII.
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    capital.chain(["Tool".to_owned()]).collect()
}

/// The dependency on the crate of hooks, as written in a manifest.
fn dependency(given: Option<&str>) -> Result<String, Error> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let given = given.unwrap_or(BUILT_FROM);
    let folder = Path::new(given);
    if folder.join("Cargo.toml").is_file() {
        let folder = folder.canonicalize().map_err(|cause| cannot("read", folder, cause))?;
        return Ok(format!("path = {}", quoted(&folder.to_string_lossy())));
    }
    if !given.contains("://") {
        return Err(Error::unsupported(format!("`{given}` is not the folder of a crate")).hint(
            "--hooks names the folder `crates/hooks` of Quipu's sources, or the address of a repository with them",
        ));
    }
    Ok(match REVISION {
        Some(revision) => format!("git = {}, rev = {}", quoted(given), quoted(revision)),
        None => format!("git = {}", quoted(given)),
    })
}

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    let (path, name) = (&options.path, name_of(&options.path)?);
    let shown = path.display();
    let (files, title, steps) = match options.language {
        Language::Rust => {
            let hooks = dependency(options.hooks.as_deref())?;
            let fill = |text: &str| {
                text.replace("{name}", &name).replace("{Type}", &type_of(&name)).replace("{hooks}", &hooks)
            };
            let files = [
                ("Cargo.toml", fill(MANIFEST)),
                ("src/lib.rs", fill(CRATE)),
                (".gitignore", "/target\n".to_owned()),
            ];
            let library = format!("lib{}.so", name.replace('-', "_"));
            let steps = format!(
                "cd {shown}\ncargo test\ncargo build --release\nquipu run --tool target/release/{library} TRACE"
            );
            (files.to_vec(), "a tool in Rust", steps)
        }
        Language::C => {
            let fill = |text: &str| text.replace("{name}", &name);
            let files =
                [("tool.c", fill(SOURCE)), ("Makefile", fill(MAKEFILE)), ("quipu_tool.h", HEADER.to_owned())];
            let steps = format!("make -C {shown}\nquipu run --tool {shown}/lib{name}.so TRACE");
            (files.to_vec(), "a tool in C", steps)
        }
    };
    if path.symlink_metadata().is_ok() {
        return Err(Error::usage("there is something of that name already")
            .in_file(shown.to_string())
            .hint("name another folder: a tool is written into a new one")
            .into());
    }
    let (fresh, folder) = Fresh::folder(path, Replace::Never, &|_| false)?;
    for (file, text) in files {
        let file = folder.join(file);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(|cause| cannot("create", parent, cause))?;
        }
        fs::write(&file, text).map_err(|cause| cannot("write", &file, cause))?;
    }
    folder.judge()?;
    fresh.commit()?;
    if !screen.is_quiet() {
        let steps: Vec<String> = steps.lines().map(|line| format!("  {line}\n")).collect();
        screen.text(&format!("{shown}: {title}\n{}", steps.concat()))?;
    }
    Ok(Outcome::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_are_names_of_crates() {
        for (path, expected) in
            [("mine", Some("mine")), ("a/b-2", Some("b-2")), ("2b", None), ("a b", None), ("/", None)]
        {
            assert_eq!(name_of(Path::new(path)).ok().as_deref(), expected, "{path}");
        }
        assert_eq!([type_of("mine"), type_of("my-own_kind")], ["MineTool", "MyOwnKindTool"]);
    }

    #[test]
    fn the_crate_of_hooks_is_a_folder_or_a_revision() {
        assert!(dependency(None).unwrap().starts_with("path = \"/"));
        assert!(dependency(Some("/nowhere")).is_err());
        let remote = dependency(Some("https://example.org/quipu")).unwrap();
        assert!(remote.starts_with("git = \"https://example.org/quipu\""), "{remote}");
    }
}
