//! For build scripts: identifies the sources from which a runtime, or a program that embeds one, is built.

/// A hash of the sources of the runtime, of this crate and of the rings, with the version of the package.
pub(crate) fn build_id() -> String {
    let package = std::path::PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let folders = ["../cells/src", "../ring/src", "../ring/src/prism", "../runtime/src"];
    for folder in folders.map(|folder| package.join(folder)) {
        println!("cargo:rerun-if-changed={}", folder.display());
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.sort();
        for byte in files.iter().flat_map(|file| std::fs::read(file).unwrap_or_default()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    format!("{version}-{hash:016x}")
}
