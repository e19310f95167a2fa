//! Machines of real processors: configuration files that are part of the program, to use, to copy and to edit.
//!
//! Each file begins with a comment that says which processor it describes, and one that names the sources of its numbers.

use quipu_model::options::nearest;
use quipu_model::{Error, Result};

/// The machine of a real processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name on command lines.
    pub name: &'static str,
    /// The configuration.
    pub text: &'static str,
}

/// Expands to presets whose files have their names.
macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// All machines of real processors.
        pub static PRESETS: &[Preset] = &[
            $(Preset { name: $name, text: include_str!(concat!("../../machines/", $name, ".conf")) },)*
        ];
    };
}

presets![
    "intel-haswell",
    "intel-skylake",
    "intel-skylake-server",
    "intel-golden-cove",
    "amd-zen2",
    "amd-zen3",
    "amd-zen4",
    "amd-zen5",
    "arm-neoverse-n1",
    "arm-neoverse-v1",
    "apple-m1",
    "raspberry-pi-3",
    "raspberry-pi-4",
];

impl Preset {
    /// The preset called `name`.
    ///
    /// # Errors
    /// `Usage` with the nearest name, or all.
    pub fn named(name: &str) -> Result<&'static Preset> {
        let found = PRESETS.iter().find(|preset| preset.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let names = || PRESETS.iter().map(|preset| preset.name);
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if name.contains(['/', '.']) => {
                    format!("a file goes with `quipu sim cache --config {name}` or `quipu sim tlb --config {name}`")
                }
                None => format!("machines: {}", names().collect::<Vec<_>>().join(", ")),
            };
            Error::usage(format!("there is no machine `{name}`")).hint(hint)
        })
    }

    /// The processor that it describes.
    pub fn title(&self) -> &'static str {
        self.comments().next().unwrap_or_default()
    }

    /// The documents from which its numbers are.
    pub fn source(&self) -> &'static str {
        self.comments().find_map(|line| line.strip_prefix("Source: ")).unwrap_or_default()
    }

    fn comments(&self) -> impl Iterator<Item = &'static str> {
        self.text.lines().filter_map(|line| line.strip_prefix("// "))
    }
}
