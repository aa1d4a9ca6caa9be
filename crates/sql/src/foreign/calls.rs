//! Functions and table functions that are not there, by name.

/// Names, and what to write instead: `{0}` is the text of the first argument, `{0'}` that of a string without its quotes, `{0u}` a unit of
/// time without quotes and in capitals, `{1p}` a pattern of times in Java's letters instead of `%Y-%m-%d`, `{*}` all arguments.
const FUNCTIONS: &[(&[&str], &str)] = &[
    // Now.
    (
        &[
            "GETDATE",
            "SYSDATE",
            "SYSDATETIME",
            "SYSTIMESTAMP",
            "MZ_NOW",
            "CLOCK_TIMESTAMP",
            "STATEMENT_TIMESTAMP",
            "TRANSACTION_TIMESTAMP",
            "GETUTCDATE",
            "UTC_TIMESTAMP",
            "CURRENT_DATETIME",
        ],
        "CURRENT_TIMESTAMP",
    ),
    (&["CURDATE", "TODAY"], "CURRENT_DATE"),
    (&["CURTIME"], "LOCALTIME"),
    (&["ROWTIME"], "the column with the watermark"),
    // Times.
    (
        &["TIME_BUCKET", "TIME_SLICE", "DATE_SLICE", "WINDOWSTART"],
        "FROM TUMBLE(TABLE t, DESCRIPTOR({1}), {0i}) … GROUP BY window_start, window_end",
    ),
    (&["DATETIME_TRUNC", "TIMESTAMP_TRUNC", "TRUNC"], "FLOOR({0} TO {1u})"),
    (&["TOSTARTOFHOUR"], "FLOOR({0} TO HOUR)"),
    (&["TOSTARTOFDAY"], "FLOOR({0} TO DAY)"),
    (&["TOSTARTOFMINUTE"], "FLOOR({0} TO MINUTE)"),
    (&["DATEDIFF", "DATE_DIFF", "AGE"], "TIMESTAMPDIFF({0u}, {1}, {2})"),
    (&["DATEADD"], "TIMESTAMPADD({0u}, {1}, {2})"),
    (&["DATE_ADD", "ADDDATE"], "{0} + INTERVAL '1' DAY"),
    (&["DATE_SUB", "SUBDATE"], "{0} - INTERVAL '1' DAY"),
    (&["ADD_MONTHS"], "{0} + INTERVAL '1' MONTH"),
    (&["STRFTIME", "FORMATDATETIME", "TIME_FORMAT", "FORMAT_DATETIME"], "DATE_FORMAT({0}, {1p})"),
    (&["FORMAT_TIMESTAMP", "FORMAT_DATE", "TIMESTAMPTOSTRING"], "DATE_FORMAT({1}, {0p})"),
    (&["STRPTIME", "STR_TO_DATE", "PARSE_DATETIME", "STRINGTOTIMESTAMP", "TRY_STRPTIME"], "TO_TIMESTAMP({0}, {1p})"),
    (&["PARSE_TIMESTAMP", "PARSE_DATE"], "TO_TIMESTAMP({1}, {0p})"),
    (&["EPOCH", "DATETIME_TO_EPOCH", "UNIX_SECONDS"], "EXTRACT(EPOCH FROM {0})"),
    (&["EPOCH_MS", "MAKE_TIMESTAMP_MS", "FROM_UNIXTIME_MILLIS", "TIMESTAMP_MILLIS"], "TO_TIMESTAMP_LTZ({0}, 3)"),
    (&["TIMESTAMP_SECONDS", "FROM_EPOCH"], "TO_TIMESTAMP_LTZ({0}, 0)"),
    // JSON.
    (
        &[
            "JSON_EXTRACT_STRING",
            "JSON_EXTRACT_SCALAR",
            "GET_JSON_OBJECT",
            "EXTRACTJSONFIELD",
            "JSON_EXTRACT",
            "JSONEXTRACTSTRING",
        ],
        "JSON_VALUE({0}, {1})",
    ),
    (&["JSON_EXTRACT_PATH_TEXT", "JSONB_EXTRACT_PATH_TEXT", "JSON_EXTRACT_PATH"], "JSON_VALUE({0}, '$.{1'}')"),
    (&["JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT"], "JSON_OBJECT(KEY {0} VALUE {1})"),
    (&["TO_JSON", "ROW_TO_JSON", "TO_JSONB"], "JSON_STRING({0})"),
    (&["JSON_ARRAY_LENGTH"], "JSON_QUERY({0}, '$' RETURNING ARRAY<STRING>), and CARDINALITY of it"),
    (&["JSON_AGG", "JSONB_AGG"], "JSON_STRING(ARRAY_AGG({0}))"),
    // Text.
    (&["LEN", "STRLEN", "LENGTHB"], "CHAR_LENGTH({0})"),
    (&["CHARINDEX"], "LOCATE({0}, {1})"),
    (&["STRING_SPLIT", "STR_SPLIT", "STRING_TO_ARRAY", "SPLIT_TO_ARRAY"], "SPLIT({0}, {1})"),
    (&["REGEXP_MATCHES", "REGEXP_FULL_MATCH", "REGEX_MATCH"], "REGEXP({0}, {1})"),
    (&["REGEXP_SPLIT_TO_ARRAY"], "REGEXP_SPLIT({0}, {1})"),
    (&["FORMAT", "SPRINTF"], "PRINTF({*})"),
    (&["GEN_RANDOM_UUID", "NEWID", "GENERATEUUIDV4", "UUID_GENERATE_V4"], "UUID()"),
    (&["ARRAY_TO_STRING", "LIST_TO_STRING"], "ARRAY_JOIN({0}, {1})"),
    // Numbers.
    (&["RANDOM"], "RAND()"),
    (&["TO_NUMBER", "TO_NUMERIC", "TO_DECIMAL"], "CAST({0} AS DECIMAL(20, 4))"),
    (&["TO_INT", "TOINT32", "INTEGER"], "CAST({0} AS INT)"),
    (&["SAFE_CAST"], "TRY_CAST(x AS INT)"),
    (&["SAFE_DIVIDE"], "{0} / NULLIF({1}, 0)"),
    (&["XOR", "BIT_XOR"], "BITXOR({0}, {1})"),
    // Choices.
    (&["ISNULL", "NVL", "ZEROIFNULL"], "COALESCE({0}, {1})"),
    (&["IIF", "IFF"], "IF({0}, {1}, {2})"),
    (&["NVL2"], "IF({0} IS NOT NULL, {1}, {2})"),
    (&["CHOOSE"], "ELT({*})"),
    (&["SWITCH"], "CASE {0} WHEN {1} THEN {2} END"),
    // Nested values.
    (&["ARRAY_LENGTH", "ARRAY_SIZE", "LIST_LENGTH", "SIZE"], "CARDINALITY({0})"),
    (&["LIST_VALUE", "LIST_PACK"], "ARRAY[{*}]"),
    (&["LIST_CONTAINS", "ARRAY_HAS", "LIST_HAS"], "ARRAY_CONTAINS({0}, {1})"),
    (&["LIST_EXTRACT", "ARRAY_EXTRACT", "ELEMENT_AT"], "{0}[{1}]"),
    (&["LIST_SORT"], "ARRAY_SORT({0})"),
    (&["LIST_DISTINCT"], "ARRAY_DISTINCT({0})"),
    (&["LIST_SLICE"], "ARRAY_SLICE({*})"),
    (&["STRUCT_PACK", "NAMED_STRUCT"], "CAST(ROW(1, 'x') AS ROW<a INT, b STRING>), or ROW(1, 'x') without names"),
    (&["STRUCT_EXTRACT"], "{0}.field"),
    (&["MAP_FROM_ENTRIES"], "MAP_FROM_ARRAYS(keys, values)"),
    (
        &[
            "LIST_TRANSFORM",
            "ARRAY_TRANSFORM",
            "TRANSFORM",
            "LIST_APPLY",
            "LIST_FILTER",
            "ARRAY_FILTER",
            "FILTER",
            "LIST_REDUCE",
        ],
        "a query over the elements: SELECT ARRAY_AGG(x + 1) FROM t CROSS JOIN UNNEST({0}) AS u (x); there are no lambdas",
    ),
    (
        &["EXPLODE", "FLATTEN", "UNNEST", "POSEXPLODE", "JSON_ARRAY_ELEMENTS", "JSONB_ARRAY_ELEMENTS", "ARRAYJOIN"],
        "FROM t CROSS JOIN UNNEST({0}) AS u (element), and select element",
    ),
    (
        &["REGEXP_SPLIT_TO_TABLE", "STRING_SPLIT_TO_TABLE"],
        "FROM t CROSS JOIN UNNEST(SPLIT({0}, {1})) AS u (element), and select element",
    ),
    // Aggregates.
    (&["AVERAGE", "MEAN"], "AVG({0})"),
    (&["ANY_VALUE", "ARBITRARY", "FIRST", "EARLIEST_BY_OFFSET", "ANY"], "FIRST_VALUE({0})"),
    (&["LAST", "LATEST_BY_OFFSET"], "LAST_VALUE({0})"),
    (&["COUNT_IF", "COUNTIF"], "COUNT(*) FILTER (WHERE {0})"),
    (&["SUMIF", "SUM_IF"], "SUM({0}) FILTER (WHERE {1})"),
    (&["AVGIF"], "AVG({0}) FILTER (WHERE {1})"),
    (&["LIST", "COLLECT_LIST", "GROUPARRAY", "TOPKDISTINCT"], "ARRAY_AGG({0})"),
    (&["COLLECT_SET", "ARRAY_UNIQUE_AGG"], "ARRAY_AGG(DISTINCT {0})"),
    (&["GROUP_CONCAT", "STRINGAGG", "WM_CONCAT"], "LISTAGG({0}, ',')"),
    (&["COUNT_DISTINCT"], "COUNT(DISTINCT {0})"),
    (&["APPROX_DISTINCT", "HLL", "UNIQ", "APPROX_COUNT_DISTINCT_DS_HLL"], "APPROX_COUNT_DISTINCT({0})"),
    (&["PERCENTILE_CONT", "PERCENTILE_DISC"], "PERCENTILE({1}, {0})"),
    (&["QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC"], "PERCENTILE({0}, {1})"),
    (&["APPROX_QUANTILE", "APPROX_PERCENTILE_CONT", "PERCENTILE_APPROX"], "APPROX_PERCENTILE({0}, {1})"),
    (&["EVERY", "LOGICAL_AND"], "BOOL_AND({0})"),
    (&["LOGICAL_OR"], "BOOL_OR({0})"),
    (
        &["MAX_BY", "ARG_MAX", "ARGMAX"],
        "a rank within each window: ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {1} DESC) AS r … WHERE r = 1",
    ),
    (
        &["MIN_BY", "ARG_MIN", "ARGMIN"],
        "a rank within each window: ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {1}) AS r … WHERE r = 1",
    ),
    (&["HISTOGRAM", "COUNT_VALUES"], "COLLECT({0}), which counts each value"),
    (
        &["TOPK"],
        "a rank within each window: ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {0} DESC) AS r … WHERE r <= 10",
    ),
    // Systems.
    (&["VERSION", "PG_TYPEOF"], "TYPEOF(x) for a type; `millstream --version` shows the version"),
    (
        &["CURRENT_USER", "USER", "SESSION_USER", "CURRENT_SCHEMA"],
        "a column, or ${NAME} with --var NAME=value: there are no users",
    ),
];

/// Table functions, likewise.
const TABLE_FUNCTIONS: &[(&[&str], &str)] = &[
    (
        &[
            "READ_CSV",
            "READ_CSV_AUTO",
            "READ_JSON",
            "READ_JSON_AUTO",
            "READ_NDJSON",
            "READ_NDJSON_AUTO",
            "READ_PARQUET",
            "PARQUET_SCAN",
            "CSV_SCAN",
            "FILE",
            "READ_TEXT",
            "PARQUET_METADATA",
            "ARROW_SCAN",
        ],
        "FROM {0}",
    ),
    (
        &["GENERATE_SERIES", "RANGE", "NUMBERS", "GENERATOR", "SEQUENCE"],
        "CREATE TABLE series (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '{0}', 'fields.n.end' = '{1}'); SELECT n FROM series",
    ),
    (
        &["EXPLODE", "FLATTEN", "JSON_TABLE", "JSON_ARRAY_ELEMENTS", "JSON_EACH", "POSEXPLODE", "STRING_SPLIT"],
        "FROM t CROSS JOIN UNNEST(list) AS u (element), where list is an array: SPLIT(text, ','), or JSON_QUERY(text, '$.list' RETURNING ARRAY<STRING>)",
    ),
    (
        &["POSTGRES_SCAN", "POSTGRES_QUERY", "DBLINK"],
        "FROM 't.csv', which psql -c '\\copy t to t.csv csv header' writes; changes come from Kafka with 'format' = 'debezium-json'",
    ),
    (&["GLOB"], "SELECT DISTINCT of a table's column `file.path` STRING METADATA"),
];

/// What to write instead of a call of a function.
pub(crate) fn call_cure(name: &str, arguments: &[String]) -> Option<String> {
    cure(FUNCTIONS, name, arguments)
}

/// Names that other systems have without declaring them, and what to write instead.
const NAMES: &[(&[&str], &str)] = &[
    (
        &["ROWNUM", "ROWNUMBER"],
        "write LIMIT 10 at the end for the first rows, ROW_NUMBER() OVER (ORDER BY …) for a number",
    ),
    (&["SYSDATE", "SYSTIMESTAMP", "CURRENT_DATETIME"], "write CURRENT_TIMESTAMP"),
    (
        &["WINDOW_START", "WINDOW_END", "WINDOW_TIME"],
        "it comes from a window: FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    ),
    (
        &["WINDOWSTART", "WINDOWEND"],
        "write window_start and window_end, which come from FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    ),
    (&["PROCTIME"], "declare it in CREATE TABLE: proctime AS PROCTIME()"),
    (&["ROWTIME"], "name the column that has the watermark: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"),
    (&["ROWID", "CTID", "OID"], "rows have no numbers of their own: declare a column that tells them apart"),
    (&["FILENAME", "INPUT_FILE_NAME", "_FILE"], "declare it in CREATE TABLE: `file.path` STRING METADATA"),
];

/// What to write instead of a name of another system.
pub(crate) fn name_cure(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|(names, _)| names.iter().any(|known| known.eq_ignore_ascii_case(name))).map(|(_, cure)| *cure)
}

/// What to write instead of a table function in FROM.
pub(crate) fn table_call_cure(name: &str, arguments: &[String]) -> Option<String> {
    cure(TABLE_FUNCTIONS, name, arguments)
}

fn cure(rows: &[(&[&str], &str)], name: &str, arguments: &[String]) -> Option<String> {
    let (_, template) = rows.iter().find(|(names, _)| names.iter().any(|known| known.eq_ignore_ascii_case(name)))?;
    Some(format!("write {}", filled(template, arguments)))
}

/// A template with its arguments.
pub(super) fn filled(template: &str, arguments: &[String]) -> String {
    const MISSING: [&str; 4] = ["x", "y", "z", "w"];
    let mut out = String::with_capacity(template.len() + 20);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((hole, behind)) = after.split_once('}') else { break };
        rest = behind;
        if hole == "*" {
            out.push_str(&arguments.join(", "));
            continue;
        }
        let Some(index) = hole.chars().next().and_then(|digit| digit.to_digit(10)) else {
            out.push_str(&format!("{{{hole}}}"));
            continue;
        };
        let missing = MISSING[index as usize % MISSING.len()];
        let argument = arguments.get(index as usize).map_or(missing, String::as_str);
        out.push_str(&match &hole[1..] {
            "'" => unquoted(argument).trim_start_matches("$.").to_owned(),
            "u" => unquoted(argument).to_uppercase().trim_end_matches('S').to_owned(),
            "p" => pattern(argument),
            "i" => interval(argument),
            _ => argument.to_owned(),
        });
    }
    out.push_str(rest);
    out
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text)
}

/// `'%Y-%m'` in the letters of DATE_FORMAT.
fn pattern(text: &str) -> String {
    const LETTERS: [(&str, &str); 13] = [
        ("%Y", "yyyy"),
        ("%m", "MM"),
        ("%d", "dd"),
        ("%H", "HH"),
        ("%M", "mm"),
        ("%i", "mm"),
        ("%S", "ss"),
        ("%s", "ss"),
        ("%f", "SSSSSS"),
        ("%F", "yyyy-MM-dd"),
        ("%T", "HH:mm:ss"),
        ("%b", "MMM"),
        ("%y", "yy"),
    ];
    if !text.starts_with('\'') {
        return "'yyyy-MM-dd HH:mm:ss'".into();
    }
    LETTERS.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// `'5 minutes'` as an interval.
fn interval(text: &str) -> String {
    let bare = unquoted(text).trim_start_matches("INTERVAL").trim().trim_matches('\'');
    match bare.split_once(' ') {
        Some((number, unit)) if number.chars().all(|c| c.is_ascii_digit()) => {
            format!("INTERVAL '{number}' {}", unit.trim_matches(['\'', ' ']).to_uppercase().trim_end_matches('S'))
        }
        _ => "INTERVAL '5' MINUTE".into(),
    }
}
