//! Flink-dialect SQL to a bound logical plan
