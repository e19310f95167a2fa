//! Says which sources the runtime is built from that this program goes with.

include!("../cells/build_id.rs");

fn main() {
    println!("cargo:rerun-if-changed=../cells/build_id.rs");
    println!("cargo:rustc-env=QUIPU_RUNTIME_BUILD={}", build_id());
}
