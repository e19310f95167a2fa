//! The properties of a recorded host on which text depends: zone, locale, names and options. A capture of several hosts has
//! these of each, and every enabling has the number of its host.
//!
//! SPEC: dtrace.md#several-captures

use crate::describe::{Capture, Enabling};
use crate::described;
use crate::export;
use crate::locale::Locale;
use crate::names::Names;
use crate::options::{Refused, Settings};
use crate::zone::Zone;
use quipu_model::result::json;
use quipu_model::{Error, Result};
use quipu_wire::cbor::Value;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// A host other than the first of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The time zone of the host.
    pub zone: Zone,
    /// The locale of its consumer.
    pub locale: Locale,
    /// The host's names for services and network addresses.
    pub names: Names,
    /// The options of its consumer.
    pub settings: Settings,
}

/// The properties of a host on which the text of a value depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'c> {
    pub(crate) zone: &'c Zone,
    pub(crate) locale: &'c Locale,
    pub(crate) names: &'c Names,
}

impl Capture {
    /// Zone, locale and names of a host; 0 is the first.
    #[inline]
    pub(crate) fn words(&self, host: u32) -> Words<'_> {
        match self.further(host) {
            None => Words { zone: &self.zone, locale: &self.locale, names: &self.names },
            Some(Host { zone, locale, names, .. }) => Words { zone, locale, names },
        }
    }

    /// The options of a host.
    pub(crate) fn settings_of(&self, host: u32) -> Settings {
        self.further(host).map_or(self.settings, |host| host.settings)
    }

    /// The first host in the form of the further ones.
    pub(crate) fn first_host(&self) -> Host {
        let Capture { zone, locale, names, settings, .. } = self;
        Host { zone: zone.clone(), locale: locale.clone(), names: names.clone(), settings: *settings }
    }

    #[inline]
    fn further(&self, host: u32) -> Option<&Host> {
        self.hosts.get((host as usize).checked_sub(1)?)
    }

    /// Sets an option for all hosts.
    ///
    /// # Errors
    /// Returns the same errors as [`Settings::give`].
    pub fn give(&mut self, option: &str) -> Result<()> {
        let further = self.hosts.iter_mut().map(|host| &mut host.settings);
        std::iter::once(&mut self.settings).chain(further).try_for_each(|settings| settings.give(option))
    }

    /// Adds further hosts after all enablings: each with a list of the numbers of its enablings, plus `first`. Returns
    /// messages about faults of these lists.
    pub(crate) fn add_hosts(&mut self, hosts: Vec<(Host, String)>, first: u32) -> Vec<String> {
        let mut owned: Vec<(RangeInclusive<u32>, u32)> = Vec::new();
        let (mut unread, mut shared, mut idle) = (Met::default(), Met::default(), Met::default());
        let n_known = self.hosts.len();
        for (host, enablings) in hosts {
            self.hosts.push(host);
            let number = self.hosts.len() as u32; // Fewer than bytes of the description.
            for word in enablings.split_ascii_whitespace() {
                match range(word) {
                    Some(range) => owned.push((range, number)),
                    None => unread.add(|| shown(word)),
                }
            }
        }
        owned.sort_by_key(|(range, _)| *range.start());
        // An enabling listed for two hosts belongs to the one whose range begins first.
        let mut taken: Vec<(RangeInclusive<u32>, u32)> = Vec::with_capacity(owned.len());
        for (range, number) in owned {
            let (start, end) = range.into_inner();
            let start = match taken.last() {
                Some((before, other)) if *before.end() >= start => {
                    if *other != number {
                        shared.add(|| start.wrapping_sub(first).to_string());
                    }
                    if *before.end() >= end {
                        continue;
                    }
                    before.end() + 1
                }
                _ => start,
            };
            taken.push((start..=end, number));
        }
        let mut has_any = vec![false; self.hosts.len() + 1];
        for enabling in &mut self.enablings {
            let id = enabling.id.wrapping_add(first);
            let after = taken.partition_point(|(range, _)| *range.start() <= id);
            if let Some((_, number)) = taken[..after].last().filter(|(range, _)| range.contains(&id)) {
                enabling.host = *number;
            }
            if let Some(has) = has_any.get_mut(enabling.host as usize) {
                *has = true;
            }
        }
        for number in (n_known + 1..=self.hosts.len()).filter(|number| !has_any[*number]) {
            idle.add(|| number.to_string());
        }
        let said = [
            unread.said("words among the enablings of hosts are no numbers: the first is"),
            shared.said(
                "times an enabling is that of two hosts, and is taken as that of the first: the first is",
            ),
            idle.said(
                "further hosts have no enabling, so that nothing prints with their words: the first is",
            ),
        ];
        said.into_iter().flatten().collect()
    }

    /// For each further host, a list of the numbers of its enablings, plus `first`.
    pub(crate) fn assigned(&self, first: u32) -> Vec<String> {
        let number = |of: &Enabling| (of.host, of.id.wrapping_add(first));
        let mut ids: Vec<(u32, u32)> = self.enablings.iter().map(number).collect();
        ids.sort_unstable();
        let mut all = vec![String::new(); self.hosts.len()];
        for run in ids.chunk_by(|a, b| (b.0, b.1) == (a.0, a.1.wrapping_add(1))) {
            let (Some((host, first)), Some((_, last))) = (run.first(), run.last()) else { continue };
            let Some(text) = (*host as usize).checked_sub(1).and_then(|at| all.get_mut(at)) else { continue };
            let blank = if text.is_empty() { "" } else { " " };
            // Writing to a string cannot fail.
            let _ = match first == last {
                true => write!(text, "{blank}{first}"),
                false => write!(text, "{blank}{first}-{last}"),
            };
        }
        all
    }
}

/// Parses a range of enabling numbers, as `2` or `7-9`.
fn range(word: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some(first.parse().ok()?..=last.parse().ok()?).filter(|range| !range.is_empty())
}

/// The number of faults of one kind, and the text of the first.
#[derive(Default)]
struct Met {
    n: u64,
    first: Option<String>,
}

impl Met {
    fn add(&mut self, of: impl FnOnce() -> String) {
        self.n += 1;
        self.first.get_or_insert_with(of);
    }

    fn said(self, what: &str) -> Option<String> {
        self.first.map(|first| format!("`{}` {what} `{first}`", self.n))
    }
}

/// The beginning of a faulty text.
fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

/// Maximum number of messages about faults in settings of hosts.
pub(crate) const MAX_ODD: u64 = 100;

/// The message about further such faults.
pub(crate) fn more_odd(n: u64) -> String {
    format!("`{n}` more words of hosts cannot be, beside the first `{MAX_ODD}`")
}

/// Maximum number of further hosts: their descriptions of a few bytes each would take kilobytes of memory.
pub(crate) const MAX_HOSTS: usize = 1 << 14;

/// The message about hosts above that limit.
pub(crate) fn beyond_limit(n: usize) -> String {
    format!("`{n}` descriptions of further hosts are left out: a capture has at most `{MAX_HOSTS}`")
}

/// The further hosts in `meta.json`, with the numbers of their enablings. Invalid entries are left out and reported.
pub(crate) fn listed(said: Json, odd: &mut Vec<String>) -> Vec<(Host, String)> {
    let list = match said {
        Json::Array(list) => list,
        Json::Null => return Vec::new(),
        _ => {
            odd.push("further hosts cannot be read, and are left out".to_owned());
            return Vec::new();
        }
    };
    let mut unread = Met::default();
    let (mut hosts, mut n_more, mut of_one) = (Vec::new(), 0, Vec::new());
    let n_beyond = list.len().saturating_sub(MAX_HOSTS);
    for (number, said) in (1_u64..).zip(list.into_iter().take(MAX_HOSTS)) {
        match serde_json::from_value::<Said>(said) {
            Ok(said) => hosts.push(said.host(&mut of_one)),
            Err(_) => unread.add(|| number.to_string()),
        }
        for message in of_one.drain(..) {
            match (odd.len() as u64) < MAX_ODD {
                true => odd.push(format!("further host {number}: {message}")),
                false => n_more += 1,
            }
        }
    }
    odd.extend(unread.said("further hosts cannot be read, and are left out: the first is"));
    odd.extend((n_beyond > 0).then(|| beyond_limit(n_beyond)));
    if n_more > 0 {
        odd.insert(0, more_odd(n_more));
    }
    hosts
}

/// A further host in `meta.json`, or in a line of `raw.jsonl`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Said {
    zone: Json,
    locale: Json,
    names: Json,
    /// A list, like that of the first host, of the options that text depends on.
    options: Json,
    /// Numbers of its enablings (on Linux: of its statements), as `2 3 7-9`.
    enablings: Json,
}

impl Said {
    /// The further hosts of a capture.
    pub(crate) fn of(capture: &Capture) -> Vec<Said> {
        let of = |(host, enablings): (&Host, String)| Said {
            zone: json(&host.zone),
            locale: json(&host.locale),
            names: json(&host.names),
            options: export::options(&host.settings, ",", "").into(),
            enablings: enablings.into(),
        };
        capture.hosts.iter().zip(capture.assigned(0)).map(of).collect()
    }

    /// The host, and the numbers of its enablings. Invalid parts are left out and reported.
    pub(crate) fn host(self, odd: &mut Vec<String>) -> (Host, String) {
        let (zone, locale) = (zone(self.zone, odd), locale(self.locale, odd));
        let names = names(self.names, odd);
        let options = text(self.options, "the options", odd);
        let mut refused = Met::default();
        let settings = Settings::of_each(&options, |option| refused.add(|| shown(option)));
        odd.extend(refused.said(
            "options are none that text depends on, or have values that they do not take: the first is",
        ));
        (Host { zone, locale, names, settings }, text(self.enablings, "the enablings", odd))
    }
}

/// Reads a text of a description. If it is invalid, reports that and returns an empty text.
fn text(said: Json, what: &str, odd: &mut Vec<String>) -> String {
    match said {
        Json::String(text) => text,
        Json::Null => String::new(),
        _ => {
            odd.push(format!("{what} cannot be read, and are left out"));
            String::new()
        }
    }
}

/// Reads a time zone of a description. If it is invalid, reports that and returns the default.
pub(crate) fn zone(said: Json, odd: &mut Vec<String>) -> Zone {
    let zone: Option<Option<Zone>> = serde_json::from_value(said).ok();
    let zone = zone.unwrap_or_else(|| {
        odd.push("the time zone cannot be read, and is taken as UTC".to_owned());
        None
    });
    zone.unwrap_or_default()
}

/// Reads a locale of a description. If it is invalid, reports that and returns the default.
pub(crate) fn locale(said: Json, odd: &mut Vec<String>) -> Locale {
    let locale: Option<Option<Locale>> = serde_json::from_value(said).ok();
    let locale = match locale {
        Some(locale) => {
            let locale = locale.unwrap_or_default();
            locale.check().map(|()| locale)
        }
        None => Err(Error::malformed("the locale cannot be read")),
    };
    locale.unwrap_or_else(|error| {
        odd.push(format!("{}, and is taken as `C`", error.message()));
        Locale::default()
    })
}

/// Reads names of services and hosts. Invalid ones are left out and reported.
pub(crate) fn names(said: Json, odd: &mut Vec<String>) -> Names {
    let mut names = Names::default();
    let mut left_out = Met::default();
    let mut leave = |name: &str| left_out.add(|| shown(name));
    let mut lists = match said {
        Json::Object(lists) => lists,
        Json::Null => return names,
        _ => {
            odd.push("names of services and hosts cannot be read, and are left out".to_owned());
            return names;
        }
    };
    for (list, is_service) in [("services", true), ("hosts", false)] {
        let entries = match lists.remove(list) {
            Some(Json::Object(entries)) => entries,
            None | Some(Json::Null) => continue,
            Some(_) => {
                leave(list);
                continue;
            }
        };
        for (key, name) in entries {
            let taken = name.as_str().and_then(|name| match is_service {
                true => names.add_service(key.parse().ok()?, name).ok(),
                false => names.add_host(&key, name).ok(),
            });
            if taken.is_none() {
                leave(&key);
            }
        }
    }
    odd.extend(
        left_out.said("names of services and hosts cannot be, and are left out: the first is that of"),
    );
    names
}

/// Maximum number of characters of a faulty text in a message.
const MAX_SHOWN: usize = 64;

/// Prefix of settings of a stream about a further host. The host's number from 1, a full stop, and the name of the setting
/// for the first host follow.
const PREFIX: &str = "host.";

/// The setting with the time zone of a further host: seconds east of UTC and the name, separated by a blank.
const ZONE: &str = "session.zone";

/// The setting with the numbers of a further host's enablings.
const ENABLINGS: &str = "session.enablings";

/// Parses the name of a setting of a further host: returns the host's number and the rest of the name.
pub(crate) fn of_setting(name: &str) -> Option<(u32, &str)> {
    let (number, rest) = name.strip_prefix(PREFIX)?.split_once('.')?;
    Some((number.parse().ok()?, rest))
}

/// A further host, as its settings are read.
#[derive(Debug, Default)]
pub(crate) struct Described {
    host: Host,
    enablings: String,
}

impl Described {
    /// Takes a setting; `name` does not include the prefix and the host's number.
    ///
    /// # Errors
    /// `Malformed` for invalid settings.
    pub(crate) fn take(&mut self, name: &str, value: &Value) -> Result<()> {
        match (name, value.as_text()) {
            (ZONE, Some(text)) => {
                let zone = text.split_once(' ').and_then(|(offset, name)| Some((offset.parse().ok()?, name)));
                let (offset_s, name) = zone.ok_or_else(|| Error::malformed("a time zone cannot be read"))?;
                self.host.zone = Zone { offset_s, name: name.to_owned() };
                Ok(())
            }
            (ENABLINGS, Some(text)) => {
                self.enablings = text.to_owned();
                Ok(())
            }
            _ => {
                let Host { locale, names, settings, .. } = &mut self.host;
                match described::take_words(locale, names, settings, name, value)? {
                    None => Ok(()),
                    Some(Refused::Unknown) => {
                        Err(Error::malformed(format!("text depends on no option `{name}` of a further host")))
                    }
                    Some(Refused::Value(wanted)) => Err(Error::malformed(format!(
                        "the option `{name}` of a further host takes {wanted}, and has another value"
                    ))),
                }
            }
        }
    }

    /// The host, and the numbers of its enablings.
    pub(crate) fn finish(self) -> (Host, String) {
        (self.host, self.enablings)
    }
}

/// The settings about the further hosts of a capture: names and values.
pub(crate) fn settings(capture: &Capture) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let assigned = capture.assigned(described::first_id(capture.dialect));
    for (number, (host, enablings)) in (1u32..).zip(capture.hosts.iter().zip(assigned)) {
        let Zone { offset_s, name } = &host.zone;
        let mut said = vec![
            (ZONE.to_owned(), Value::Text(format!("{offset_s} {name}"))),
            (ENABLINGS.to_owned(), Value::Text(enablings)),
        ];
        said.extend(described::words(&host.locale, &host.names, &host.settings));
        all.extend(said.into_iter().map(|(name, value)| (format!("{PREFIX}{number}.{name}"), value)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enablings_are_listed_by_ranges_and_assigned_again() {
        let of =
            |id: u32| Enabling { id, host: u32::from(id.is_multiple_of(2) || id > 7), ..Enabling::default() };
        let capture = Capture {
            enablings: (1..=9).map(of).collect(),
            hosts: vec![Host::default()],
            ..Capture::default()
        };
        assert_eq!(capture.assigned(0), ["2 4 6 8-9"]);
        assert_eq!(capture.assigned(1), ["3 5 7 9-10"]);
        let mut again = capture.clone();
        again.hosts.clear();
        again.enablings.iter_mut().for_each(|enabling| enabling.host = 0);
        let odd = again.add_hosts(vec![(Host::default(), "9-10 x 7 3 5 9-3 -".to_owned())], 1);
        assert_eq!(again.enablings, capture.enablings);
        assert_eq!(odd, ["`3` words among the enablings of hosts are no numbers: the first is `x`"]);
    }

    #[test]
    fn an_enabling_of_two_hosts_and_a_host_of_none_are_said() {
        let of = |id: u32| Enabling { id, ..Enabling::default() };
        let mut capture = Capture { enablings: (1..=9).map(of).collect(), ..Capture::default() };
        let hosts = ["2-8", "4 5-6", "7-9", "20", "8 8", ""].map(|text| (Host::default(), text.to_owned()));
        let odd = capture.add_hosts(hosts.into(), 0);
        let of_each: Vec<u32> = capture.enablings.iter().map(|of| of.host).collect();
        assert_eq!(of_each, [0, 1, 1, 1, 1, 1, 1, 1, 3]);
        assert_eq!(odd.len(), 2, "{odd:?}");
        assert!(
            odd[0].starts_with("`5` times an enabling is that of two hosts") && odd[0].ends_with(" `4`"),
            "{odd:?}"
        );
        assert!(
            odd[1].starts_with("`4` further hosts have no enabling") && odd[1].ends_with(" `2`"),
            "{odd:?}"
        );
    }

    #[test]
    fn names_that_cannot_be_are_left_out_and_said() {
        let said = serde_json::json!({
            "services": {"80": "http", "99999": "far", "81": 7}, "hosts": {"::1": "x".repeat(2000), "10.0.0.1": "gw"},
        });
        let mut odd = Vec::new();
        let names = names(said, &mut odd);
        assert_eq!((names.services.len(), names.hosts.len()), (1, 1));
        assert!(odd.len() == 1 && odd[0].starts_with("`3` names"), "{odd:?}");
    }
}
