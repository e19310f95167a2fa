//! Hooks: the trait that an analysis implements, and the delivery of batches to it.
//!
//! [`Hooks`] has a method for each kind of event. [`Sink`] takes batches; every [`Hooks`] implements it, and its methods are
//! inlined into the loop over a batch, so that a run makes one virtual call for each batch.

use crate::batch::{At, Batch};
use crate::detail::Detail;
use crate::error::Result;
use crate::event::{Compute, Config, Context, Control, Event, Memory, Sync};

/// The methods of an analysis, one for each kind of event. An error ends the run with its message.
#[allow(unused_variables)]
pub trait Hooks {
    /// The kinds and fields that the analysis uses: a front end does not send events of a kind that is
    /// [off](Detail::without), and need not send other fields.
    fn needs(&self) -> Detail {
        Detail::ALL
    }

    /// Called once, before the first event.
    ///
    /// # Errors
    /// To end the run.
    fn on_start(&mut self) -> Result<()> {
        Ok(())
    }

    /// Called for a computation.
    ///
    /// # Errors
    /// To end the run.
    #[inline]
    fn on_compute(&mut self, at: At, event: &Compute) -> Result<()> {
        Ok(())
    }

    /// Called for a load or store.
    ///
    /// # Errors
    /// To end the run.
    #[inline]
    fn on_memory(&mut self, at: At, event: &Memory) -> Result<()> {
        Ok(())
    }

    /// Called for a call of a thread library, or for a swap: `at` has the thread that a swap makes current.
    ///
    /// # Errors
    /// To end the run.
    #[inline]
    fn on_sync(&mut self, at: At, event: &Sync) -> Result<()> {
        Ok(())
    }

    /// Called for the border of an instruction, block, function or thread; `name` is empty if the event has an address.
    ///
    /// # Errors
    /// To end the run.
    #[inline]
    fn on_context(&mut self, at: At, event: &Context, name: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Called for a jump, branch, call or return.
    ///
    /// # Errors
    /// To end the run.
    #[inline]
    fn on_control_flow(&mut self, at: At, event: &Control) -> Result<()> {
        Ok(())
    }

    /// Called for a change of the level of detail.
    ///
    /// # Errors
    /// To end the run.
    #[inline]
    fn on_config(&mut self, at: At, event: &Config) -> Result<()> {
        Ok(())
    }

    /// Called at the end of a batch.
    ///
    /// # Errors
    /// To end the run.
    #[inline]
    fn on_flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Called once, after the last event.
    ///
    /// # Errors
    /// To end the run.
    fn on_finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A consumer of batches.
pub trait Sink {
    /// The kinds and fields that it uses.
    fn detail(&self) -> Detail;

    /// Called once, before the first batch.
    ///
    /// # Errors
    /// To end the run.
    fn start(&mut self) -> Result<()>;

    /// Processes a batch.
    ///
    /// # Errors
    /// To end the run.
    fn take(&mut self, batch: &Batch) -> Result<()>;

    /// Called once, after the last batch.
    ///
    /// # Errors
    /// To end the run.
    fn finish(&mut self) -> Result<()>;
}

impl<H: Hooks> Sink for H {
    fn detail(&self) -> Detail {
        self.needs()
    }

    fn start(&mut self) -> Result<()> {
        self.on_start()
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        for (index, event) in batch.events.iter().enumerate() {
            let at = batch.at(index);
            match event {
                Event::Memory(event) => self.on_memory(at, event)?,
                Event::Compute(event) => self.on_compute(at, event)?,
                Event::Sync(event) => self.on_sync(at, event)?,
                Event::Context(event) => {
                    let name = match event.place {
                        crate::event::Place::Name(name) => batch.name(name),
                        crate::event::Place::Address(_) => &[],
                    };
                    self.on_context(at, event, name)?;
                }
                Event::Control(event) => self.on_control_flow(at, event)?,
                Event::Config(event) => self.on_config(at, event)?,
                Event::Unknown(_) => {}
            }
        }
        self.on_flush()
    }

    fn finish(&mut self) -> Result<()> {
        self.on_finish()
    }
}
