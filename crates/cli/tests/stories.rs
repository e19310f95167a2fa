//! Replays the transcripts in `tests/cmd`: one story a file, with what a person types and what comes back.
//!
//! `TRYCMD=overwrite cargo test -p quipu-cli --test suite stories` writes down what comes back now.

#[test]
fn the_program_behaves_as_the_stories_tell() {
    trycmd::TestCases::new()
        .env("NO_COLOR", "1")
        .env("LC_ALL", "C.UTF-8")
        .env("TERM", "xterm")
        .case("tests/cmd/*.trycmd");
}
