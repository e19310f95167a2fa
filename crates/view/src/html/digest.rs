//! Digests of the page's own script and style, by which its content security policy admits these two and nothing else.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sha2::{Digest, Sha256};

/// An inline script or style in the notation of a content security policy: `sha256-` and the digest in base 64.
pub(crate) fn source_of(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        // FIPS 180-4's own example, in base 64.
        assert_eq!(source_of("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }
}
