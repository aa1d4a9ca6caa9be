//! From a bound logical plan to pipelines.
//!
//! `sql` binds a query to a [`logical::Rel`]; the passes in [`optimise`] push filters and projections down to the
//! scan, nested `ROW` fields included; [`pipeline`] holds what the runtime executes: chains of fused operators
//! between pipeline breakers; [`physical`] cuts the one into the other; [`explain`] prints both.
//!
//! Invariants: no I/O, no LLVM, no SQL text (only [`expr::Span`]s into it), no executable code.

pub mod aggregate;
pub mod expr;
pub mod logical;
pub mod pipeline;
pub mod window;
