//! Clients: what they say of themselves, how long brokers are waited for, and errors as diagnostics.

use super::options::CONNECT_TIMEOUT;
use super::properties;
use crate::locked;
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, Options, code};
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long one request may take before it is tried again.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How long a client is listened to at once: what it says comes one by one, between lines of its log.
const MOMENT: Duration = Duration::from_millis(5);

/// Listens to a client: keeps the last thing that was wrong with it, which says more than the error of a request that
/// was given up.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    last: Mutex<Option<(RDKafkaErrorCode, String)>>,
    /// Why no broker answers, since the client has said that all are away.
    outage: Mutex<Option<String>>,
}

impl Trouble {
    /// Notes what is wrong. That a connection has failed says less than why brokers do not want it, and that all have failed
    /// says nothing.
    pub(super) fn note(&self, error: &KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        let weight = |code: RDKafkaErrorCode| match code {
            RDKafkaErrorCode::AllBrokersDown => 0,
            code if is_hopeless(code) => 2,
            _ => 1,
        };
        let mut last = locked(&self.last);
        if code == RDKafkaErrorCode::AllBrokersDown {
            let why = || last.as_ref().map_or(reason, |(_, reason)| reason).to_string();
            locked(&self.outage).get_or_insert_with(why);
        }
        if last.as_ref().is_none_or(|(before, _)| weight(code) >= weight(*before)) {
            *last = Some((code, reason.to_string()));
        }
    }

    /// Notes what a log line says of a closed connection: some are reported nowhere else.
    pub(super) fn note_log(&self, facility: &str, line: &str) {
        if facility == "FAIL" {
            self.note(&KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure), line);
        }
    }

    /// The last thing that was wrong.
    pub(super) fn last(&self) -> Option<(RDKafkaErrorCode, String)> {
        locked(&self.last).clone()
    }

    /// A broker has answered.
    pub(super) fn answered(&self) {
        *locked(&self.outage) = None;
    }

    /// Why no broker answers, while none does.
    pub(super) fn outage(&self) -> Option<String> {
        locked(&self.outage).clone()
    }
}

impl ClientContext for Trouble {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        self.note_log(facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.note(&error, reason);
    }
}

impl ConsumerContext for Trouble {}

/// A consumer.
pub(super) type KafkaConsumer = BaseConsumer<Trouble>;

/// Brokers that a table names: asked for topics, partitions and offsets when a query starts and while it runs.
pub(super) struct Cluster {
    pub(super) consumer: KafkaConsumer,
    pub(super) servers: String,
    timeout: Duration,
}

impl Cluster {
    /// A client for questions. Nothing is sent yet.
    pub(super) fn open(options: &Options, config: &ClientConfig) -> Result<Cluster, Diagnostic> {
        let consumer = create(config, Trouble::default())?;
        let servers = options.require("properties.bootstrap.servers")?.to_string();
        let timeout = CONNECT_TIMEOUT.duration(options)?;
        Ok(Cluster { consumer, servers, timeout })
    }

    /// Asks until there is an answer, or the time for connections is over.
    pub(super) fn ask<T>(
        &self,
        what: &str,
        mut question: impl FnMut(&KafkaConsumer, Duration) -> Result<T, KafkaError>,
    ) -> Result<T, Diagnostic> {
        let start = Instant::now();
        loop {
            self.listen();
            let left = self.timeout.saturating_sub(start.elapsed());
            match question(&self.consumer, ATTEMPT.min(left).max(Duration::from_millis(100))) {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.listen();
                    let trouble = self.consumer.context();
                    let refusal = trouble.last().map(|(code, _)| code).or(error.rdkafka_error_code());
                    let is_permanent = error.rdkafka_error_code().is_some_and(is_refusal);
                    if left.is_zero() || refusal.is_some_and(is_hopeless) || is_permanent {
                        return Err(unreachable(what, &self.servers, &error, trouble));
                    }
                    std::thread::sleep(Duration::from_millis(100).min(left));
                }
            }
        }
    }

    /// Hears what the client has to say: it says nothing anywhere else.
    fn listen(&self) {
        while self.consumer.poll(MOMENT).is_some() {}
    }
}

/// The error for a question that was not answered.
pub(super) fn unreachable(what: &str, servers: &str, error: &KafkaError, trouble: &Trouble) -> Diagnostic {
    let last = trouble.last();
    let reason = last.as_ref().map_or_else(|| error.to_string(), |(_, reason)| reason.clone());
    let code = last.map(|(code, _)| code).or(error.rdkafka_error_code());
    let message = format!("{what} cannot be asked of the brokers '{servers}': {}", without_time(&reason));
    let is_refused = code.is_some_and(|code| is_refusal(code) || is_of_certificate(code, &reason));
    let kind = if is_refused { code::REFUSED } else { code::CONNECTION_FAILED };
    Diagnostic::new(kind, message).at(whole(servers)).advise(advice(code, &reason))
}

/// What librdkafka says without how long it has tried, which differs each time: ` (after 0ms in state CONNECT, 1 identical error(s) suppressed)`.
fn without_time(reason: &str) -> &str {
    reason.split_once(" (after ").map_or(reason, |(reason, _)| reason)
}

/// Whether one side does not accept the other's certificate. A connection that breaks during the handshake is an error of TLS, too.
fn is_of_certificate(code: RDKafkaErrorCode, reason: &str) -> bool {
    code == RDKafkaErrorCode::SSL && reason.contains("certificate")
}

/// What to do when brokers cannot be used.
fn advice(code: Option<RDKafkaErrorCode>, reason: &str) -> &'static str {
    match code {
        Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed) => {
            "check 'properties.security.protocol', 'properties.sasl.mechanism', user and password"
        }
        Some(
            RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed,
        ) => "have the user granted what it needs",
        // A broker that expects TLS, or a password, hangs up at the first request of a client that does not know.
        _ if ["SSL", "APIVERSION_QUERY", "security.protocol"].iter().any(|sign| reason.contains(sign)) => {
            "check 'properties.security.protocol', 'properties.ssl.ca.location' and, if the brokers want to see one, the \
             client's certificate ('properties.ssl.certificate.location')"
        }
        _ => "check 'properties.bootstrap.servers', and that the brokers run; 'connect.timeout' says how long is tried",
    }
}

/// Makes a client.
pub(super) fn create<C, T: FromClientConfigAndContext<C>>(config: &ClientConfig, context: C) -> Result<T, Diagnostic>
where
    C: ClientContext,
{
    config.create_with_context(context).map_err(|error| properties::refused(&error))
}

/// Whether a client that has just been made need not be tried again. What is wrong with certificates may pass while a query runs.
pub(super) fn is_hopeless(code: RDKafkaErrorCode) -> bool {
    code == RDKafkaErrorCode::SSL || is_refusal(code)
}

/// Whether brokers do not want to have to do with the client.
pub(super) fn is_refusal(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as E;
    matches!(
        code,
        E::Authentication
            | E::SaslAuthenticationFailed
            | E::UnsupportedSASLMechanism
            | E::IllegalSASLState
            | E::TopicAuthorizationFailed
            | E::GroupAuthorizationFailed
            | E::ClusterAuthorizationFailed
            | E::TransactionalIdAuthorizationFailed
            | E::UnsupportedFeature
            | E::UnsupportedVersion
    )
}

/// Whether an error is that of brokers which are away, or of the way to them: it may pass.
pub(super) fn is_outage(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as E;
    matches!(
        code,
        E::OperationTimedOut | E::RequestTimedOut | E::MessageTimedOut | E::BrokerTransportFailure | E::AllBrokersDown
    )
}

/// What a broken client says, for messages.
pub(super) fn reason(error: &KafkaError, trouble: &Trouble) -> String {
    match trouble.last() {
        Some((_, reason)) => format!("{error} ({})", without_time(&reason)),
        None => error.to_string(),
    }
}
