//! From a bound logical plan to pipelines.
//!
//! `sql` binds a query to a [`logical::Rel`]; [`physical`] cuts it at pipeline breakers into a [`pipeline::QueryPlan`]:
//! chains of fused operators, with projections inlined, filters split into conjuncts and pushed down to the scan, and
//! only those leaves of nested rows read that are used; [`explain`] prints both, [`graph`] has the pipelines as a graph, which [`picture`] draws. Each operator of a pipeline has a file in [`operators`]. [`shape`] says what a plan keeps between runs.
//!
//! Invariants: no I/O, no LLVM, no SQL text (only [`expr::Span`]s into it), no executable code.

pub mod aggregate;
pub mod beat;
pub mod changes;
pub mod common;
mod components;
mod expansion;
pub mod explain;
pub mod expr;
pub mod fold;
pub mod graph;
mod keyed;
pub mod logical;
pub mod operators;
pub mod physical;
pub mod picture;
pub mod pipeline;
pub mod shape;
mod sort;
pub mod stability;
mod weights;
pub mod window;
