//! What a user sees when something is wrong: code, message, place, advice.
//!
//! The list of codes below is the only one; `docs/errors.md` is generated from it.

use crate::secret;
use std::borrow::Cow;
use std::fmt;

/// An error code, shown as `MS2001`. Ranges: 1xxx configuration, 2xxx query, 3xxx runtime, 4xxx connector,
/// 5xxx network, 9xxx a bug in Millstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MS{:04}", self.0)
    }
}

/// One entry of the list of codes, for the documentation.
#[derive(Debug, Clone, Copy)]
pub struct CodeInfo {
    /// The code.
    pub code: Code,
    /// What went wrong, in a few words.
    pub title: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

macro_rules! codes {
    ($($name:ident = $number:literal, $title:literal, $remedy:literal;)*) => {
        /// The error codes by name.
        pub mod code {
            use super::Code;
            $(#[doc = $title] pub const $name: Code = Code($number);)*
        }
        /// Every code with its meaning, in order of number.
        pub const ALL_CODES: &[CodeInfo] =
            &[$(CodeInfo { code: code::$name, title: $title, remedy: $remedy }),*];
    };
}

codes! {
    INVALID_CONFIG = 1001, "invalid configuration", "Correct the named key of millstream.toml, the environment variable or the flag.";
    INVALID_OPTION = 1002, "an option has an unusable value", "Give the value in the form that the message names.";
    MISSING_OPTION = 1003, "a required option is missing", "Add the option to WITH (…) or to SET.";
    UNKNOWN_OPTION = 1004, "an option does not exist", "Use one of the options that the message lists.";
    MISSING_VARIABLE = 1005, "a ${NAME} of the script has no value", "Pass --var NAME=value or set the environment variable NAME; for the text itself write $${NAME}.";
    USAGE = 1006, "the command line is not usable", "See millstream --help.";
    UNUSABLE_PARAMETER = 1007, "the parameters do not fit the script", "Give a value for each `?` in order, or for each $name.";
    FORKED = 1008, "the process was forked from one that uses Millstream", "Start processes with the method \"spawn\" or \"forkserver\" of multiprocessing.";
    SYNTAX = 2001, "SQL syntax error", "Write what the message says where the caret stands.";
    UNKNOWN_TABLE = 2002, "unknown table or view", "Create it first, or use the name suggested.";
    UNKNOWN_COLUMN = 2003, "unknown column or field", "Use one of the columns shown.";
    AMBIGUOUS_COLUMN = 2004, "a column name is ambiguous", "Qualify it with the table's name or alias.";
    UNKNOWN_FUNCTION = 2005, "unknown function", "Use the function suggested; SHOW FUNCTIONS lists all.";
    TYPE_MISMATCH = 2006, "types do not fit", "Cast the operand or the argument to the type that is expected.";
    UNSUPPORTED = 2007, "a feature of Flink SQL that Millstream does not have yet", "Write what the message says instead.";
    NEEDS_UPDATES = 2008, "the result changes where rows can only be added", "Write to a table that takes changes, or aggregate within a window (TUMBLE), so that results are only appended.";
    INVALID_WINDOW = 2009, "invalid window", "Use a time attribute (a column with WATERMARK FOR) and a positive constant size.";
    INVALID_TABLE = 2010, "invalid table definition", "Correct the definition at the place shown.";
    ALREADY_EXISTS = 2011, "the object exists already", "Drop it first, or use IF NOT EXISTS.";
    NOT_GROUPED = 2012, "a column is neither grouped nor aggregated", "Add it to GROUP BY or wrap it in an aggregate function.";
    SCHEMA_MISMATCH = 2013, "the query does not fit the sink table", "Select as many columns as the table has, of types that can be assigned.";
    INVALID_LITERAL = 2014, "invalid literal", "Write the literal in the form shown.";
    QUERY_TOO_LARGE = 2015, "the query is too large to be planned", "Write what is used often to a separate table, or split the query.";
    ENDLESS = 2016, "the query does not end", "Give a limit of rows or of time, or take its rows as they come.";
    KEY_MISMATCH = 2017, "the primary key of a table does not tell the rows of a changing result apart", "Declare the PRIMARY KEY that the message names, or group by the key of the table.";
    UNSTABLE_CHANGES = 2018, "a function gives another value each time where rows are taken back", "Leave the function out, or apply it when the result is read.";
    NULL_IN_NOT_NULL = 3001, "NULL in a NOT NULL column", "Give a value with COALESCE(x, …), leave such rows out with WHERE x IS NOT NULL, or declare the column without NOT NULL.";
    DIVISION_BY_ZERO = 3002, "division by zero", "Write x / NULLIF(y, 0): the result is NULL where y is 0.";
    INVALID_CAST = 3003, "a value cannot be cast", "Write TRY_CAST(x AS type): it gives NULL for what cannot be cast.";
    OVERFLOW = 3004, "a number is out of range", "Use a wider type, or TRY_CAST.";
    FUNCTION_FAILED = 3005, "a function rejected its arguments", "Give arguments that the function takes: DESCRIBE and TYPEOF(x) show types, SHOW FUNCTIONS lists functions.";
    NULL_ROWTIME = 3006, "the event time of a row is NULL", "Filter such rows in a view below the WATERMARK, or give a default with COALESCE.";
    CANCELLED = 3007, "the query was cancelled", "What was read is processed and complete windows are written; run it again for the rest.";
    WORKER_FAILED = 3008, "a worker failed", "Please report it with the message and the query.";
    COMPILE_FAILED = 3009, "the query could not be compiled to machine code", "Run with --tier interpret, and please report it.";
    OUT_OF_MEMORY = 3010, "the state of the query is larger than its memory budget", "Raise --memory, or keep less: shorter windows, a smaller watermark delay, fewer keys, a time to live ('table.exec.state.ttl').";
    CHECKPOINT_FAILED = 3011, "a checkpoint could not be written", "Check the state directory: free space, permissions, the connection to the store.";
    CHECKPOINT_DAMAGED = 3012, "a checkpoint is damaged or incomplete", "Recover from another one; 'millstream checkpoint verify' says which are whole.";
    QUERY_CHANGED = 3013, "the query is not the one that the state belongs to", "Run the query as it was, or start the job from the beginning with another state directory. Filters and columns behind the state, and options of sinks, may change.";
    NOT_RECOVERABLE = 3014, "the query cannot resume from its checkpoints", "Follow the message; another state directory starts the job from the beginning.";
    STATE_IN_USE = 3015, "the state directory belongs to a process that is running", "Stop that process ('millstream stop'), or use another directory.";
    SPILL_FAILED = 3016, "state could not be written to the disk or read back", "Give more room or another directory with 'pipeline.spill.directory' and 'pipeline.spill.budget'.";
    SUSPENDED = 3017, "the query was stopped with a checkpoint", "Run the same command again: it resumes where it stopped.";
    NOT_RUNNING = 3018, "no running job can be reached", "Check --state-dir: it is the one that the job was started with.";
    STUCK = 3019, "a job does not end", "A function of the program does not return; end the process if it must.";
    DUPLICATE_KEY = 3020, "two rows of a result have the same primary key", "Write INSERT … ON CONFLICT DO NOTHING or DO DEDUPLICATE, or have a key that tells rows apart.";
    FILE_NOT_FOUND = 4001, "file or directory not found", "Check the 'path' option.";
    READ_FAILED = 4002, "reading failed", "Check permissions and the medium.";
    WRITE_FAILED = 4003, "writing failed", "Check permissions and free space; nothing half-written is visible.";
    MALFORMED_RECORD = 4004, "malformed record", "Correct the record at the place shown; '<format>.ignore-parse-errors' = 'true' (json, csv, row) leaves such records out.";
    WRONG_TYPE = 4005, "a value does not fit the column's type", "Declare the column STRING, and convert it in the query with TRY_CAST, which gives NULL for what does not fit; or correct the record.";
    MISSING_FIELD = 4006, "a field is missing", "Correct the record, or leave 'json.fail-on-missing-field' out: the field is NULL then.";
    UNKNOWN_CONNECTOR = 4007, "unknown connector", "Use one of the connectors listed.";
    UNKNOWN_FORMAT = 4008, "unknown format", "Use one of the formats listed.";
    MALFORMED_FILE = 4009, "the file is damaged or of another format", "Look at the first bytes of the file (head -c 100): give the 'format' that it has, or fetch it again.";
    NOT_A_SOURCE = 4010, "the connector cannot be read", "Use it in INSERT INTO only.";
    NOT_A_SINK = 4011, "the connector cannot be written", "Use it in FROM only.";
    OUTPUT_CLOSED = 4012, "the reader of standard output has gone", "Nothing: it has read all that it wanted.";
    INPUT_CHANGED = 4013, "the input is not what it was when the checkpoint was taken", "Put the input back as it was, or start from the beginning with another state directory.";
    OUTPUT_EXISTS = 4014, "the output file exists", "Write INSERT OVERWRITE to replace it, give another 'path', or a directory: it gets more files.";
    OUTPUT_TAKEN = 4015, "another job of the service writes the output", "Give another 'path', or remove the script of the other job: this one starts by itself then.";
    CONNECTION_FAILED = 5001, "no connection", "Check 'hostname' and 'port', and that the other side runs; 'connect.timeout' says how long is tried.";
    CONNECTION_LOST = 5002, "a connection broke", "See why the other side went away, and run the query again.";
    LISTEN_FAILED = 5003, "an address cannot be listened on", "Give an address of this machine and a port that no other program uses.";
    REFUSED = 5004, "a server refuses what it is asked for", "Check user, password and certificates, and that the user has the rights it needs.";
    STALE_ATTEMPT = 5010, "a newer attempt of the job runs", "Nothing: this node has been replaced, and ends.";
    NODES_DIFFER = 5011, "the nodes of a job do not run the same", "Install one version of Millstream on all nodes, and give all the same script, settings and list of nodes.";
    STATE_NOT_SHARED = 5012, "a node does not see the state directory of the job", "Give a state directory that all nodes share: s3://bucket/prefix, or a path of a shared file system.";
    NODE_UNREACHABLE = 5013, "a node cannot be reached", "Check that 'millstream node' runs there, its address, and what is between the machines.";
    NODE_LOST = 5014, "the connection to a node broke", "See in the log of that node why it went away; the job resumes from its last checkpoint.";
    WRONG_TOKEN = 5015, "a node does not know the token of the job", "Give all nodes the same token.";
    DAMAGED_FRAME = 5016, "what a node has sent arrived damaged", "The job resumes from its last checkpoint; if it happens again, check memory and network of both machines.";
    NOT_ENCRYPTED = 5017, "nodes would talk to each other without encryption", "Give --cluster-ca, --cluster-cert and --cluster-key, or say --insecure-cluster.";
    CERTIFICATE_REJECTED = 5018, "a node's certificate is not accepted", "Give each node a certificate of the same authority, with the name under which the others reach it.";
    OUTPUT_NOT_SHARED = 5019, "a node does not see the directory of the output", "Give a path of a file system that all nodes share; or set 'sink.parallelism' = '1', so that the first node writes all rows.";
    BUG = 9001, "a bug in Millstream", "Please report it with the query and the message.";
}

/// Where the trouble is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a SQL text: line and column from 1, length in characters of what is underlined.
    Sql {
        /// Line, from 1.
        line: u64,
        /// Column in characters, from 1.
        column: u64,
        /// Characters to underline; at least 1.
        length: u64,
    },
    /// In a file or stream.
    Data {
        /// File path, or a name such as `stdin`.
        resource: String,
        /// Byte offset of the record from the start of the (decompressed) file.
        offset: Option<u64>,
        /// Line from 1.
        line: Option<u64>,
        /// Column of the table, dotted for nested fields.
        column: Option<String>,
    },
    /// A key of `WITH (…)`, `SET` or the configuration.
    Option(String),
}

/// An error, or a warning, for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// The code.
    pub code: Code,
    /// What is wrong: a sentence without a full stop.
    pub message: String,
    /// Where.
    pub place: Option<Place>,
    /// What to do.
    pub advice: Option<String>,
}

impl Diagnostic {
    /// A diagnostic without place or advice. Secrets in it are masked, here and in what is added to it.
    pub fn new(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, message: concealed(message.into()), place: None, advice: None }
    }

    /// An internal error: something that cannot happen has happened.
    pub fn bug(message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code::BUG, message).advise("this is a bug in Millstream; please report it with the query")
    }

    /// Adds the place, unless a more precise one is there already.
    #[must_use]
    pub fn at(mut self, place: Place) -> Diagnostic {
        self.place.get_or_insert(match place {
            Place::Data { resource, offset, line, column } => {
                Place::Data { resource: concealed(resource), offset, line, column }
            }
            place => place,
        });
        self
    }

    /// What to do: the advice, else the remedy that the list of codes has.
    pub fn help(&self) -> Option<&str> {
        let remedy = || ALL_CODES.iter().find(|info| info.code == self.code).map(|info| info.remedy);
        self.advice.as_deref().or_else(remedy)
    }

    /// Sets the advice.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Diagnostic {
        self.advice = Some(concealed(advice.into()));
        self
    }
}

fn concealed(text: String) -> String {
    match secret::conceal(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(masked) => masked,
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Sql { line, column, .. } => write!(f, "line {line}, column {column}"),
            Place::Data { resource, offset, line, column } => {
                f.write_str(resource)?;
                if let Some(line) = line {
                    write!(f, ", line {line}")?;
                }
                if let Some(offset) = offset {
                    write!(f, ", byte {offset}")?;
                }
                if let Some(column) = column {
                    write!(f, ", column {column}")?;
                }
                Ok(())
            }
            Place::Option(key) => write!(f, "option '{key}'"),
        }
    }
}

/// `error[MS2003]: unknown column "x" (line 1, column 8); advice`, on one line.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        if let Some(place) = &self.place {
            write!(f, " ({place})")?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}
