//! State directories in an object store, against a local S3 server that the tests start themselves: `make test-s3`.
//!
//! - `kills`: jobs that are disturbed by signals and full disks and resume, here and on another machine;
//! - `owners`: several processes with one state directory;
//! - `looking`: the commands that look at checkpoints and after them, and damage;
//! - `served`: jobs of `millstream serve` with their state there;
//! - `outages`: a store that goes away, and one that cannot be used.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[path = "../support/disk.rs"]
mod disk;
#[path = "../support/disturb.rs"]
mod disturb;
#[path = "../support/draws.rs"]
mod draws;
#[path = "../support/how_often.rs"]
mod how_often;
mod job;
mod kills;
mod looking;
#[path = "../support/nodes.rs"]
mod nodes;
mod outages;
mod owners;
mod served;
mod server;
#[path = "../support/serving.rs"]
mod serving;
#[path = "../support/mod.rs"]
mod support;
