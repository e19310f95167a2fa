//! The rules of `check`, each with its name, its severity and its entry in the manual.
//!
//! Rules of containers (`source/…`) and of reading (`engine/…`) are shared between formats.

pub(crate) mod lackey {
    //! Rules for the output of lackey.

    quipu_model::rules! {
        "text of lackey" {
            EMPTY "lackey/empty" Warning
                "A trace has a record."
                "There is none. Without `--trace-mem=yes` lackey prints no accesses." []
            CUT "lackey/cut" Error
                "The last line has an end."
                "Lines are written whole; one without an end was cut and does not count, even where what is left reads well." []
            BAD_LINE "lackey/bad-line" Warning
                "A line is a record or a message."
                "Records begin with `I`, `L`, `S` or `M`, messages with `==`, `--` or `**` and a number. The output of the program itself stands among them where both write to one descriptor (`--log-file` keeps them apart), and may take parts of a record with it. Reading continues with the next line." []
            ZEROS "lackey/zeros" Error
                "A line has no run of zero bytes."
                "Neither Valgrind nor text has any; blocks of a file that were never written do. Where a program writes such bytes itself, `--log-file` keeps its output apart. Reading continues with the next line." []
            NUMBER "lackey/number" Error
                "An address has at most 64 bits, a size at most 32."
                "No machine has others; digits of two lines ran together. Reading continues with the next line." []
            PROCESSES "lackey/processes" Warning
                "All messages are of one process."
                "With `--trace-children=yes` and one descriptor, lines of several processes are mixed, and records do not say whose they are. Valgrind puts the process into the name of the file for `%p` in `--log-file`." []
            COUNT "lackey/instr-count" Warning
                "There are as many instructions as lackey counted."
                "It tells the number at the end. Fewer lines were lost, more belong to another process." []
        }
        "accesses of lackey" {
            INSTR_SIZE "lackey/instr-size" Warning
                "An instruction has 1 to 24 bytes."
                "No architecture that Valgrind knows has others." []
            DATA_SIZE "lackey/data-size" Warning
                "A data access has 1 to 512 bytes."
                "Lackey itself refuses larger ones." []
            NO_INSTR "lackey/no-instr" Note
                "An instruction stands before the first data access."
                "The trace is a part of one, or was filtered: which instruction makes the access is unknown." []
        }
    }
}

pub(crate) mod din {
    //! Rules for the input of Dinero.

    quipu_model::rules! {
        "addresses for Dinero" {
            EMPTY "din/empty" Warning
                "A trace has a record."
                "There is none." []
            CUT "din/cut" Error
                "The last line has an end."
                "Programs write whole lines; of one without an end nothing tells whether digits are missing, so it does not count, even where what is left reads well." []
            BAD_LINE "din/bad-line" Error
                "A line is a record: a label of 0 to 4 and an address, or one of the letters `rwimcv`, an address and a size."
                "Dinero ends at the first line that is none. Here reading continues with the next line." ["din format error on trace record", "short line"]
            NUMBER "din/number" Error
                "An address has at most 64 bits, a size at most 32."
                "Dinero lets them overflow. Reading continues with the next line." []
            SIZE "din/size" Warning
                "A size is 1 to 4096 bytes."
                "Dinero takes any. Only lines of the extended format have one." []
            WIDE "din/wide-address" Note
                "An address has at most 32 bits."
                "Version III knows no others, and version IV only where it is built so." []
        }
    }
}
