//! Tells the runtime which sources it is built from.

#[path = "../cells/build_id.rs"]
mod build_id;

fn main() {
    println!("cargo:rerun-if-changed=../cells/build_id.rs");
    println!("cargo:rustc-env=QUIPU_RUNTIME_BUILD={}", build_id::build_id());
}
