//! The counting loop against the state machine, entry by entry.
