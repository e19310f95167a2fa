//! Says which sources the runtime is built from that this program goes with.

#[path = "../cells/build_id.rs"]
mod build_id;

fn main() {
    println!("cargo:rerun-if-changed=../cells/build_id.rs");
    println!("cargo:rustc-env=QUIPU_RUNTIME_BUILD={}", build_id::build_id());
}
