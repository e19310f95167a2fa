//! Analyses of events, as `quipu analyze` and `quipu report` have them.

pub mod workload;
