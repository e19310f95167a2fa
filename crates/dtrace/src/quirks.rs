//! Deviations of consumers' output from the recorded values, and the output printed here by default.
//!
//! The manual has the same table; tests use this one to list the lines that differ and why.

/// A deviation of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirk {
    /// A stable name.
    pub name: &'static str,
    /// The consumer's output.
    pub of_consumer: &'static str,
    /// The default output, unless the consumer's text is requested.
    pub of_default: &'static str,
}

/// A set of deviations to reproduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks(u16);

impl Quirks {
    /// Prints right values.
    pub const NONE: Quirks = Quirks(0);

    /// Prints the consumer's values.
    pub const ALL: Quirks = Quirks(u16::MAX);

    /// All deviations except one, by its position in [`QUIRKS`].
    #[must_use]
    pub fn without(self, position: usize) -> Quirks {
        Quirks(self.0 & !(1 << position))
    }

    #[inline]
    pub(crate) fn has(self, which: Which) -> bool {
        self.0 & 1 << which as u16 != 0
    }
}

impl From<bool> for Quirks {
    /// All or none.
    fn from(are_printed: bool) -> Quirks {
        if are_printed { Quirks::ALL } else { Quirks::NONE }
    }
}

/// The deviations, in the order of [`QUIRKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    UnsignedAverage,
    UnsignedSmall,
    SignedLarge,
    Carry,
    PaddedBytes,
    UnsignedKeys,
    FlowPrefix,
    LastCell,
    BareElements,
    ClearedParameters,
}

/// All known deviations.
pub const QUIRKS: &[Quirk] = &[
    Quirk {
        name: "unsigned-average",
        of_consumer: "an average in a format of `printa()` is divided unsigned (classic)",
        of_default: "signed",
    },
    Quirk {
        name: "unsigned-small",
        of_consumer: "`trace()` of 1 and 2 bytes is printed unsigned (classic)",
        of_default: "signed where the capture says so",
    },
    Quirk {
        name: "signed-large",
        of_consumer: "`trace()` and keys of 4 and 8 bytes are printed signed (classic)",
        of_default: "unsigned where the capture says so",
    },
    Quirk {
        name: "carry",
        of_consumer: "sums of squares of several CPUs are added without carry (classic)",
        of_default: "with carry",
    },
    Quirk {
        name: "padded-bytes",
        of_consumer: "bytes that are printable to the last are padded to 33 columns in quiet mode (classic)",
        of_default: "bare in quiet mode",
    },
    Quirk {
        name: "unsigned-keys",
        of_consumer: "keys of 1 and 2 bytes are printed unsigned",
        of_default: "signed where the capture says so; sorted as the consumer does",
    },
    Quirk {
        name: "flow-prefix",
        of_consumer: "after `setopt(\"flowindent\")` the prefix is `(nul` (Linux)",
        of_default: "the prefix of the flow",
    },
    Quirk {
        name: "last-cell",
        of_consumer: "a `quantize()` with data in its last cell only is printed as one without data (classic)",
        of_default: "the data",
    },
    Quirk {
        name: "bare-elements",
        of_consumer: "`print()` shows of structures in arrays their names alone, and no floating point (Linux)",
        of_default: "their members, and the number",
    },
    Quirk {
        name: "cleared-parameters",
        of_consumer: "`clear()` of `llquantize()` forgets its parameters, and the consumer ends where it is to be printed (classic)",
        of_default: "parameters are kept",
    },
];

/// Output that looks odd and is also the default, with the reasons.
pub const KEPT: &[(&str, &str)] = &[
    ("signed average", "`printa()` without a format prints an average signed, which is right"),
    (
        "order of small keys",
        "keys of 1 and 2 bytes are sorted as unsigned numbers: the order of lines is no value",
    ),
    ("digits of packed headings", "a power of ten counts one digit short, which moves a column"),
    ("precision 0", "`%.0d` prints as `%d` does: formats mean what the consumer takes them for"),
];
