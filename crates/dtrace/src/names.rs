//! The traced host's names for services and other hosts, which `%P` and `%I` print.
//!
//! SPEC: dtrace.md#the-host

use quipu_model::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names of services by port, and of hosts by network address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Names {
    /// Names of services, by port.
    pub services: BTreeMap<u16, String>,
    /// Names of hosts, by address as written in records.
    pub hosts: BTreeMap<String, String>,
}

/// Maximum length of a name in bytes.
const MAX_BYTES: usize = 1024;

fn check(what: &str, text: &str) -> Result<()> {
    match text.len() > MAX_BYTES {
        true => Err(Error::limit(what, text.len() as u64, MAX_BYTES as u64)),
        false => Ok(()),
    }
}

impl Names {
    /// Whether there are no names.
    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.hosts.is_empty()
    }

    /// The name of the host with this address; the address itself if it has none.
    pub(crate) fn host<'a>(&'a self, address: &'a [u8]) -> &'a [u8] {
        let name = std::str::from_utf8(address).ok().and_then(|address| self.hosts.get(address));
        name.map_or(address, |name| name.as_bytes())
    }

    /// Adds the name of the service of a port.
    ///
    /// # Errors
    /// `Limit` for a name that is too long.
    pub(crate) fn add_service(&mut self, port: u16, name: &str) -> Result<()> {
        check("bytes in the name of a service", name)?;
        self.services.insert(port, name.to_owned());
        Ok(())
    }

    /// Adds the name of the host with an address.
    ///
    /// # Errors
    /// `Limit` for a name or an address that is too long.
    pub(crate) fn add_host(&mut self, address: &str, name: &str) -> Result<()> {
        check("bytes in the name of a host", name)?;
        check("bytes in the address of a host", address)?;
        self.hosts.insert(address.to_owned(), name.to_owned());
        Ok(())
    }
}
