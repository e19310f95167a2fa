//! What the traced host calls services and other hosts: `%P` and `%I` print it.
//!
//! SPEC: dtrace.md#the-host

use quipu_model::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names of services by their ports, and of hosts by their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Names {
    /// By port.
    pub services: BTreeMap<u16, String>,
    /// By address, as the records have it.
    pub hosts: BTreeMap<String, String>,
}

/// No host's name is longer.
const MAX_BYTES: usize = 1024;

impl Names {
    /// True without names.
    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.hosts.is_empty()
    }

    /// What the host of an address is called; the address itself if that is not known.
    pub(crate) fn host<'a>(&'a self, address: &'a [u8]) -> &'a [u8] {
        let name = std::str::from_utf8(address).ok().and_then(|address| self.hosts.get(address));
        name.map_or(address, |name| name.as_bytes())
    }

    /// Checks names before they are used.
    ///
    /// # Errors
    /// `Malformed` for a name that no host has.
    pub(crate) fn check(&self) -> Result<()> {
        let longest = self.services.values().chain(self.hosts.values()).map(String::len).max();
        match longest.unwrap_or(0) > MAX_BYTES {
            true => {
                Err(Error::malformed(format!("a service or host has a name of more than {MAX_BYTES} bytes")))
            }
            false => Ok(()),
        }
    }
}
