//! Tells the runtime which sources it is built from.

include!("../cells/build_id.rs");

fn main() {
    println!("cargo:rerun-if-changed=../cells/build_id.rs");
    println!("cargo:rustc-env=QUIPU_RUNTIME_BUILD={}", build_id());
}
