//! Which connectors there are, and how a table's options become a source or a sink.
//!
//! A connector is one entry of [`CONNECTORS`]; options, documentation, error messages and rate limits follow from it.

use crate::declaration::{Connector, TakesFormats};
use crate::format::Format;
use crate::formats::FORMATS;
use crate::infer::not_known;
#[cfg(feature = "kafka")]
use crate::kafka;
use crate::option_table::{check_options, known_names, markdown, not_built, option_fault, option_list};
#[cfg(feature = "postgres")]
use crate::postgres;
use crate::rate_limit::RateLimitedSource;
use crate::{Sink, SinkRequest, Source, SourceRequest, blackhole, datagen, filesystem, nexmark, print, socket};
use millstream_types::{Code, Diagnostic, Inferred, Options, TakesChanges, code};
use std::path::PathBuf;

/// Every connector, in the order of the documentation.
pub(crate) const CONNECTORS: &[Connector] = &[
    filesystem::CONNECTOR,
    #[cfg(feature = "kafka")]
    kafka::CONNECTOR,
    #[cfg(feature = "kafka")]
    kafka::UPSERTS,
    socket::CONNECTOR,
    #[cfg(feature = "postgres")]
    postgres::CONNECTOR,
    nexmark::CONNECTOR,
    datagen::CONNECTOR,
    print::CONNECTOR,
    blackhole::CONNECTOR,
];

/// Connectors that this program was built without.
const LEFT_OUT: &[&str] = &[
    #[cfg(not(feature = "kafka"))]
    "kafka",
    #[cfg(not(feature = "kafka"))]
    "upsert-kafka",
    #[cfg(not(feature = "postgres"))]
    "jdbc",
];

// Options that every table has.
option_list! {
    pub(crate) COMMON_OPTIONS;
    "connector": Text, "", "The connector.";
    RATE_LIMIT = "scan.rate-limit.rows-per-second": Number, "", "Slows a source down to this many rows per second, over all its splits; for demonstrations and tests.";
    "scan.watermark.idle-timeout": Duration, "", "A split that was silent for this long no longer holds the watermark back.";
    PARALLELISM = "sink.parallelism": Integer, "", "`1`: of several nodes the first one writes the rows of all. Otherwise every node writes its own, where the connector can do that.";
    "late.table": Text, "", "The table that rows go to which come too late for their windows; its columns have the types of this table's.";
}

/// Opens a table for reading.
pub fn open_source(request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
    let connector = connector(&request.options, &request.table)?;
    let open = connector
        .source
        .ok_or_else(|| connector.cannot_be(code::NOT_A_SOURCE, "read", &request.table, "INSERT INTO"))?;
    check(connector, &request.options)?;
    let own = connector.own_rate.map(|rate| rate(&request.options)).transpose()?.flatten().map(|rate| rate as f64);
    let Some(rate) = rate_limit(&request.options)?.or(own) else { return open(request) };
    let Some(split_front) = connector.split_front else {
        return Err(request.options.invalid(RATE_LIMIT.key, "possible with this connector"));
    };
    // Small chunks make for smooth pacing: about twenty in a second.
    let rows = (rate / 20.0).max(1.0) as u64;
    let mut request = request.clone();
    if request.buffer_rows == 0 || request.buffer_rows as u64 > rows {
        request.buffer_rows = rows as usize;
    }
    Ok(Box::new(RateLimitedSource::new(open(&request)?, rate, rows, split_front)))
}

/// Opens a table for writing.
pub fn open_sink(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    let connector = connector(&request.options, &request.table)?;
    let open =
        connector.sink.ok_or_else(|| connector.cannot_be(code::NOT_A_SINK, "written", &request.table, "FROM"))?;
    check(connector, &request.options)?;
    // Who plans a query asks before; a connector that knows nothing of changes would take them for rows.
    if request.changes.is_some() && (connector.changes)(&request.options) == TakesChanges::Nothing {
        let (table, name) = (&request.table, connector.name);
        return Err(Diagnostic::bug(format!("table '{table}' ('connector' = '{name}') is to take changes")));
    }
    open(request)
}

/// Whether each of several nodes may have a sink of a table, which writes the rows of that node.
pub fn is_on_every_node(request: &SinkRequest) -> bool {
    let is_asked = PARALLELISM.text(&request.options).trim() != "1";
    is_asked && connector(&request.options, &request.table).is_ok_and(|connector| (connector.is_on_every_node)(request))
}

/// The local file or directory that a sink of a table with these options writes, under the one name that it has, whatever way leads to it;
/// `None` of what is none, and of what takes the output of several, such as standard output and devices.
pub fn written_path(options: &Options) -> Option<PathBuf> {
    (connector(options, "").ok()?.written_path)(options)
}

/// Checks the options of a table as far as that is possible without opening it: the connector, the format and the names
/// of all options.
pub fn check_table_options(table: &str, options: &Options) -> Result<(), Diagnostic> {
    check(connector(options, table)?, options)
}

/// Whether a table with these options can be read and ends by itself. Options that opening it would find fault with
/// count as an endless table.
pub fn is_bounded(options: &Options) -> bool {
    connector(options, "").is_ok_and(|c| c.source.is_some() && (c.is_bounded)(options))
}

/// Which changes a table with these options can be given. Options that opening it would find fault with take none.
pub fn takes_changes(options: &Options) -> TakesChanges {
    connector(options, "").map_or(TakesChanges::Nothing, |connector| (connector.changes)(options))
}

/// Whether the rows of a table with these options are changes, if it has a primary key: then they have the metadata column
/// [`CHANGE_COLUMN`](millstream_types::CHANGE_COLUMN).
pub fn gives_changes(options: &Options) -> bool {
    connector(options, "").is_ok_and(|connector| connector.source.is_some() && (connector.gives_changes)(options))
}

/// The columns of the table of a name with these options, which its definition does not have.
///
/// Fails when its connector or format does not say which they are, and when its input cannot be read.
pub fn infer_columns(table: &str, options: &Options) -> Result<Inferred, Diagnostic> {
    let connector = connector(options, table)?;
    let infer = connector.infer.ok_or_else(|| {
        not_known(format!("the connector '{}' does not say which columns table '{table}' has", connector.name))
    })?;
    infer(options)
}

/// Names of all connectors.
fn connector_names() -> impl Iterator<Item = &'static str> {
    CONNECTORS.iter().map(|connector| connector.name)
}

/// The reference of all connectors, formats and options, in Markdown.
pub fn options_reference_markdown() -> String {
    let mut out = String::from("## Options of every table\n\n");
    markdown(COMMON_OPTIONS, &mut out);
    for connector in CONNECTORS {
        let directions = match (connector.source.is_some(), connector.sink.is_some()) {
            (true, true) => "source and sink",
            (true, false) => "source",
            _ => "sink",
        };
        let changes = match (connector.changes)(&Options::new()) {
            TakesChanges::Nothing => "",
            TakesChanges::ByPrimaryKey => " It takes results that change, into a table with a `PRIMARY KEY`.",
            TakesChanges::Anything => " It takes results that change.",
        };
        let (name, summary) = (connector.name, connector.summary);
        out.push_str(&format!("## Connector `{name}` ({directions})\n\n{summary}{changes}\n\n"));
        if !connector.options.is_empty() {
            markdown(connector.options, &mut out);
        }
    }
    for format in FORMATS {
        out.push_str(&format!("## Format `{}`\n\n{}\n\n", format.name, format.summary));
        if !format.options.is_empty() {
            markdown(format.options, &mut out);
        }
    }
    out
}

fn connector(options: &Options, table: &str) -> Result<&'static Connector, Diagnostic> {
    let name = options.get("connector").ok_or_else(|| {
        let names = connector_names().collect::<Vec<_>>().join(", ");
        let advice = format!("add 'connector' = '…' to WITH (…); known connectors: {names}");
        option_fault(code::MISSING_OPTION, "connector", format!("table '{table}' has no option 'connector'"), advice)
    })?;
    CONNECTORS.iter().find(|connector| connector.name == name).ok_or_else(|| {
        if LEFT_OUT.contains(&name) {
            return not_built(code::UNKNOWN_CONNECTOR, "connector", &format!("connector '{name}'"));
        }
        let names = || known_names(name, "connectors", &connector_names().collect::<Vec<_>>());
        let advice = instead_of(name).map_or_else(names, str::to_owned);
        option_fault(code::UNKNOWN_CONNECTOR, "connector", format!("there is no connector '{name}'"), advice)
    })
}

/// What to write instead of a connector of Flink or of another system.
fn instead_of(name: &str) -> Option<&'static str> {
    let base = name.to_ascii_lowercase();
    Some(match base.as_str() {
        _ if base.ends_with("-cdc") => {
            "have Debezium write the changes to Kafka, and read them: 'connector' = 'kafka', 'format' = 'debezium-json', and a PRIMARY KEY"
        }
        "file" | "files" | "fs" | "s3" | "hdfs" => "write 'connector' = 'filesystem' with 'path' and 'format'",
        "csv" | "json" | "parquet" | "avro" | "arrow" => {
            "that is a format: write 'connector' = 'filesystem' with 'path' = '…' and the name as 'format'"
        }
        "iceberg" | "paimon" | "hudi" | "delta" | "hive" => {
            "read or write its Parquet files: 'connector' = 'filesystem', 'path' = '…', 'format' = 'parquet'"
        }
        "postgres" | "postgresql" => {
            "write 'connector' = 'jdbc', 'url' = 'jdbc:postgresql://host:5432/database', 'table-name' = '…'"
        }
        "console" | "stdout" => "write 'connector' = 'print'",
        "faker" | "generator" | "values" => "write 'connector' = 'datagen'",
        "tcp" => "write 'connector' = 'socket' with 'hostname' and 'port'",
        "null" | "dev-null" => "write 'connector' = 'blackhole'",
        _ if [
            "elasticsearch",
            "opensearch",
            "mongo",
            "hbase",
            "redis",
            "clickhouse",
            "kinesis",
            "pulsar",
            "cassandra",
        ]
        .iter()
        .any(|other| base.starts_with(other)) =>
        {
            "write to one that is there: 'kafka' (topics), 'jdbc' (PostgreSQL) or 'filesystem' (JSON, CSV, Parquet, Avro)"
        }
        _ => return None,
    })
}

impl Connector {
    /// The error for a table that can only be used in another clause.
    fn cannot_be(&self, code: Code, done: &str, table: &str, clause: &str) -> Diagnostic {
        let message = format!("table '{table}' has the connector '{}', which cannot be {done}", self.name);
        let instead = match done {
            "read" => "to read rows, declare a table with 'connector' = 'filesystem', 'kafka', 'socket' or 'datagen'",
            _ => "to write rows, declare a table with 'connector' = 'filesystem', 'kafka', 'socket', 'jdbc' or 'print'",
        };
        option_fault(code, "connector", message, format!("use `{table}` in {clause} only; {instead}"))
    }
}

fn check(connector: &Connector, options: &Options) -> Result<(), Diagnostic> {
    let mut what = format!("the connector '{}'", connector.name);
    let mut tables = vec![("", COMMON_OPTIONS), ("", connector.options)];
    match connector.formats {
        TakesFormats::None => {}
        TakesFormats::OfMessages(formats) => {
            tables.extend(formats(options)?.iter().map(|format| (format.prefix, format.format.options)));
        }
        TakesFormats::OfStreams => {
            let format = Format::of(options)?;
            if format.extension.is_none() {
                let message = format!("the format '{}' is for messages, not for {what}", format.name);
                let advice =
                    format!("write 'format' = 'json' or 'csv'; '{}' goes with 'connector' = 'kafka'", format.name);
                return Err(option_fault(code::INVALID_OPTION, "format", message, advice));
            }
            what = format!("{what} with the format '{}'", format.name);
            tables.push(("", format.options));
        }
    }
    check_options(options, &what, &tables)?;
    (connector.require)(options)
}

fn rate_limit(options: &Options) -> Result<Option<f64>, Diagnostic> {
    let key = RATE_LIMIT.key;
    if options.get(key).is_none() {
        return Ok(None);
    }
    let rate = options.parse(key, 0.0f64)?;
    if rate.is_finite() && rate > 0.0 { Ok(Some(rate)) } else { Err(options.invalid(key, "a positive number")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChangedBy;
    use millstream_types::Schema;

    fn open(options: &[(&str, &str)]) -> Diagnostic {
        let options: Options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let schema = Schema::default();
        let request = SourceRequest { table: "t".into(), options, schema, ..SourceRequest::default() };
        match open_source(&request) {
            Ok(_) => panic!("must not open"),
            Err(error) => error,
        }
    }

    #[test]
    fn unknown_names_are_answered_with_the_nearest() {
        let error = open(&[("connector", "filesytem")]);
        assert_eq!(error.code, code::UNKNOWN_CONNECTOR);
        assert!(error.advice.unwrap().starts_with("did you mean 'filesystem'?"));
        let error = open(&[("connector", "filesystem"), ("path", "x"), ("format", "jason")]);
        assert_eq!(error.code, code::UNKNOWN_FORMAT);
        assert!(error.advice.unwrap().starts_with("did you mean 'json'?"));
        let error = open(&[
            ("connector", "filesystem"),
            ("path", "x"),
            ("format", "json"),
            ("json.ignore-parse-error", "true"),
        ]);
        assert_eq!(error.code, code::UNKNOWN_OPTION);
        assert!(error.advice.unwrap().starts_with("did you mean 'json.ignore-parse-errors'?"));
        // Options of another format do not exist for this one.
        let error = open(&[("connector", "filesystem"), ("path", "x"), ("format", "json"), ("csv.header", "true")]);
        assert_eq!(error.code, code::UNKNOWN_OPTION);
        assert_eq!(open(&[]).code, code::MISSING_OPTION);
        assert_eq!(open(&[("connector", "filesystem"), ("format", "json")]).code, code::MISSING_OPTION);
    }

    #[test]
    fn rates_must_be_positive() {
        for rate in ["0", "-1", "fast", "NaN"] {
            let error = open(&[("connector", "filesystem"), ("path", "-"), ("format", "json"), (RATE_LIMIT.key, rate)]);
            assert_eq!(error.code, code::INVALID_OPTION, "{rate}");
        }
    }

    #[test]
    fn who_takes_changes_says_so() {
        let takes = |options: &[(&str, &str)]| {
            takes_changes(&options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
        };
        let all = [
            ("jdbc", TakesChanges::ByPrimaryKey),
            ("upsert-kafka", TakesChanges::ByPrimaryKey),
            ("print", TakesChanges::Anything),
            ("blackhole", TakesChanges::Anything),
        ];
        for connector in CONNECTORS {
            let expected =
                all.iter().find(|(name, _)| *name == connector.name).map_or(TakesChanges::Nothing, |(_, t)| *t);
            assert_eq!(takes(&[("connector", connector.name)]), expected, "{}", connector.name);
        }
        assert_eq!(takes(&[]), TakesChanges::Nothing);
        // Whether a topic can be given changes depends on the format of its values.
        for (key, format, expected) in [
            ("format", "debezium-json", TakesChanges::Anything),
            ("value.format", "debezium-json", TakesChanges::Anything),
            ("format", "json", TakesChanges::Nothing),
        ] {
            assert_eq!(takes(&[("connector", "kafka"), (key, format)]), expected, "{format}");
        }
        assert_eq!(options_reference_markdown().matches(" It takes results that change").count(), all.len());
    }

    #[test]
    fn changes_do_not_reach_who_takes_none() {
        let options = [("connector", "filesystem"), ("path", "/dev/null"), ("format", "json")];
        let error = open_sink(&SinkRequest {
            table: "t".into(),
            options: options.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            schema: Schema::default(),
            metadata: vec![],
            primary_key: vec![],
            changes: Some(ChangedBy { key: None }),
        });
        assert_eq!(error.err().map(|error| error.code), Some(code::BUG));
    }

    #[test]
    fn the_reference_lists_every_option() {
        let text = options_reference_markdown();
        for key in [
            "scan.rate-limit.rows-per-second",
            "path",
            "json.ignore-parse-errors",
            "csv.field-delimiter",
            "parquet.compression",
        ] {
            assert!(text.contains(&format!("| `{key}` |")), "{key}");
        }
    }
}
