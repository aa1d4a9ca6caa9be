//! What `--http` serves: the dashboard, its REST interface, metrics for Prometheus, and probes.
//!
//! ```text
//! Jobs (the command) ──views──► api ──JSON──► pages in a browser, programs
//!        ▲                 └──► metrics ──► Prometheus
//!        ├── actions (checkpoint, stop, rescale), if they may be asked for
//!        └── scripts, if they may come in
//! ```
//!
//! Nothing of it is on the way of a row. Answers are made of [`StatsSnapshot`](millstream::StatsSnapshot)s when somebody asks; one thread keeps a few
//! numbers of every second for the charts (`history`). The server has a thread of its own, and a bound on connections, on the size of
//! requests and on how long their heads may take, so a client that is slow or hostile costs a job nothing.
//!
//! Who may ask for what is in one place: `routes` is the list of all routes with their access, `guard` decides, and a test asks each
//! route as everybody who must be refused. Invariants: no SQL comes in but scripts, where the command takes them (`scripts`), and with the
//! token, on this machine, too; nothing that changes a job is reachable beyond this machine without token and TLS; secrets are masked before
//! they come here.
#![forbid(unsafe_code)]

mod api;
mod body;
mod guard;
mod history;
mod jobs;
mod metrics;
mod pages;
mod problems;
mod rejection;
mod routes;
mod scripts;
mod served;
mod server;
mod stalled;
#[cfg(feature = "otel")]
mod telemetry;
mod tls;

pub use jobs::{Action, JobState, JobView, Jobs, Mode, Refused, ScriptRefused, Scripts};
pub use metrics::reference_markdown;
pub use server::{Server, ServerConfig};
#[cfg(feature = "otel")]
pub use telemetry::Telemetry;
pub use tls::Certificate;
