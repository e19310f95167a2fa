//! The rules that raw files follow.

quipu_model::rules! {
    "raw folders" {
        NO_HEADER "drmemtrace-raw/no-header" Error
            "A raw file begins with a header of a known version."
            "The words are shown all the same." []
        CUT "drmemtrace-raw/cut" Error
            "A raw file has whole words only."
            "Bytes are left over after the last whole word of eight bytes; what stands before is shown." []
        NO_FOOTER "drmemtrace-raw/no-footer" Error
            "A raw file ends with a footer."
            "Without one the tracer was stopped before it had written everything." []
    }
}
