//! Joins: what FROM and WHERE say together.
//!
//! FROM becomes a [`Tree`] whose conditions are split into conjuncts. WHERE is pushed into it: a conjunct over one side
//! of an inner join goes below the join, one over both sides becomes a condition of the join. Only then is the tree
//! built from the leaves up, and each join gets the strategy that its conditions allow.
//!
//! | file | what |
//! | --- | --- |
//! | `tree` | the tree, and where conjuncts go |
//! | `conditions` | conjuncts, and which side they need |
//! | `pairing` | the conditions of one join, and the relation of the rows that meet |
//! | `strategy` | window, interval, versioned, lookup or regular join |
//! | `interval` | bounds of the times of an interval join |
//! | `versioned` | `FOR SYSTEM_TIME AS OF` an event time |
//! | `sources` | FROM, JOIN … ON / USING / NATURAL |
//! | `nulls` | outer joins that WHERE makes inner |
//! | `unnest` | UNNEST |
//! | `subquery` | WHERE, with IN and EXISTS |
//! | `value` | subqueries as values |
//!
//! Invariant: the columns of a tree are those of the relation built from it, in the same order; only their roles in
//! time are known no sooner than the strategies are.

mod conditions;
mod interval;
mod nulls;
mod pairing;
mod sources;
mod strategy;
mod subquery;
mod tree;
mod unnest;
mod value;
mod versioned;

pub(super) use tree::Tree;
pub(super) use value::{Values, are_aggregated, written};
