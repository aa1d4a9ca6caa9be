//! The connection to the database, which is made again when it was lost.

use super::encryption::{Encryption, invalid, is_of_tls, refused};
use super::options::{PATIENCE, RETRIES};
use crate::option_table::option_fault;
use millstream_types::{Diagnostic, Options, Place, code};
use postgres::config::Host;
use postgres::error::SqlState;
use postgres::{Client, Config};
use std::error::Error;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Pauses before a further attempt grow from the first to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// What every session starts with. Timestamps without a zone are UTC where the table's column has one. The locks of a process
/// whose machine has gone are given up after some minutes, not hours, so that its successor can continue.
const SESSION: &str = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; \
     SET idle_in_transaction_session_timeout = '5min'; \
     SET tcp_keepalives_idle = 60; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 6;";

/// See the module.
pub(super) struct Connection {
    config: Config,
    encryption: Encryption,
    /// Where it goes, without secrets, for messages.
    pub(super) server: String,
    /// Statements that a session starts with.
    prelude: String,
    patience: Duration,
    retries: u32,
    client: Option<Client>,
}

/// Why a piece of work on the database has failed.
pub(super) enum Failure {
    /// The database, or the way to it.
    Database(postgres::Error),
    /// Anything else; trying again is of no use.
    Other(Diagnostic),
}

impl From<postgres::Error> for Failure {
    fn from(error: postgres::Error) -> Failure {
        Failure::Database(error)
    }
}

impl From<Diagnostic> for Failure {
    fn from(error: Diagnostic) -> Failure {
        Failure::Other(error)
    }
}

impl Connection {
    /// Connects as the options say; tries again while the server is not there.
    pub(super) fn open(options: &Options) -> Result<Connection, Diagnostic> {
        let (config, encryption) = config(options)?;
        let server = server(&config);
        let patience = PATIENCE.duration(options)?;
        let retries = RETRIES.parse(options)?;
        let mut connection =
            Connection { config, encryption, server, prelude: SESSION.into(), patience, retries, client: None };
        connection.client()?;
        Ok(connection)
    }

    /// Runs statements now and at the start of every later session.
    pub(super) fn begin_sessions_with(&mut self, statements: &str) -> Result<(), Diagnostic> {
        self.run(|client| Ok(client.batch_execute(statements)?))?;
        self.prelude.push_str(statements);
        Ok(())
    }

    /// Runs a piece of work, again if the connection was lost: it must change nothing, or only by one transaction at
    /// its end.
    pub(super) fn run<T>(&mut self, mut work: impl FnMut(&mut Client) -> Result<T, Failure>) -> Result<T, Diagnostic> {
        for attempt in 0.. {
            let error = match work(self.client()?) {
                Ok(done) => return Ok(done),
                Err(Failure::Other(error)) => return Err(error),
                Err(Failure::Database(error)) => error,
            };
            if self.client.as_ref().is_some_and(Client::is_closed) || is_lost(&error) {
                self.client = None;
            }
            if attempt >= self.retries || !is_transient(&error) {
                return Err(self.explain(&error));
            }
            sleep(pause_after(attempt));
        }
        Err(Diagnostic::bug("an endless loop has ended"))
    }

    fn client(&mut self) -> Result<&mut Client, Diagnostic> {
        if self.client.is_none() {
            self.client = Some(self.connect()?);
        }
        self.client.as_mut().ok_or_else(|| Diagnostic::bug("a connection was made and is not there"))
    }

    fn connect(&self) -> Result<Client, Diagnostic> {
        let (since, mut attempt) = (Instant::now(), 0);
        loop {
            let connected = self.encryption.connect(&self.config).and_then(|mut client| {
                client.batch_execute(&self.prelude)?;
                Ok(client)
            });
            let error = match connected {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            let pause = pause_after(attempt);
            attempt += 1;
            if !is_transient(&error) {
                let is_of_tls = is_of_tls(&error);
                return Err(if is_of_tls { refused(&self.server, &reason(&error)) } else { self.explain(&error) });
            }
            if since.elapsed() + pause > self.patience {
                let text = format!("no connection to PostgreSQL at '{}': {}", self.server, reason(&error));
                let advice = "check host and port, and that the server runs; 'connection.max-retry-timeout' says how long is tried";
                return Err(option_fault(code::CONNECTION_FAILED, "url", text, advice));
            }
            sleep(pause);
        }
    }

    /// What an error of the database means to the user.
    fn explain(&self, error: &postgres::Error) -> Diagnostic {
        let told = format!("PostgreSQL at '{}' says: {}", self.server, reason(error));
        let Some(state) = error.code() else {
            return Diagnostic::new(code::CONNECTION_LOST, told).at(Place::Option("url".into()));
        };
        let (code, advice) = match (&state.code()[..2], state.code()) {
            ("28" | "3D", _) => (
                code::REFUSED,
                "check database, 'username' and 'password', and whether the server wants an encrypted connection ('sslmode')",
            ),
            ("08", _) | (_, "57P01" | "57P02" | "57P03") => {
                (code::CONNECTION_LOST, "see why the server went away, and run the query again")
            }
            ("22", _) => (
                code::WRONG_TYPE,
                "make the table's column larger or of another type, or convert the value in the query",
            ),
            (_, "23505") => (
                code::WRITE_FAILED,
                "declare PRIMARY KEY (…) NOT ENFORCED, so that a row replaces that of the same key, or drop the constraint",
            ),
            ("23", _) => (code::WRITE_FAILED, "filter such rows in the query, or drop the constraint"),
            (_, "42501") => (code::WRITE_FAILED, "grant the user what is missing, or connect as another"),
            (_, "42P10") => (
                code::INVALID_TABLE,
                "create a unique index on the columns of the PRIMARY KEY in the database, or leave the PRIMARY KEY out",
            ),
            _ => (code::WRITE_FAILED, "see the log of the server"),
        };
        Diagnostic::new(code, told).advise(advice)
    }
}

/// The pause behind an attempt: ever longer ones.
fn pause_after(attempt: u32) -> Duration {
    (PAUSES.0 * (1 << attempt.min(10))).min(PAUSES.1)
}

/// The error that hides in one of writing to a `COPY`.
pub(super) fn copy_failure(error: io::Error) -> Failure {
    let text = error.to_string();
    match error.into_inner().map(|inner| inner.downcast::<postgres::Error>()) {
        Some(Ok(error)) => Failure::Database(*error),
        _ => {
            Failure::Other(Diagnostic::new(code::CONNECTION_LOST, format!("sending rows to PostgreSQL failed: {text}")))
        }
    }
}

/// Whether the session is gone.
fn is_lost(error: &postgres::Error) -> bool {
    let ends_session = |state: &str| state.starts_with("08") || state.starts_with("57P") || state == "25P03";
    error.code().is_none_or(|state| ends_session(state.code()))
}

/// Whether it may go well the next time.
fn is_transient(error: &postgres::Error) -> bool {
    match error.code() {
        Some(state) => {
            let passing = [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::TOO_MANY_CONNECTIONS,
                SqlState::LOCK_NOT_AVAILABLE,
            ];
            is_lost(error) || passing.contains(state)
        }
        // Without a code it is the connection, if not the library's own: a password that is missing, an answer of no sense.
        None => error.is_closed() || sources(error).any(|source| source.is::<io::Error>()),
    }
}

fn sources(error: &postgres::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

/// The text of an error: of the server with all that it says, else of the causes.
fn reason(error: &postgres::Error) -> String {
    let Some(said) = error.as_db_error() else {
        let causes: Vec<String> = sources(error).map(ToString::to_string).collect();
        return if causes.is_empty() { error.to_string() } else { causes.join(": ") };
    };
    let mut text = said.message().to_string();
    for (what, more) in [("", said.detail()), ("hint: ", said.hint()), ("in: ", said.where_())] {
        if let Some(more) = more {
            text.push_str("; ");
            text.push_str(what);
            text.push_str(more.lines().next().unwrap_or_default());
        }
    }
    text
}

fn config(options: &Options) -> Result<(Config, Encryption), Diagnostic> {
    let url = options.require("url")?;
    let plain = url.strip_prefix("jdbc:").unwrap_or(url);
    // The value may have a password in it, so it is not shown.
    if !plain.starts_with("postgresql://") && !plain.starts_with("postgres://") {
        let message = match plain.split_once("://") {
            Some((kind, _)) => format!("the 'url' begins with '{kind}:', but only PostgreSQL can be written"),
            None => "the 'url' does not begin with 'jdbc:postgresql://'".into(),
        };
        return Err(invalid(message).advise("give 'jdbc:postgresql://host:port/database'"));
    }
    let (plain, encryption) = Encryption::of_url(plain)?;
    let mut config: Config = plain.parse().map_err(|e: postgres::Error| {
        invalid(format!("the 'url' cannot be understood: {}", reason(&e)))
            .advise("give 'jdbc:postgresql://host:port/database', with parameters as of psql")
    })?;
    if config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(host) if host.contains('@'))) {
        return Err(invalid("there are two '@' in the 'url'".into())
            .advise("in user and password write %40 for '@', %2F for '/' and %3A for ':', or give 'username' and 'password' as options"));
    }
    if let Some(user) = options.get("username") {
        config.user(user);
    }
    if let Some(password) = options.get("password") {
        config.password(password);
    }
    if config.get_application_name().is_none() {
        config.application_name("millstream");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(ATTEMPT);
    }
    Ok((config, encryption))
}

fn server(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".into(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{host}:{port}/{}", config.get_dbname().or(config.get_user()).unwrap_or_default())
}
