//! The rules of `check`, each with its name, its severity and its entry in the manual.
//!
//! Rules of containers (`source/…`) and of reading (`engine/…`) are shared between formats.

pub(crate) mod lackey {
    //! Rules for the output of lackey.

    quipu_model::rules! {
        "text of lackey" {
            EMPTY "lackey/empty" Warning
                "A trace has at least one record."
                "The trace is empty. Without `--trace-mem=yes`, lackey prints no accesses." []
            CUT "lackey/cut" Error
                "The last line ends with a line break."
                "A line without one was cut off and does not count, even if the rest can be read." []
            BAD_LINE "lackey/bad-line" Warning
                "A line is a record or a message."
                "Records begin with `I`, `L`, `S` or `M`, messages with `==`, `--` or `**` and a number. If the program writes to the same descriptor, its output is mixed in and may break records (`--log-file` separates them). Reading continues with the next line." []
            ZEROS "lackey/zeros" Error
                "A line has no run of zero bytes."
                "Valgrind never writes zero bytes; they come from blocks of the file that were never written, or from the program's own output, which `--log-file` separates. Reading continues with the next line." []
            NUMBER "lackey/number" Error
                "An address has at most 64 bits, a size at most 32."
                "The digits of two lines ran together. Reading continues with the next line." []
            PROCESSES "lackey/processes" Warning
                "All messages come from one process."
                "With `--trace-children=yes` and one descriptor, lines of several processes are mixed, and records do not name their process. With `%p` in `--log-file`, Valgrind writes a file for each process." []
            COUNT "lackey/instr-count" Warning
                "The number of instructions matches lackey's own count."
                "Lackey prints its count at the end. If there are fewer instructions, lines were lost; if there are more, some belong to another process." []
        }
        "accesses of lackey" {
            INSTR_SIZE "lackey/instr-size" Warning
                "An instruction has 1 to 24 bytes."
                "No architecture supported by Valgrind has other lengths." []
            DATA_SIZE "lackey/data-size" Warning
                "A data access has 1 to 512 bytes."
                "Lackey itself refuses larger ones." []
            NO_INSTR "lackey/no-instr" Note
                "An instruction precedes the first data access."
                "The trace is a part of a longer one, or was filtered: the instruction that makes the access is unknown." []
        }
    }
}

pub(crate) mod din {
    //! Rules for the input of Dinero.

    quipu_model::rules! {
        "addresses for Dinero" {
            EMPTY "din/empty" Warning
                "A trace has a record."
                "The trace is empty." []
            CUT "din/cut" Error
                "The last line ends with a line break."
                "Without one, digits may be missing, so the line does not count, even if the rest can be read." []
            BAD_LINE "din/bad-line" Error
                "A line is a record: a label of 0 to 4 and an address, or one of the letters `rwimcv`, an address and a size."
                "Dinero stops at the first other line. Quipu continues with the next line." ["din format error on trace record", "short line"]
            NUMBER "din/number" Error
                "An address has at most 64 bits, a size at most 32."
                "In Dinero, larger numbers overflow. Reading continues with the next line." []
            SIZE "din/size" Warning
                "A size is 1 to 4096 bytes."
                "Dinero accepts any size. Only lines of the extended format have one." []
            WIDE "din/wide-address" Note
                "An address has at most 32 bits."
                "Version III supports only 32 bits; version IV supports more only if built to." []
        }
    }
}
