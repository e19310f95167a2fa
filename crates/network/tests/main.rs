//! Tests of both sides of the protocol, against each other and against strangers.

#![allow(clippy::unwrap_used)]

mod loopback;
mod made;
mod protocol;
mod shipping;
mod store;
mod trust;
