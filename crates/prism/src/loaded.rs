//! User tools in a run: their libraries, options and instances.

use crate::batch::Batch;
use crate::detail::Detail;
use crate::fault::Result;
use crate::hooks::Sink;
use quipu_hooks::load::{Instance, Library};
use quipu_hooks::tool::Instances;
use quipu_model::Error;
use std::path::{Path, PathBuf};

/// Maximum number of threads with their own instances; events of further threads go to the last one.
const MOST_INSTANCES: usize = 1 << 12;

/// A tool as given to a run: `LIBRARY[,OPTIONS]`.
#[derive(Clone, Debug)]
pub struct Asked {
    library: Library,
    options: String,
}

impl Asked {
    /// Loads the libraries given to a run.
    ///
    /// # Errors
    /// `Unsupported` for a library that is not a tool for this program, or that is given twice and allows one instance only.
    pub fn load<'t>(texts: impl Iterator<Item = &'t str>) -> quipu_model::Result<Vec<Asked>> {
        let mut all: Vec<Asked> = Vec::new();
        for text in texts {
            let (path, options) = text.split_once(',').unwrap_or((text, ""));
            let library = Library::open(Path::new(path)).map_err(|refused| {
                Error::unsupported(format!("cannot be used as a tool: {refused}")).in_file(path)
            })?;
            let is_twice = all.iter().any(|asked| asked.library.path() == library.path());
            if is_twice && library.instances() == Instances::One {
                return Err(Error::unsupported(format!(
                    "`--tool`: a run has one instance of {}, and this one names it twice",
                    library.name()
                )));
            }
            all.push(Asked { library, options: options.to_owned() });
        }
        Ok(all)
    }

    /// The name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        self.library.name()
    }
}

/// The running instances of a tool.
#[derive(Debug)]
pub struct Running {
    asked: Asked,
    folder: Option<PathBuf>,
    /// For tools with an instance per thread: each with its thread; otherwise one.
    instances: Vec<(Option<u64>, Instance)>,
    detail: Detail,
    latest: usize,
}

impl Running {
    /// Starts a tool. Its files go into `folder`, which has to exist.
    ///
    /// # Errors
    /// Returns the tool's error message.
    pub fn begin(asked: Asked, folder: Option<PathBuf>) -> Result<Running> {
        let first = asked.library.create(&asked.options, folder.as_deref())?;
        let detail = first.detail();
        Ok(Running { asked, folder, instances: vec![(None, first)], detail, latest: 0 })
    }

    /// The name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        self.asked.name()
    }

    /// The instance for the events of a thread.
    fn of_thread(&mut self, thread: Option<u64>) -> Result<&mut Instance> {
        if self.asked.library.instances() == Instances::PerThread {
            let is_its = |(of, _): &(Option<u64>, Instance)| *of == thread;
            if !is_its(&self.instances[self.latest]) {
                self.latest = match self.instances.iter().position(is_its) {
                    Some(at) => at,
                    None if self.instances.len() >= MOST_INSTANCES => self.instances.len() - 1,
                    None => {
                        let mut instance =
                            self.asked.library.create(&self.asked.options, self.folder.as_deref())?;
                        instance.start()?;
                        self.instances.push((thread, instance));
                        self.instances.len() - 1
                    }
                };
            }
        }
        Ok(&mut self.instances[self.latest].1)
    }

    /// Calls each library's function that finishes all its instances once, even if the run names the library several times.
    ///
    /// # Errors
    /// Returns the tool's error message.
    pub fn finish_all(all: &mut [&mut Running]) -> Result<()> {
        for at in 0..all.len() {
            let library = all[at].asked.library.clone();
            if all[..at].iter().any(|before| before.asked.library.path() == library.path()) {
                continue;
            }
            let same = all.iter_mut().filter(|running| running.asked.library.path() == library.path());
            let instances = same.flat_map(|running| running.instances.iter_mut());
            library.finish_all(instances.map(|(_, instance)| instance))?;
        }
        Ok(())
    }
}

impl Sink for Running {
    fn detail(&self) -> Detail {
        self.detail
    }

    fn start(&mut self) -> Result<()> {
        self.instances.iter_mut().try_for_each(|(_, instance)| instance.start())
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        // The first instance belongs to the first thread.
        if let [(of, _)] = &mut self.instances[..]
            && of.is_none()
        {
            *of = batch.thread;
        }
        self.of_thread(batch.thread)?.take(batch)
    }

    fn finish(&mut self) -> Result<()> {
        self.instances.iter_mut().try_for_each(|(_, instance)| instance.finish())
    }
}
