//! The rules that raw files follow.

quipu_model::rules! {
    "raw folders" {
        NO_HEADER "drmemtrace-raw/no-header" Error
            "A raw file begins with a header of a known version."
            "The words are shown all the same." []
        CUT "drmemtrace-raw/cut" Error
            "A raw file has whole words only."
            "Bytes are left over after the last whole word of eight bytes; what stands before is shown." []
        NONSENSE "drmemtrace-raw/nonsense" Error
            "Of 64 words that follow each other, at most 8 make no sense."
            "Words that make none are zeros, all ones, extensions, markers and accesses of unknown kinds, headers after the first word, threads and processes other than those of the file, blocks without instructions or of a module that the list does not have. Reading stops before the first of them, and continues where 64 words make sense again." []
        NO_FOOTER "drmemtrace-raw/no-footer" Error
            "A raw file ends with a footer."
            "Without one the tracer was stopped before it had written everything." []
    }
}
