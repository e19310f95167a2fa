//! `run` on programs while they run: passes the events of front ends to back ends as they arrive.

use crate::batch::Batch;
use crate::delivery::core::{self, Core, Layout};
use crate::delivery::receiver::{End, Outcome, Producer, Seen, Wish};
use crate::delivery::{Receiver, producer};
use crate::detail::Detail;
use crate::event::Kind;
use crate::fault::said;
use crate::hooks::Sink;
use crate::run::{Backends, OPTIONS};
use crate::variable::Dialect;
use quipu_model::number::{self, counted};
use quipu_model::trace::Fact;
use quipu_model::{Error, Given, Options, Result};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The protocol by which front ends deliver their events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Delivery {
    /// Quipu's own, described in docs/formats/prism.md: a ring for each producer.
    #[default]
    Quipu,
    /// That of Prism and Sigil2: eight buffers and two FIFOs for each channel.
    Prism(core::Options),
}

impl Delivery {
    /// Reads `quipu`, or `prism[,OPTION=VALUE]...` with `layout=fixed`, `clocked`, `variable` or `sigrind`, `channels=N`,
    /// `prefix=NAME`, `fields=LEVEL`.
    ///
    /// # Errors
    /// `Usage` for an unknown protocol or option.
    pub fn parse(text: &str) -> Result<Delivery> {
        /// Maximum number of channels; each has two FIFOs and a file.
        const MAX_CHANNELS: u64 = 256;
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or("");
        if name != "prism" {
            return match (name, parts.next()) {
                ("quipu", None) => Ok(Delivery::Quipu),
                ("quipu", Some(option)) => {
                    Err(Error::usage(format!("`--delivery`: quipu has no option `{option}`")))
                }
                _ => Err(Error::usage(format!("`--delivery`: there is no way `{name}`"))
                    .hint("ways: quipu, prism")),
            };
        }
        let (mut options, mut fields) =
            (core::Options { patience: Duration::MAX, ..core::Options::default() }, None);
        for option in parts {
            let wrong = |what: &str| {
                Error::usage(format!("`--delivery`: `{option}`: {what}")).hint(
                    "options of prism: layout=fixed, clocked, variable or sigrind, channels=N, prefix=sgl2, fields=LEVEL",
                )
            };
            match option.split_once('=') {
                Some(("layout", value)) => {
                    options.layout = match value {
                        "fixed" => Layout::Fixed,
                        "clocked" => Layout::Clocked,
                        "variable" => Layout::Variable(Dialect::Strict),
                        "sigrind" => Layout::Variable(Dialect::Sigrind),
                        _ => return Err(wrong("no such layout")),
                    }
                }
                Some(("channels", value)) => {
                    let wanted = number::count(value).ok().filter(|n| (1..=MAX_CHANNELS).contains(n));
                    options.n_channels = wanted.ok_or_else(|| wrong("1 to 256 channels"))? as usize; // At most 256.
                }
                Some(("prefix", value)) => {
                    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_');
                    if value.is_empty() || !value.chars().all(is_plain) {
                        return Err(wrong("letters, digits, `-` and `_`"));
                    }
                    value.clone_into(&mut options.prefix);
                }
                Some(("fields", value)) => {
                    fields = Some(Detail::parse(value).ok_or_else(|| wrong("no level of detail"))?);
                }
                _ => return Err(wrong("prism has no such option")),
            }
        }
        let usual = match options.layout {
            Layout::Fixed | Layout::Clocked => Detail::VALGRIND,
            Layout::Variable(_) => Detail::SIGRIND,
        };
        options.detail = fields.unwrap_or(usual);
        Ok(Delivery::Prism(options))
    }
}

/// The receiving side of a delivery.
enum Receiving {
    Quipu(Receiver),
    Prism { core: Core, n_channels: usize },
}

/// Back ends that wait for events.
pub struct Live {
    backends: Backends,
    receiving: Receiving,
}

/// The outcome of a run.
#[derive(Debug, Default)]
pub struct Done {
    /// Facts about the run, for output.
    pub facts: Vec<Fact>,
    /// Losses and faults of front ends, in sentences.
    pub losses: Vec<String>,
    /// Actions of the program that events cannot represent, in sentences.
    pub notes: Vec<String>,
}

/// Passes the batches of a channel to the back ends, which are started and finished separately.
struct Feeding<'b>(&'b RefCell<Backends>, Detail);

impl Sink for Feeding<'_> {
    fn detail(&self) -> Detail {
        self.1
    }

    fn start(&mut self) -> crate::fault::Result<()> {
        Ok(())
    }

    fn take(&mut self, batch: &Batch) -> crate::fault::Result<()> {
        self.0.borrow_mut().take(batch).map(drop).map_err(crate::fault::of_file)
    }

    fn finish(&mut self) -> crate::fault::Result<()> {
        Ok(())
    }
}

impl Live {
    /// Prepares back ends, and the memory for front ends. Asks front ends for the fields that the back ends use, if the
    /// protocol supports that.
    ///
    /// # Errors
    /// `Usage` for invalid options; errors of back ends and of the system.
    pub fn begin(given: &Given, delivery: &Delivery, output: &Path, replace: bool) -> Result<Live> {
        let options = Options::parse("`run`", OPTIONS, given)?;
        let mut backends = Backends::begin(&options, output, replace)?;
        let receiving = match delivery {
            Delivery::Quipu => Receiving::Quipu(Receiver::create(backends.detail()).map_err(said)?),
            Delivery::Prism(options) => {
                let core = Core::create(options).map_err(said)?;
                Receiving::Prism { core, n_channels: options.n_channels }
            }
        };
        Ok(Live { backends, receiving })
    }

    /// The file that front ends open, or Prism's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.receiving {
            Receiving::Quipu(receiver) => receiver.path(),
            Receiving::Prism { core, .. } => core.folder(),
        }
    }

    /// The environment variable in which front ends expect [`Live::path`]; `None` for Prism's, which take an argument instead.
    #[must_use]
    pub fn environment(&self) -> Option<&'static str> {
        matches!(self.receiving, Receiving::Quipu(_)).then_some(producer::ENVIRONMENT)
    }

    /// Passes all events of front ends to the back ends. `wish` says whether more front ends may come.
    ///
    /// # Errors
    /// Errors of back ends and of the system; nothing is written then.
    pub fn run(self, wish: &mut dyn FnMut(Seen) -> Wish) -> Result<Done> {
        let Live { mut backends, mut receiving } = self;
        let asked = backends.detail();
        let shared = RefCell::new(backends);
        let mut absent = BTreeSet::new();
        let (n_front_ends, losses) = match &mut receiving {
            Receiving::Quipu(receiver) => {
                let outcome = receiver.run(&mut Feeding(&shared, asked), wish).map_err(said)?;
                absent.extend(
                    outcome.producers.iter().flat_map(|producer| producer.absent(asked)).map(name_of),
                );
                (outcome.producers.len(), losses(&outcome))
            }
            Receiving::Prism { core, n_channels } => {
                let mut feeding: Vec<_> = (0..*n_channels).map(|_| Feeding(&shared, asked)).collect();
                let mut sinks: Vec<&mut dyn Sink> =
                    feeding.iter_mut().map(|one| one as &mut dyn Sink).collect();
                let outcomes = core.run(&mut sinks, wish).map_err(said)?;
                (outcomes.len(), losses_of_channels(&outcomes))
            }
        };
        let mut backends = shared.into_inner();
        backends.end()?;
        let mut facts = backends.commit()?;
        let (key, label) = match receiving {
            Receiving::Quipu(_) => ("front_ends", "front ends"),
            Receiving::Prism { .. } => ("channels", "channels"),
        };
        facts.push(Fact::new(key, label, n_front_ends as u64));
        if !absent.is_empty() {
            let absent: Vec<&str> = absent.into_iter().collect();
            facts.push(Fact::new("not_given", "events that a front end cannot give", absent.join(", ")));
        }
        Ok(Done { facts, losses, notes: Vec::new() })
    }
}

/// The name of the events of a kind.
fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Memory => "accesses",
        Kind::Compute => "computations",
        Kind::Control => "control flow",
        Kind::Sync => "synchronization",
        Kind::Context => "contexts",
        Kind::Config => "configurations",
    }
}

/// Faults and losses of Prism's channels, in sentences.
fn losses_of_channels(outcomes: &[core::Outcome]) -> Vec<String> {
    let mut losses = Vec::new();
    for (n, core::Outcome { n_events, n_wrong, fault, .. }) in outcomes.iter().enumerate() {
        if let Some(fault) = fault {
            let events = counted(*n_events, "event");
            losses.push(format!("channel {n}: {fault}; {events} before are there"));
        }
        if *n_wrong > 0 {
            let events = counted(*n_wrong, "event");
            losses.push(format!("channel {n}: {events} with a wrong name could not be taken"));
        }
    }
    losses
}

/// Faults and losses of producers, in sentences.
fn losses(outcome: &Outcome) -> Vec<String> {
    let mut losses = Vec::new();
    for producer in &outcome.producers {
        let Producer { process, thread, n_events, n_dropped, n_unknown, end, missing, .. } = producer;
        let events = counted(*n_events, "event");
        let mut say = |what: String| losses.push(format!("thread {thread} of process {process}: {what}"));
        match end {
            End::Left => {}
            End::Died => say(format!("it ended without saying so; {events} of it are there")),
            End::Open => say(format!("it has not ended; {events} of it are there")),
            End::Wrong(fault) => say(format!("{fault}; {events} before are there")),
        }
        if *n_dropped > 0 {
            say(format!("{} could not be sent", counted(*n_dropped, "event")));
        }
        if *n_unknown > 0 {
            say(format!("{} of its events are of unknown types", number::grouped(*n_unknown)));
        }
        if *missing != Detail::NONE {
            say(format!("it does not give the fields {missing}, which were asked for"));
        }
    }
    if outcome.n_refused > 0 {
        losses.push(format!("{} front ends found no room", outcome.n_refused));
    }
    losses
}
