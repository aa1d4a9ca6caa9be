//! Runs pipelines: readers, workers, sequencer, triggers, sinks.
