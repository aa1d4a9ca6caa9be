//! The command line: one definition for parsing, `--help` and docs/cli.md.
//!
//! Every option has an environment variable `MILLSTREAM_…`; those that are settings rather than parts of one command
//! also have a key in `millstream.toml`. A flag wins over the environment, the environment over the file.

use clap::builder::{BoolishValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell as Shells;
use millstream::storage::is_savepoint_name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Display};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;

/// Stream processing with Flink's SQL on one well-used machine.
#[derive(Debug, Parser)]
#[command(name = "millstream", version = version(), max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The version, and what it was built of: the commit and its date if the build was told (`scripts/build_info.sh`), and LLVM.
fn version() -> String {
    let source = match (option_env!("MILLSTREAM_BUILD_COMMIT"), option_env!("MILLSTREAM_BUILD_DATE")) {
        (Some(commit), Some(date)) => format!("commit {commit} of {date}"),
        _ => "development build".into(),
    };
    format!("{} ({source}, LLVM {})", env!("CARGO_PKG_VERSION"), millstream::llvm_version())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a SQL script: a file, `-` for standard input, or -e 'SQL'
    Run(Script),
    /// Run the scripts of a directory as jobs of a service: DIR/*.sql, each with its state
    ///
    /// Each file is a job, called as the file is without `.sql`; its state is in DIR/.state, or in --state-dir. What is changed in the directory
    /// is applied within seconds. Files that begin with `.` or `_` are left out; the statements of `_common.sql` come before those of each job.
    Serve {
        /// The directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Let those who have the token of --http-token-file write and remove scripts of DIR over --http; whoever has it can read and write all
        /// that this process can
        #[arg(long, env = "MILLSTREAM_ALLOW_SUBMIT", value_parser = BoolishValueParser::new())]
        allow_submit: bool,
    },
    /// Take part in the runs of others (millstream run --cluster), until it is stopped
    Node {
        /// Where the others reach it: HOST:PORT
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
        listen: String,
        #[command(flatten)]
        security: ClusterSecurity,
    },
    /// Look at a job on several nodes, stop it with a checkpoint, or have it resume on another number of nodes
    ///
    /// It is the one that this machine runs with this --state-dir, or the --job that runs by itself on a Ray cluster (millstream run --detached).
    Cluster {
        /// What to do
        action: ClusterAction,
        /// To rescale: how many nodes take part from now on, the first one included [default: all that are there]
        #[arg(long, value_name = "N")]
        nodes: Option<NonZeroUsize>,
        /// On Ray: what the job is called
        #[arg(long, value_name = "NAME")]
        job: Option<String>,
        /// The Ray cluster: ray://HOST:10001 or HOST:6379 [default: that of this machine]
        #[arg(long, requires = "job")]
        address: Option<String>,
    },
    /// Work interactively: statements end with `;`, history and completion included
    Sql(Shell),
    /// Show how the queries of a script would be executed, without running them
    Explain(Explain),
    /// Print the CREATE TABLE statement for a file, a directory or a glob, with the columns that are found in it
    Schema {
        /// The path: CSV, JSON, Parquet, Arrow or Avro, also compressed
        path: String,
        /// The table's name [default: what the file is called]
        #[arg(long)]
        name: Option<String>,
    },
    /// Stop the job that runs with this --state-dir: it takes a checkpoint, from which it resumes when it is run again
    Stop {
        /// Keep that checkpoint under this name
        #[arg(long, value_name = "NAME")]
        savepoint: Option<String>,
    },
    /// Look at the checkpoints in a --state-dir, and look after them
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Measure Millstream beside its baselines (docs/benchmarks.md): starts millstream-bench, which lies beside millstream
    #[command(disable_help_flag = true)]
    Bench {
        /// Names of benchmarks and options of millstream-bench; --help lists them
        #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print what makes a shell complete commands and options of millstream
    ///
    /// For bash: millstream completions bash > ~/.local/share/bash-completion/completions/millstream
    Completions {
        /// The shell
        shell: Shells,
    },
    /// Write the manual pages into a folder: millstream.1, and one for each command
    #[command(hide = true)]
    Man {
        /// The folder
        folder: PathBuf,
    },
    /// Write the generated pages of docs/ into a folder
    #[command(hide = true)]
    Docs {
        /// The folder
        folder: PathBuf,
    },
}

/// What is done about a job on several nodes.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ClusterAction {
    /// Print its state, its nodes, and what it has said last
    Status,
    /// Have it take a checkpoint and end
    Stop,
    /// Have it take a checkpoint, and resume from it on another number of nodes
    Rescale,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Take a checkpoint of the running job now
    Create {
        /// Keep it under this name, a savepoint, until it is deleted; of a job that does not run, the newest one is kept
        #[arg(long)]
        name: Option<String>,
    },
    /// List all checkpoints, the newest of each job first, and savepoints
    List,
    /// Show what a checkpoint consists of: positions, watermarks, state, sinks, plan
    Show {
        /// Its number, or the name of a savepoint [default: the newest]
        checkpoint: Option<Which>,
        /// Name or number of the job [default: the first that has the checkpoint]
        #[arg(long)]
        job: Option<String>,
    },
    /// Read everything that checkpoints consist of, and compare checksums; fails if any of them is damaged
    Verify {
        /// The number of one, or the name of a savepoint [default: all]
        checkpoint: Option<Which>,
    },
    /// Have the job resume from an earlier checkpoint when it is run again; not while it runs
    ///
    /// What it has written behind that checkpoint is taken back where the sink can (files), or the job is refused (Kafka, PostgreSQL).
    Restore {
        /// Its number, or the name of a savepoint
        checkpoint: Which,
        /// Name or number of the job [default: all that have the savepoint]
        #[arg(long)]
        job: Option<String>,
    },
    /// Delete checkpoints and savepoints, and the files that no other one needs; not while the job runs
    Delete {
        /// Their numbers or names
        #[arg(required = true)]
        checkpoints: Vec<Which>,
        /// Name or number of the job [default: all jobs]
        #[arg(long)]
        job: Option<String>,
    },
}

/// A checkpoint by its number, or a savepoint by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    Number(u64),
    Name(String),
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Which, String> {
        match text.parse() {
            Ok(number) => Ok(Which::Number(number)),
            Err(_) if is_savepoint_name(text) => Ok(Which::Name(text.into())),
            Err(_) => Err("neither the number of a checkpoint nor the name of a savepoint".into()),
        }
    }
}

impl Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::Number(number) => write!(f, "checkpoint {number}"),
            Which::Name(name) => write!(f, "savepoint '{name}'"),
        }
    }
}

/// A script to execute.
#[derive(Debug, Args)]
pub(crate) struct Script {
    /// File with SQL statements, or `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "statements")]
    pub(crate) file: Option<PathBuf>,
    /// SQL to execute, after FILE if both are given; may be repeated
    #[arg(short = 'e', long = "execute", value_name = "SQL")]
    pub(crate) statements: Vec<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    #[command(flatten)]
    pub(crate) ray: RayArguments,
}

/// What Ray is asked for. The Python package reads these (`python/millstream/_ray_command.py`), and no process of the engine ever sees them there.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RayArguments {
    /// With --cluster ray: nodes on one machine [default: 1, or all where Ray is started for the run]
    #[arg(long, value_name = "N")]
    pub(crate) nodes_per_host: Option<usize>,
    /// With --cluster ray: the job runs by itself on the cluster, under the name of --job
    #[arg(long)]
    pub(crate) detached: bool,
    /// With --cluster ray: what the job is called there [default: the name of the script]
    #[arg(long, value_name = "NAME")]
    pub(crate) job: Option<String>,
}

impl RayArguments {
    /// An option that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let RayArguments { nodes_per_host, detached, job } = self;
        [(nodes_per_host.is_some(), "--nodes-per-host"), (*detached, "--detached"), (job.is_some(), "--job")]
            .into_iter()
            .find_map(|(is_given, name)| is_given.then_some(name))
    }
}

/// Where the nodes of a run are.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClusterArguments {
    /// Run on the nodes of a cluster (`millstream node`) as well: static://HOST:PORT,HOST:PORT; static+dns://NAME:PORT for every address of
    /// a name; static+file:///PATH for a file with one HOST:PORT a line, which may change while a job runs; or, of the Python package, ray or
    /// ray://HOST:10001
    #[arg(long, env = "MILLSTREAM_CLUSTER", value_name = "NODES")]
    pub(crate) cluster: Option<String>,
    /// How many nodes take part, this process included; on Ray always, otherwise at most [default: all that are there]
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<NonZeroUsize>,
    /// Where the nodes reach this process: HOST:PORT, port 0 for any
    #[arg(long, env = "MILLSTREAM_CLUSTER_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) cluster_listen: String,
    /// How long to wait for nodes that are not there, before a run begins without them, for those that another run has, and for a process in the place of a node that is lost
    #[arg(long, env = "MILLSTREAM_CLUSTER_REPLACEMENT_TIMEOUT", value_name = "SECONDS", default_value = "60")]
    pub(crate) cluster_replacement_timeout: u64,
    #[command(flatten)]
    pub(crate) security: ClusterSecurity,
}

/// How the processes of a cluster trust each other.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClusterSecurity {
    /// File with the token that all processes of the cluster have: 16 characters or more [default: the environment variable
    /// MILLSTREAM_CLUSTER_TOKEN]
    #[arg(long, env = "MILLSTREAM_CLUSTER_TOKEN_FILE", value_name = "FILE")]
    pub(crate) cluster_token_file: Option<PathBuf>,
    /// Certificates (PEM) that sign those of the other processes
    #[arg(long, env = "MILLSTREAM_CLUSTER_CA", value_name = "FILE", requires_all = ["cluster_cert", "cluster_key"])]
    pub(crate) cluster_ca: Option<PathBuf>,
    /// Certificate of this process (PEM)
    #[arg(long, env = "MILLSTREAM_CLUSTER_CERT", value_name = "FILE", requires = "cluster_ca")]
    pub(crate) cluster_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, env = "MILLSTREAM_CLUSTER_KEY", value_name = "FILE", requires = "cluster_ca")]
    pub(crate) cluster_key: Option<PathBuf>,
    /// The name in the certificates of the other processes, where it is not the host by which they are reached
    #[arg(long, env = "MILLSTREAM_CLUSTER_SERVER_NAME", value_name = "NAME", requires = "cluster_ca")]
    pub(crate) cluster_server_name: Option<String>,
    /// Speak to other machines without TLS: whoever reads the network has the token and the data
    #[arg(long, env = "MILLSTREAM_INSECURE_CLUSTER", value_parser = BoolishValueParser::new())]
    pub(crate) insecure_cluster: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Script to execute first, such as one with CREATE TABLE statements
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// SQL to execute first; may be repeated
    #[arg(short = 'e', long = "execute", value_name = "SQL")]
    pub(crate) statements: Vec<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) script: Script,
    /// Also show row programs, LLVM IR and assembly
    #[arg(long)]
    pub(crate) codegen: bool,
    /// Run each, and show the pipelines with what each has done
    #[arg(long, conflicts_with = "codegen")]
    pub(crate) analyze: bool,
}

/// Options of every command, and the keys of `millstream.toml`, which are optional there; unknown ones are errors.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Common {
    /// Worker threads [default: number of cores]
    #[arg(long, global = true, env = "MILLSTREAM_WORKERS", value_name = "N")]
    pub(crate) workers: Option<usize>,
    /// How pipelines execute [default: auto]
    #[arg(long, global = true, env = "MILLSTREAM_TIER", value_name = "TIER")]
    pub(crate) tier: Option<TierArgument>,
    /// Most rows of a buffer; 0 lets the engine choose [default: 0]
    #[arg(long, global = true, env = "MILLSTREAM_BUFFER_ROWS", value_name = "ROWS")]
    pub(crate) buffer_rows: Option<usize>,
    /// How workers share the tables of an aggregation [default: auto]
    #[arg(long, global = true, env = "MILLSTREAM_MERGE", value_name = "STRATEGY")]
    pub(crate) merge: Option<MergeArgument>,
    /// Memory of a query: '4 GiB', '500 MB', or a share of what there is [default: 60%, or all but 88 MiB]
    #[arg(long, global = true, env = "MILLSTREAM_MEMORY", value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// State directory, a path or s3://bucket/prefix: inserts are checkpointed there, and resume from their last checkpoint when they
    /// are run again
    #[arg(long, global = true, env = "MILLSTREAM_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<String>,
    /// Pin each worker to a core
    #[arg(long, global = true, env = "MILLSTREAM_PIN", value_parser = BoolishValueParser::new())]
    pub(crate) pin: bool,
    /// Set a session option, as SET 'key' = 'value' does; may be repeated
    #[arg(long = "set", global = true, env = "MILLSTREAM_SET", value_name = "KEY=VALUE", value_delimiter = ';')]
    #[serde(skip)]
    pub(crate) settings: Vec<String>,
    /// Value of ${NAME} in scripts (else the environment variable NAME); may be repeated
    #[arg(long = "var", global = true, env = "MILLSTREAM_VAR", value_name = "NAME=VALUE", value_delimiter = ';')]
    #[serde(skip)]
    pub(crate) variables: Vec<String>,
    /// Form of the rows of a SELECT [default: table on a terminal, else json]
    #[arg(long, short = 'o', global = true, env = "MILLSTREAM_OUTPUT", value_name = "FORMAT")]
    pub(crate) output: Option<OutputArgument>,
    /// Show no status line, summary or messages, only rows and errors
    #[arg(long, short = 'q', global = true, env = "MILLSTREAM_QUIET", value_parser = BoolishValueParser::new())]
    pub(crate) quiet: bool,
    /// Write a summary of each query to standard error [default: one line on a terminal, else none]
    #[arg(long, global = true, env = "MILLSTREAM_STATS", value_name = "FORM")]
    pub(crate) stats: Option<StatsArgument>,
    /// Also write it while a query runs, at this interval
    #[arg(long, global = true, env = "MILLSTREAM_STATS_EVERY", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..).try_map(NonZeroU64::try_from))]
    pub(crate) stats_every: Option<NonZeroU64>,
    /// Serve the dashboard, /api, /metrics, /health and /ready at a port of this machine, or at HOST:PORT for others as well
    #[arg(long, global = true, env = "MILLSTREAM_HTTP", value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// File with the token that whoever uses the dashboard from elsewhere has to know; with --http-certificate
    #[arg(long, global = true, env = "MILLSTREAM_HTTP_TOKEN_FILE", value_name = "FILE")]
    pub(crate) http_token_file: Option<PathBuf>,
    /// Serve --http under TLS, with this certificate in PEM
    #[arg(long, global = true, env = "MILLSTREAM_HTTP_CERTIFICATE", value_name = "FILE")]
    pub(crate) http_certificate: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, global = true, env = "MILLSTREAM_HTTP_KEY", value_name = "FILE")]
    pub(crate) http_key: Option<PathBuf>,
    /// Also answer under this host name, as a proxy before a port of this machine asks; may be repeated
    #[arg(long = "http-name", global = true, env = "MILLSTREAM_HTTP_NAME", value_name = "HOST", value_delimiter = ',')]
    #[serde(rename = "http-name")]
    pub(crate) http_names: Vec<String>,
    /// Send metrics and traces to an OpenTelemetry collector: OTLP over gRPC, such as http://127.0.0.1:4317
    #[arg(long, global = true, env = "MILLSTREAM_OTLP", value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Form of the messages on standard error [default: text]
    #[arg(long, global = true, env = "MILLSTREAM_LOG_FORMAT", value_name = "FORM")]
    pub(crate) log_format: Option<LogArgument>,
    /// Configuration file [default: millstream.toml in this directory, if there is one]
    #[arg(long, global = true, env = "MILLSTREAM_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Session options in the file, as by SET
    #[arg(skip)]
    pub(crate) set: BTreeMap<String, Scalar>,
    /// Values of `${NAME}` in the file
    #[arg(skip)]
    pub(crate) var: BTreeMap<String, Scalar>,
}

/// A value that becomes text: people write `"pipeline.buffer-rows" = 1` as well as `= "1"`.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string, a number or a boolean")]
pub(crate) enum Scalar {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

/// How pipelines execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TierArgument {
    /// Interpreted at once, compiled in the background
    Auto,
    /// Interpreted only
    #[value(name = "interpret", alias = "interpreted")]
    #[serde(rename(deserialize = "interpret"), alias = "interpreted")]
    Interpreted,
    /// Compiled before the first row
    #[value(name = "compile", alias = "compiled")]
    #[serde(rename(deserialize = "compile"), alias = "compiled")]
    Compiled,
}

/// How workers share the tables of an aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MergeArgument {
    /// As the numbers of keys, rows and workers suggest
    Auto,
    /// A table for each worker, merged at the end of a window
    Local,
    /// One lock-free table for each NUMA node
    Global,
    /// Rows are exchanged by key first
    Partition,
}

/// Form of the rows of a SELECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OutputArgument {
    /// Aligned text, for people
    Text,
    /// On a terminal the newest rows, in a table that stays where it is and shows how fast rows come in; elsewhere as text
    Live,
    /// One object per line, as Flink's json format writes it
    Json,
    /// Comma-separated values with a header line
    Csv,
    /// Arrow IPC stream
    Arrow,
    /// A Parquet file
    Parquet,
}

/// Form of the messages on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogArgument {
    /// For people
    Text,
    /// Lines with time and level: `2026-01-01T12:00:00.078Z INFO …`
    Lines,
    /// A JSON object per line: `time`, `level`, `message`, and `code` of an error
    Json,
}

/// Form of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StatsArgument {
    /// A few lines for people, with the times and queues of every part of the query
    Text,
    /// One JSON object per query
    Json,
    /// None
    None,
}
