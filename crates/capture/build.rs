//! Passes the id of the runtime sources that belong to this program to the compiler.

#[path = "../cells/build_id.rs"]
mod build_id;

fn main() {
    println!("cargo:rerun-if-changed=../cells/build_id.rs");
    println!("cargo:rustc-env=QUIPU_RUNTIME_BUILD={}", build_id::build_id());
}
