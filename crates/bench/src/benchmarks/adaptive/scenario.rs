//! What a benchmark of adaptivity runs: phases, a query, and the plans that are fixed.

use super::phased::Phase;
use crate::suite::Failure;
use millstream::{Session, SessionConfig};
use std::sync::Arc;

/// A setting and its value.
pub(super) type Setting = (&'static str, &'static str);

/// The plan that knows nothing of the data: compiled once, hash tables of each worker.
pub(super) const GENERIC: [Setting; 4] = [
    ("pipeline.tier", "compiled"),
    ("pipeline.adaptive", "never"),
    ("pipeline.dense-tables", "never"),
    ("pipeline.merge", "local"),
];

/// The name of the plan that adapts.
const ADAPTIVE: &str = "adaptive";

/// A way to run the query of a scenario.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) settings: Vec<Setting>,
    /// The query, if it is written in another way.
    pub(super) sql: Option<String>,
}

impl Plan {
    /// The one that adapts: what users get, but that no code is taken from runs before.
    pub(super) fn adaptive() -> Plan {
        Plan { name: ADAPTIVE, settings: vec![], sql: None }
    }

    /// The one that adapts, with compiled code from the first row on.
    pub(super) fn observing() -> Plan {
        Plan { settings: vec![("pipeline.tier", "compiled")], ..Plan::adaptive() }
    }

    /// Whether it is [`Plan::adaptive`].
    pub(super) fn is_adaptive(&self) -> bool {
        self.name == ADAPTIVE
    }

    /// See [`GENERIC`].
    pub(super) fn generic() -> Plan {
        Plan { name: "generic", settings: GENERIC.to_vec(), sql: None }
    }

    /// The generic plan but for these settings; nothing changes while it runs.
    pub(super) fn fixed(name: &'static str, settings: &[Setting]) -> Plan {
        let mut plan = Plan { name, ..Plan::generic() };
        plan.settings.retain(|(key, _)| settings.iter().all(|(other, _)| other != key));
        plan.settings.extend(settings);
        plan
    }

    /// The plan with another setting.
    pub(super) fn with(mut self, setting: Setting) -> Plan {
        self.settings.push(setting);
        self
    }

    /// As the records call it.
    pub(super) fn system(&self) -> String {
        if self.is_adaptive() { "millstream".into() } else { format!("millstream/{}", self.name) }
    }

    /// A session with its settings.
    pub(super) fn session(&self, threads: usize) -> Result<Session, Failure> {
        let mut session = Session::new(SessionConfig::default());
        session.set("parallelism.default", &threads.to_string())?;
        for (key, value) in &self.settings {
            session.set(key, value)?;
        }
        Ok(session)
    }

    /// The plan for a query that is written in another way.
    pub(super) fn with_sql(self, sql: impl Into<String>) -> Plan {
        Plan { sql: Some(sql.into()), ..self }
    }
}

/// A stream that changes, and what is asked of it.
pub(super) struct Scenario {
    /// Names of the columns, the event time last.
    pub(super) columns: &'static [&'static str],
    /// What stands between the parentheses of CREATE TABLE.
    pub(super) definition: &'static str,
    pub(super) sql: String,
    pub(super) phases: Arc<Vec<Phase>>,
    /// How long the generic plan takes for a phase.
    pub(super) phase_s: f64,
    /// The generic plan, and others.
    pub(super) generic: Plan,
    pub(super) fixed: Vec<Plan>,
    /// What the adaptive run is to be better by than the generic plan, in every phase.
    pub(super) over_generic: Option<f64>,
    /// What it is to be better by than the worst fixed plan, in these phases.
    pub(super) over_worst: Option<(f64, &'static [usize])>,
}
