//! Runs inputs through a fuzz target: `cargo run -p quipu-fuzzing --example one TARGET FILE…`. A panic reports a failure.

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let Some((_, body)) = quipu_fuzzing::TARGETS.iter().find(|(target, _)| *target == name) else {
        eprintln!("there is no target `{name}`");
        std::process::exit(2);
    };
    for file in args {
        match std::fs::read(&file) {
            Ok(bytes) => body(&bytes),
            Err(error) => {
                eprintln!("{file}: {error}");
                std::process::exit(2);
            }
        }
    }
}
