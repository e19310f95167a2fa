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

fn check(what: &str, text: &str) -> Result<()> {
    match text.len() > MAX_BYTES {
        true => Err(Error::limit(what, text.len() as u64, MAX_BYTES as u64)),
        false => Ok(()),
    }
}

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

    /// Names the service of a port.
    ///
    /// # Errors
    /// `Limit` for a name that no service has.
    pub(crate) fn add_service(&mut self, port: u16, name: &str) -> Result<()> {
        check("bytes in the name of a service", name)?;
        self.services.insert(port, name.to_owned());
        Ok(())
    }

    /// Names the host of an address.
    ///
    /// # Errors
    /// `Limit` for a name or an address that no host has.
    pub(crate) fn add_host(&mut self, address: &str, name: &str) -> Result<()> {
        check("bytes in the name of a host", name)?;
        check("bytes in the address of a host", address)?;
        self.hosts.insert(address.to_owned(), name.to_owned());
        Ok(())
    }
}
