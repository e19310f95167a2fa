//! The rules that raw files follow.

quipu_model::rules! {
    "raw folders" {
        NO_HEADER "drmemtrace-raw/no-header" Error
            "A raw file begins with a header of a known version."
            "The words are shown anyway." []
        CUT "drmemtrace-raw/cut" Error
            "A raw file consists of whole words."
            "Bytes remain after the last whole word of 8 bytes; all whole words are shown." []
        NONSENSE "drmemtrace-raw/nonsense" Error
            "At most 8 of 64 successive words are implausible."
            "Implausible words are: zeros, all ones, extensions, markers and accesses of unknown kinds, headers after the first word, threads and processes other than those of the file, and blocks without instructions or of a module that is not in the list. Reading stops before the first of them, and continues at the next 64 plausible words." []
        NO_FOOTER "drmemtrace-raw/no-footer" Error
            "A raw file ends with a footer."
            "Without one, the tracer was stopped before it had written all data." []
    }
}
