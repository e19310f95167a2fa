//! Settings of the simulated schedule of threads on cores: `--sched NAME=VALUE`.

use quipu::engine::{CoreTime, DispatchOptions, Quantum};
use quipu::model::options::Kind;
use quipu::model::{Error, Given, OptionSpec, Options, Result};
use std::str::FromStr;

const CORES: OptionSpec = count("cores", "number of cores");
const QUANTUM: OptionSpec = count("quantum", "instructions in a time slice");
const QUANTUM_US: OptionSpec = count("quantum-us", "time slice in microseconds of simulated time");
const TIME: OptionSpec = OptionSpec::new(
    "time",
    Kind::Choice(&["shared", "own"]),
    "",
    "core time counts instructions of all cores (`shared`) or its own (`own`)",
);
const UNITS_PER_US: OptionSpec =
    text("units-per-us", "instructions and idle records per simulated microsecond");
const BY_CLOCK: OptionSpec = flag("by-clock", "run the thread with the earliest timestamp first");
const BLOCKING_US: OptionSpec =
    count("blocking-us", "minimum latency at which a possibly blocking call blocks");
const CALL_US: OptionSpec = count("call-us", "minimum latency at which any other call blocks");
const BLOCK_SCALE: OptionSpec = text("block-scale", "share of its latency that a call blocks");
const MAX_BLOCK_US: OptionSpec = count("max-block-us", "maximum time that a call blocks");
const WAITS_FOREVER: OptionSpec =
    flag("waits-forever", "let threads that wait without a timeout wait for ever");
const MIGRATION_US: OptionSpec = count("migration-us", "minimum time that a thread stays on its core");
const REBALANCE_US: OptionSpec = count("rebalance-us", "interval at which waiting threads are rebalanced");
const STEAL_IDLES: OptionSpec = count("steal-idles", "idle records before a core steals work");
const AT_RANDOM: OptionSpec = flag("at-random", "pick any waiting thread at random");
const DIRECT: OptionSpec = flag("direct", "follow requests to switch to a certain thread");
const END_SHARE: OptionSpec = text("end-share", "share of remaining threads at which the run ends");
const LAYOUT_SEED: OptionSpec = text("layout-seed", "seed of the first layout; round-robin if negative");
const BUSY_CORES: OptionSpec = count("busy-cores", "maximum number of busy cores");
const PRIORITY: OptionSpec = text("priority", "a thread and its priority, as `TID:N`").repeated();

/// All settings. [`DispatchOptions::default`] has their defaults.
static SPECS: [OptionSpec; 20] = [
    CORES,
    QUANTUM,
    QUANTUM_US,
    TIME,
    UNITS_PER_US,
    BY_CLOCK,
    BLOCKING_US,
    CALL_US,
    BLOCK_SCALE,
    MAX_BLOCK_US,
    WAITS_FOREVER,
    MIGRATION_US,
    REBALANCE_US,
    STEAL_IDLES,
    AT_RANDOM,
    DIRECT,
    END_SHARE,
    LAYOUT_SEED,
    BUSY_CORES,
    PRIORITY,
];

const fn count(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, Kind::Count, "", doc)
}

const fn flag(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, Kind::Flag, "", doc)
}

const fn text(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, Kind::Text, "", doc)
}

/// Converts settings to options; `cores` applies if they do not set the number of cores.
///
/// # Errors
/// `Usage` for an unknown name, with a list of all names, and for an invalid value.
pub fn options(settings: &Given, cores: Option<usize>) -> Result<DispatchOptions> {
    if let Some((name, _)) = settings.iter().find(|(name, _)| SPECS.iter().all(|spec| spec.name != *name)) {
        let all: String = SPECS.iter().map(|spec| format!("\n    {:<14} {}", spec.name, spec.doc)).collect();
        return Err(
            Error::usage(format!("`--sched` has no setting `{name}`")).hint(format!("its settings are{all}"))
        );
    }
    let given = Options::parse("`--sched`", &SPECS, settings)?;
    let length = |spec| given.has(spec).then(|| given.length(spec));
    let flag = |spec| given.has(spec).then(|| given.flag(spec));
    let mut options = DispatchOptions::default();
    put(&mut options.cores, length(&CORES).or(cores));
    for (name, _) in given.iter() {
        match name {
            "quantum" => options.quantum = Quantum::Instrs(given.count(&QUANTUM)),
            "quantum-us" => options.quantum = Quantum::Micros(given.count(&QUANTUM_US)),
            _ => {}
        }
    }
    let time = given.text(&TIME).map(|word| if word == "own" { CoreTime::Own } else { CoreTime::Shared });
    put(&mut options.time, time);
    put(&mut options.units_per_us, number(&given, &UNITS_PER_US)?);
    put(&mut options.by_clock, flag(&BY_CLOCK));
    put(&mut options.blocking_us, given.number(&BLOCKING_US));
    put(&mut options.call_us, given.number(&CALL_US));
    put(&mut options.block_scale, number(&given, &BLOCK_SCALE)?);
    put(&mut options.max_block_us, given.number(&MAX_BLOCK_US));
    put(&mut options.waits_forever, flag(&WAITS_FOREVER));
    put(&mut options.migration_us, given.number(&MIGRATION_US));
    put(&mut options.rebalance_us, given.number(&REBALANCE_US));
    put(&mut options.steal_idles, given.number(&STEAL_IDLES));
    put(&mut options.at_random, flag(&AT_RANDOM));
    put(&mut options.direct, flag(&DIRECT));
    put(&mut options.end_share, number(&given, &END_SHARE)?);
    put(&mut options.layout_seed, number(&given, &LAYOUT_SEED)?);
    put(&mut options.busy_cores, length(&BUSY_CORES));
    for text in given.texts(&PRIORITY) {
        let both = text
            .rsplit_once(':')
            .and_then(|(thread, priority)| Some((thread.parse().ok()?, priority.parse().ok()?)));
        options.priorities.push(both.ok_or_else(|| wants(&PRIORITY, "`TID:N`", text))?);
    }
    options.check()?;
    Ok(options)
}

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Parses a number, which may be negative or have a fraction if `T` allows it.
fn number<T: FromStr>(given: &Options, spec: &OptionSpec) -> Result<Option<T>> {
    given.text(spec).map(|text| text.parse().map_err(|_| wants(spec, "a number", text))).transpose()
}

fn wants(spec: &OptionSpec, what: &str, found: &str) -> Error {
    Error::usage(format!("option `{}` wants {what}, found `{found}`", spec.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(settings: &[(&str, &str)]) -> Result<DispatchOptions> {
        options(&settings.iter().copied().collect(), Some(8))
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
        for OptionSpec { name, .. } in &SPECS {
            let error = parse(&[(name, "?")]).unwrap_err();
            assert!(error.message().starts_with(&format!("option `{name}` ")), "{error}");
        }
        assert!(parse(&[("by-clock", "on"), ("waits-forever", "off"), ("quantum", "0x10")]).is_ok());
        let error = parse(&[("speed", "1")]).unwrap_err();
        assert_eq!(error.message(), "`--sched` has no setting `speed`");
    }
}
