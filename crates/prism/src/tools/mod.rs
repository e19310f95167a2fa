//! Analyses of events for `quipu analyze` and `quipu report`.

pub mod workload;
