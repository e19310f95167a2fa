//! Compiles an identifier of its sources into the runtime.

#[path = "../cells/build_id.rs"]
mod build_id;

fn main() {
    println!("cargo:rerun-if-changed=../cells/build_id.rs");
    println!("cargo:rustc-env=QUIPU_RUNTIME_BUILD={}", build_id::build_id());
}
