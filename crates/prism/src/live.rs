//! `run` on programs while they run: what front ends send goes through back ends as it comes.

use crate::batch::Batch;
use crate::delivery::Receiver;
use crate::delivery::receiver::{End, Outcome, Producer, Seen, Wish};
use crate::detail::Detail;
use crate::fault::said;
use crate::hooks::Sink;
use crate::run::{Backends, OPTIONS};
use quipu_model::trace::Fact;
use quipu_model::{Given, Options, Result};
use std::path::Path;

/// Back ends that wait for events.
pub struct Live {
    backends: Backends,
    receiver: Receiver,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Done {
    /// What was done.
    pub facts: Vec<Fact>,
    /// What went wrong with front ends, in sentences.
    pub losses: Vec<String>,
}

/// Gives batches to back ends, which have begun and end by themselves.
struct Feeding<'b>(&'b mut Backends, Detail);

impl Sink for Feeding<'_> {
    fn detail(&self) -> Detail {
        self.1
    }

    fn start(&mut self) -> crate::fault::Result<()> {
        Ok(())
    }

    fn take(&mut self, batch: &Batch) -> crate::fault::Result<()> {
        self.0.take(batch).map(drop).map_err(crate::fault::of_file)
    }

    fn finish(&mut self) -> crate::fault::Result<()> {
        Ok(())
    }
}

impl Live {
    /// Makes back ends and the memory for front ends ready. Front ends are asked for the fields that back ends look at.
    ///
    /// # Errors
    /// `Usage` for options that are none; what back ends and the system say.
    pub fn begin(given: &Given, output: &Path, replace: bool) -> Result<Live> {
        let options = Options::parse("`run`", OPTIONS, given)?;
        let mut backends = Backends::begin(&options, output, replace)?;
        let receiver = Receiver::create(backends.detail()).map_err(said)?;
        Ok(Live { backends, receiver })
    }

    /// The file that front ends open: the environment variable `QUIPU_PRISM` names it for them.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.receiver.path()
    }

    /// Gives all that front ends send to the back ends. `wish` says whether further ones may come.
    ///
    /// # Errors
    /// What back ends and the system say; then nothing is written.
    pub fn run(mut self, wish: &mut dyn FnMut(Seen) -> Wish) -> Result<Done> {
        let asked = self.backends.detail();
        let outcome = self.receiver.run(&mut Feeding(&mut self.backends, asked), wish).map_err(said)?;
        self.backends.end()?;
        let mut facts = self.backends.commit()?;
        facts.push(Fact::new("front_ends", "front ends", outcome.producers.len() as u64));
        Ok(Done { facts, losses: losses(&outcome) })
    }
}

/// What went wrong, each producer in a sentence.
fn losses(outcome: &Outcome) -> Vec<String> {
    let mut losses = Vec::new();
    for producer in &outcome.producers {
        let Producer { process, thread, n_events, n_dropped, n_unknown, end, missing, .. } = producer;
        let mut say = |what: String| losses.push(format!("thread {thread} of process {process}: {what}"));
        match end {
            End::Left => {}
            End::Died => say(format!("it ended without saying so; {n_events} events of it are there")),
            End::Open => say(format!("it has not ended; {n_events} events of it are there")),
            End::Wrong(fault) => say(format!("{fault}; {n_events} events before are there")),
        }
        if *n_dropped > 0 {
            say(format!("{n_dropped} events could not be sent"));
        }
        if *n_unknown > 0 {
            say(format!("{n_unknown} of its events are of unknown types"));
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
