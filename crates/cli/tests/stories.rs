//! Replays the transcripts in `tests/cmd`: one story per file, with the commands and their output.
//!
//! `TRYCMD=overwrite cargo test -p quipu-cli --test suite stories` stores the current output.

#[test]
fn the_program_behaves_as_the_stories_tell() {
    trycmd::TestCases::new()
        .env("NO_COLOR", "1")
        .env("LC_ALL", "C.UTF-8")
        .env("TERM", "xterm")
        .env("COLUMNS", "100")
        .case("tests/cmd/*.trycmd");
}
