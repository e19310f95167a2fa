//! How threads are scheduled onto cores, as people say it: `--sched NAME=VALUE`.

use crate::number;
use quipu::engine::{CoreTime, DispatchOptions, Quantum};
use quipu::model::{Error, Result};

/// Every name with what it means.
const NAMES: &[(&str, &str)] = &[
    ("cores", "how many cores there are"),
    ("quantum", "instructions that a thread runs while others wait"),
    ("quantum-us", "the same in microseconds of simulated time"),
    ("time", "whose instructions a core's time counts, `shared` or `own`"),
    ("units-per-us", "instructions and rests in a simulated microsecond"),
    ("by-clock", "whether the thread whose clock is behind goes first"),
    ("blocking-us", "from which latency on a call that may block does"),
    ("call-us", "from which latency on any other call does"),
    ("block-scale", "what share of its latency a call blocks"),
    ("max-block-us", "the longest that a call blocks"),
    ("waits-forever", "whether threads at rest without a timeout wait for ever"),
    ("migration-us", "how long a thread stays with its core at least"),
    ("rebalance-us", "how often waiting threads are spread evenly"),
    ("steal-idles", "after how many rests a core looks for work at others"),
    ("at-random", "whether any waiting thread may be next"),
    ("direct", "whether requests for a certain thread are followed"),
    ("end-share", "at which share of threads left the run ends"),
    ("layout-seed", "the seed of the first layout; in turns if negative"),
    ("busy-cores", "how many cores may be busy at once"),
    ("priority", "a thread and its priority, as `TID:N`"),
];

/// The options that these settings mean; `cores` if they do not say how many there are.
///
/// # Errors
/// `Usage` for a name that is none, with all that are, and for a value that does not fit.
pub fn options(settings: &[(String, String)], cores: Option<usize>) -> Result<DispatchOptions> {
    let mut options = DispatchOptions::default();
    if let Some(cores) = cores {
        options.cores = cores;
    }
    for (name, value) in settings {
        set(&mut options, name, value)?;
    }
    options.check()?;
    Ok(options)
}

fn set(options: &mut DispatchOptions, name: &str, value: &str) -> Result<()> {
    let wants = |what: &str| Error::usage(format!("`--sched {name}` wants {what}, found `{value}`"));
    let number = || number::number(value).map_err(|_| wants("a number"));
    let count = || Ok::<_, Error>(usize::try_from(number()?).unwrap_or(usize::MAX));
    let real = || value.parse::<f64>().map_err(|_| wants("a number"));
    let flag = || match value {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" => Ok(false),
        _ => Err(wants("`yes` or `no`")),
    };
    match name {
        "cores" => options.cores = count()?,
        "quantum" => options.quantum = Quantum::Instrs(number()?),
        "quantum-us" => options.quantum = Quantum::Micros(number()?),
        "time" => {
            options.time = match value {
                "shared" => CoreTime::Shared,
                "own" => CoreTime::Own,
                _ => return Err(wants("`shared` or `own`")),
            }
        }
        "units-per-us" => options.units_per_us = real()?,
        "by-clock" => options.by_clock = flag()?,
        "blocking-us" => options.blocking_us = number()?,
        "call-us" => options.call_us = number()?,
        "block-scale" => options.block_scale = real()?,
        "max-block-us" => options.max_block_us = number()?,
        "waits-forever" => options.waits_forever = flag()?,
        "migration-us" => options.migration_us = number()?,
        "rebalance-us" => options.rebalance_us = number()?,
        "steal-idles" => options.steal_idles = number()?,
        "at-random" => options.at_random = flag()?,
        "direct" => options.direct = flag()?,
        "end-share" => options.end_share = real()?,
        "layout-seed" => options.layout_seed = value.parse().map_err(|_| wants("a number"))?,
        "busy-cores" => options.busy_cores = count()?,
        "priority" => {
            let both = value
                .rsplit_once(':')
                .and_then(|(thread, priority)| Some((thread.parse().ok()?, priority.parse().ok()?)));
            options.priorities.push(both.ok_or_else(|| wants("`TID:N`"))?);
        }
        _ => {
            let all: String = NAMES.iter().map(|(name, doc)| format!("\n    {name:<14} {doc}")).collect();
            return Err(Error::usage(format!("`--sched` has no setting `{name}`"))
                .hint(format!("its settings are{all}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(settings: &[(&str, &str)]) -> Result<DispatchOptions> {
        let settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        options(&settings, Some(8))
    }

    #[test]
    fn settings_become_options_and_the_last_one_counts() {
        let found = parse(&[
            ("quantum", "1k"),
            ("quantum-us", "5"),
            ("block-scale", "0.01"),
            ("direct", "no"),
            ("priority", "7:-2"),
            ("layout-seed", "-1"),
        ]);
        let expected = DispatchOptions {
            cores: 8,
            quantum: Quantum::Micros(5),
            block_scale: 0.01,
            direct: false,
            priorities: vec![(7.into(), -2)],
            layout_seed: -1,
            ..DispatchOptions::default()
        };
        assert_eq!(found.unwrap(), expected);
        assert_eq!(parse(&[("cores", "2")]).unwrap().cores, 2);
    }

    #[test]
    fn every_name_is_a_setting_and_others_are_not() {
        for (name, _) in NAMES {
            let error = parse(&[(name, "?")]).unwrap_err();
            assert!(error.message().starts_with(&format!("`--sched {name}` wants ")), "{error}");
        }
        let error = parse(&[("speed", "1")]).unwrap_err();
        assert_eq!(error.message(), "`--sched` has no setting `speed`");
    }
}
