//! Restart strategies: what a job does after an outage of a server, as Flink's `restart-strategy.*` says.

use millstream_types::{Code, code};
use std::time::{Duration, Instant};

/// What is done after a failure that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RestartKind {
    /// [`RestartKind::ExponentialDelay`] with a state directory, [`RestartKind::None`] without.
    #[default]
    Auto,
    /// The job ends.
    None,
    /// It is started again after the same time, so often at most.
    FixedDelay,
    /// It is started again unless there have been too many failures in an interval.
    FailureRate,
    /// It is started again after times that grow.
    ExponentialDelay,
}

/// The settings `restart-strategy.*`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RestartStrategy {
    pub(crate) kind: RestartKind,
    pub(crate) fixed_attempts: u64,
    /// Durations of 0 are `None`.
    pub(crate) fixed_delay: Option<Duration>,
    pub(crate) rate_failures: u64,
    pub(crate) rate_interval: Option<Duration>,
    pub(crate) rate_delay: Option<Duration>,
    pub(crate) initial_backoff: Option<Duration>,
    pub(crate) max_backoff: Option<Duration>,
    pub(crate) multiplier: f64,
    pub(crate) reset_threshold: Option<Duration>,
    /// 0: as often as needed.
    pub(crate) attempts: u64,
}

impl RestartStrategy {
    /// The restarts of a job, whose state is kept in a directory or not.
    pub fn restarts(self, has_state: bool) -> Restarts {
        let kind = match (self.kind, has_state) {
            (RestartKind::Auto, true) => RestartKind::ExponentialDelay,
            (RestartKind::Auto, false) => RestartKind::None,
            (kind, _) => kind,
        };
        Restarts {
            strategy: RestartStrategy { kind, ..self },
            count: 0,
            attempts: 0,
            backoff: None,
            failures: Vec::new(),
        }
    }
}

/// Restarts of one job.
#[derive(Debug, Clone)]
pub struct Restarts {
    strategy: RestartStrategy,
    count: u64,
    /// Since the job was well.
    attempts: u64,
    backoff: Option<Duration>,
    failures: Vec<Instant>,
}

impl Restarts {
    /// Of a job that ends with its first failure.
    pub(crate) fn none() -> Restarts {
        RestartStrategy { kind: RestartKind::None, ..RestartStrategy::default() }.restarts(false)
    }

    /// How often the job was started again.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// After a failure: how long to wait before the next start; `None` if the job is to end. `ran` is how long it had run.
    pub fn after(&mut self, failure: Code, ran: Duration, now: Instant) -> Option<Duration> {
        if !is_outage(failure) {
            return None;
        }
        let strategy = self.strategy;
        if ran >= strategy.reset_threshold.unwrap_or_default() {
            (self.backoff, self.attempts) = (None, 0);
        }
        let delay = match strategy.kind {
            RestartKind::Auto | RestartKind::None => None,
            RestartKind::FixedDelay => {
                (self.attempts < strategy.fixed_attempts).then_some(strategy.fixed_delay.unwrap_or_default())
            }
            RestartKind::FailureRate => {
                self.failures
                    .retain(|at| now.saturating_duration_since(*at) < strategy.rate_interval.unwrap_or_default());
                self.failures.push(now);
                (self.failures.len() as u64 <= strategy.rate_failures)
                    .then_some(strategy.rate_delay.unwrap_or_default())
            }
            RestartKind::ExponentialDelay if strategy.attempts > 0 && self.attempts >= strategy.attempts => None,
            RestartKind::ExponentialDelay => {
                let next = match self.backoff {
                    None => strategy.initial_backoff.unwrap_or_default(),
                    Some(last) => last.mul_f64(strategy.multiplier.max(1.0)),
                };
                self.backoff = Some(next.min(strategy.max_backoff.unwrap_or_default()));
                self.backoff
            }
        };
        if delay.is_some() {
            self.count += 1;
            self.attempts += 1;
        }
        delay
    }
}

/// Whether a failure is that of a server, a node or a network, which may be back in a while. Whatever is wrong with data or a query is there again
/// after a restart.
pub fn is_outage(failure: Code) -> bool {
    let nodes = [code::NODE_UNREACHABLE, code::NODE_LOST];
    [code::CONNECTION_FAILED, code::CONNECTION_LOST].contains(&failure) || nodes.contains(&failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strategy(kind: RestartKind) -> RestartStrategy {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        RestartStrategy {
            kind,
            fixed_attempts: 2,
            fixed_delay: seconds(3),
            rate_failures: 2,
            rate_interval: seconds(60),
            rate_delay: seconds(4),
            initial_backoff: seconds(1),
            max_backoff: seconds(5),
            multiplier: 2.0,
            reset_threshold: seconds(3_600),
            attempts: 0,
        }
    }

    fn delays(kind: RestartKind, has_state: bool, failures: &[(u64, u64)]) -> Vec<Option<u64>> {
        let (mut restarts, start) = (strategy(kind).restarts(has_state), Instant::now());
        let after = |(at, ran): &(u64, u64)| {
            let now = start + Duration::from_secs(*at);
            restarts.after(code::CONNECTION_LOST, Duration::from_secs(*ran), now).map(|delay| delay.as_secs())
        };
        failures.iter().map(after).collect()
    }

    #[test]
    fn each_strategy_waits_as_it_says() {
        let quick = [(0, 1), (1, 1), (2, 1), (3, 1), (4, 4_000)];
        assert_eq!(delays(RestartKind::None, true, &quick[..1]), [None]);
        assert_eq!(delays(RestartKind::Auto, false, &quick[..1]), [None]);
        assert_eq!(delays(RestartKind::Auto, true, &quick), [Some(1), Some(2), Some(4), Some(5), Some(1)]);
        assert_eq!(delays(RestartKind::FixedDelay, false, &quick[..3]), [Some(3), Some(3), None]);
        assert_eq!(
            delays(RestartKind::FailureRate, true, &[(0, 1), (1, 1), (2, 1), (200, 1)]),
            [Some(4), Some(4), None, Some(4)]
        );
        let limited = RestartStrategy { attempts: 1, ..strategy(RestartKind::ExponentialDelay) };
        let mut restarts = limited.restarts(true);
        assert!(restarts.after(code::CONNECTION_FAILED, Duration::ZERO, Instant::now()).is_some());
        assert_eq!(restarts.after(code::CONNECTION_FAILED, Duration::ZERO, Instant::now()), None);
        assert_eq!(restarts.count(), 1);
    }

    #[test]
    fn what_will_not_pass_ends_the_job() {
        let mut restarts = strategy(RestartKind::ExponentialDelay).restarts(true);
        for failure in
            [code::MALFORMED_RECORD, code::DIVISION_BY_ZERO, code::CANCELLED, code::SUSPENDED, code::INPUT_CHANGED]
        {
            assert_eq!(restarts.after(failure, Duration::ZERO, Instant::now()), None);
        }
    }
}
