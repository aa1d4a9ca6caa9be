//! The statements of the dialect and their parser.
//!
//! Queries and expressions are sqlparser's AST; everything around them is ours, because Flink's statements differ from
//! those of every system that sqlparser knows. What Flink has and we lack is recognised and named as such.

use crate::chains;
use crate::data_type::{expect_word, peek_word, take_word};
use crate::ddl::{
    self, FunctionDefinition, TableDefinition, ViewDefinition, parse_create_function, parse_identifier, parse_name,
    unsupported,
};
use crate::diagnostics::{Failure, error_at};
use crate::dialect::{FlinkDialect, unquoted_word};
use crate::foreign::{known_clause_failure, statement_failure};
use crate::parameter::Parameters;
use crate::script;
use millstream_functions::is_like;
use millstream_types::{Diagnostic, code};
use serde::{Deserialize, Serialize};
use sqlparser::ast::{Expr, Ident, Query};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::fmt;
use std::sync::Arc;

/// Expressions and queries may be nested this deep.
const MAX_NESTING: usize = 64;

/// Which names a SHOW statement lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamePattern {
    /// `LIKE` or `ILIKE`: `%` stands for any characters, `_` for one, a backslash before either for itself. All without one.
    pattern: Option<String>,
    ignores_case: bool,
    /// `NOT`
    is_negated: bool,
}

impl NamePattern {
    /// Whether a name is listed.
    pub fn lists(&self, name: &str) -> bool {
        let Some(pattern) = &self.pattern else { return true };
        let (name, pattern) = match self.ignores_case {
            true => (name.to_lowercase(), pattern.to_lowercase()),
            false => (name.to_owned(), pattern.clone()),
        };
        let mut escaped = String::with_capacity(pattern.len());
        let mut rest = pattern.chars().peekable();
        while let Some(c) = rest.next() {
            escaped.push(c);
            if c == '\\' {
                escaped.push(rest.next_if(|next| matches!(next, '%' | '_' | '\\')).unwrap_or(c));
            }
        }
        is_like(&name, &escaped, '\\').is_ok_and(|is_like| is_like != self.is_negated)
    }
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `CREATE [TEMPORARY] TABLE`
    CreateTable(Box<TableDefinition>),
    /// `CREATE [TEMPORARY] VIEW`
    CreateView(Box<ViewDefinition>),
    /// `CREATE [TEMPORARY] FUNCTION`
    CreateFunction(Box<FunctionDefinition>),
    /// `DROP [TEMPORARY] {TABLE | VIEW | FUNCTION} [IF EXISTS] name`
    Drop {
        /// What.
        kind: ObjectKind,
        /// Its name.
        name: Vec<Ident>,
        /// `IF EXISTS`.
        if_exists: bool,
    },
    /// `INSERT INTO name [(columns)] query`
    Insert(InsertStatement),
    /// `EXECUTE STATEMENT SET BEGIN …; END`, `BEGIN STATEMENT SET; …; END`: several inserts in one run.
    StatementSet(Vec<InsertStatement>),
    /// A bare query, whose rows are shown.
    Query(Arc<Query>),
    /// `SET 'key' = 'value'`
    Set {
        /// Key.
        key: String,
        /// Value.
        value: String,
    },
    /// `SET`: show all settings.
    ShowSettings,
    /// `RESET 'key'`, or `RESET` for all of them.
    Reset {
        /// Key; none for all.
        key: Option<String>,
    },
    /// `EXPLAIN …`
    Explain {
        /// What to show.
        kind: ExplainKind,
        /// Of which query, insert or statement set.
        inner: Box<Statement>,
    },
    /// `DESCRIBE name`
    Describe(Vec<Ident>),
    /// `SHOW TABLES [[NOT] LIKE 'pattern']`: tables and views.
    ShowTables(NamePattern),
    /// `SHOW VIEWS`, likewise.
    ShowViews(NamePattern),
    /// `SHOW FUNCTIONS`, likewise.
    ShowFunctions(NamePattern),
    /// `SHOW USER FUNCTIONS`, likewise: the SQL functions.
    ShowUserFunctions(NamePattern),
    /// `SHOW CREATE {TABLE | VIEW} name`
    ShowCreate(Vec<Ident>),
}

/// What can be created and dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A SQL function.
    Function,
}

impl ObjectKind {
    /// `table`, `view`, `function`
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Table => "table",
            ObjectKind::View => "view",
            ObjectKind::Function => "function",
        }
    }
}

/// `INSERT INTO target [(columns)] query`.
#[derive(Debug, Clone, PartialEq)]
pub struct InsertStatement {
    /// Name of the table, perhaps qualified.
    pub target: Vec<Ident>,
    /// `INSERT OVERWRITE`: what is there is replaced.
    pub overwrites: bool,
    /// Columns to write, in the order of the query's; empty for all.
    pub columns: Vec<Ident>,
    /// The query.
    pub query: Arc<Query>,
    /// `ON CONFLICT DO …`
    pub on_conflict: Option<OnConflict>,
}

/// What becomes of rows that have the same primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// They end the query.
    Error,
    /// The first stays.
    Nothing,
    /// The last one counts.
    Deduplicate,
}

/// What `EXPLAIN` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainKind {
    /// `EXPLAIN`, `EXPLAIN PLAN FOR`: the logical plan and the pipelines.
    Plan,
    /// `EXPLAIN CODEGEN`: row programs, LLVM IR, assembly.
    Codegen,
    /// `EXPLAIN ANALYZE`: runs it, and shows the pipelines with what each has done.
    Analyze,
}

/// A statement of a script with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedStatement {
    /// The statement.
    pub statement: Statement,
    /// Its text, without the semicolon.
    pub text: String,
    /// The line of the script on which it starts, from 1.
    pub line: u64,
    /// What it is parsed from, where that is more than its text: a script with parameters, whose placeholders are counted from its start.
    script: Option<Arc<(String, Parameters)>>,
    /// Its place among the statements of that, or of its text.
    at: usize,
}

/// What another process parses a statement from. It has the parameters, and so the secrets among them.
#[derive(Clone, Serialize, Deserialize)]
pub struct StatementText {
    script: String,
    parameters: Parameters,
    at: usize,
}

impl StatementText {
    /// The first statement of a text without parameters.
    pub fn new(text: impl Into<String>) -> StatementText {
        StatementText { script: text.into(), parameters: Parameters::None, at: 0 }
    }

    /// The statement.
    pub fn parse(&self) -> Result<ParsedStatement, Diagnostic> {
        let parsed = parse_script_with(&self.script, &self.parameters)?.into_iter().nth(self.at);
        parsed.ok_or_else(|| Diagnostic::bug("a text has fewer statements than it had before"))
    }
}

impl fmt::Debug for StatementText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementText").finish_non_exhaustive()
    }
}

impl ParsedStatement {
    /// What another process parses it from.
    pub fn to_text(&self) -> StatementText {
        let (script, parameters) = match &self.script {
            Some(origin) => (origin.0.clone(), origin.1.clone()),
            None => (self.text.clone(), Parameters::None),
        };
        StatementText { script, parameters, at: self.at }
    }

    /// Whether it gives rows by running: a bare query.
    pub fn is_query(&self) -> bool {
        matches!(self.statement, Statement::Query(_))
    }

    /// Whether it writes rows into tables.
    pub fn is_insert(&self) -> bool {
        matches!(self.statement, Statement::Insert(_) | Statement::StatementSet(_))
    }

    /// Whether it changes what a session has: a definition or a setting.
    pub fn changes_session(&self) -> bool {
        matches!(
            self.statement,
            Statement::CreateTable(_)
                | Statement::CreateView(_)
                | Statement::CreateFunction(_)
                | Statement::Drop { .. }
                | Statement::Set { .. }
                | Statement::Reset { .. }
        )
    }

    /// The names of the tables that it writes rows into.
    pub fn targets(&self) -> Vec<String> {
        let inserts = match &self.statement {
            Statement::Insert(insert) => std::slice::from_ref(insert),
            Statement::StatementSet(inserts) => inserts,
            _ => &[],
        };
        inserts.iter().filter_map(|insert| insert.target.last()).map(|name| name.value.clone()).collect()
    }

    /// `EXPLAIN ANALYZE` of a query or an insert.
    pub fn analyzed(&self) -> ParsedStatement {
        let inner = Box::new(self.statement.clone());
        ParsedStatement { statement: Statement::Explain { kind: ExplainKind::Analyze, inner }, ..self.clone() }
    }
}

/// Parses all statements of a script. Places in diagnostics and in the AST are lines and columns of `sql`.
pub fn parse_script(sql: &str) -> Result<Vec<ParsedStatement>, Diagnostic> {
    parse_script_with(sql, &Parameters::None)
}

/// Parses all statements of a script whose placeholders stand for `parameters`.
pub fn parse_script_with(sql: &str, parameters: &Parameters) -> Result<Vec<ParsedStatement>, Diagnostic> {
    let script = (!matches!(parameters, Parameters::None)).then(|| Arc::new((sql.to_string(), parameters.clone())));
    let mut parsed = Vec::new();
    for piece in script::split(sql, parameters)? {
        let statement = parse_piece(&piece)?;
        let insert = insert_of(&statement).map(Statement::Insert);
        for (half, statement) in [Some(statement), insert].into_iter().flatten().enumerate() {
            let (text, at) = (piece.text.to_owned(), if script.is_some() { parsed.len() } else { half });
            parsed.push(ParsedStatement { statement, text, line: piece.line, script: script.clone(), at });
        }
    }
    Ok(parsed)
}

/// The INSERT that is the second half of `CREATE TABLE … AS SELECT …`.
fn insert_of(statement: &Statement) -> Option<InsertStatement> {
    let Statement::CreateTable(definition) = statement else { return None };
    let query = definition.query.clone()?;
    Some(InsertStatement {
        target: definition.name.clone(),
        overwrites: false,
        columns: vec![],
        query,
        on_conflict: None,
    })
}

/// Parses exactly one statement, with or without its semicolon.
pub fn parse_statement(sql: &str) -> Result<Statement, Diagnostic> {
    let mut pieces = script::split(sql, &Parameters::None)?.into_iter();
    let first = pieces.next().ok_or_else(|| Diagnostic::new(code::SYNTAX, "there is no statement"))?;
    if let Some(second) = pieces.next() {
        return Err(error_at(code::SYNTAX, second.tokens[0].span, "expected one statement, found another"));
    }
    parse_piece(&first)
}

/// Parses an expression.
pub(crate) fn parse_expression(sql: &str) -> Result<Expr, Diagnostic> {
    let first = script::split(sql, &Parameters::None)?.into_iter().next();
    let tokens = first.ok_or_else(|| Diagnostic::new(code::SYNTAX, "there is no expression"))?.tokens;
    let dialect = FlinkDialect;
    let mut parser = Parser::new(&dialect).with_recursion_limit(MAX_NESTING).with_tokens_with_locations(tokens.clone());
    parser.parse_expr().map_err(|error| Failure::from(error).into_diagnostic(&tokens))
}

fn parse_piece(piece: &script::Piece<'_>) -> Result<Statement, Diagnostic> {
    let mut statement = parse_tokens(&piece.tokens)?;
    if let Statement::CreateView(view) = &mut statement {
        view.text = piece.text.to_owned();
    }
    Ok(statement)
}

/// Parses the tokens of one statement.
fn parse_tokens(tokens: &[TokenWithSpan]) -> Result<Statement, Diagnostic> {
    chains::check(tokens)?;
    if let Some(failure) = statement_failure(tokens).or_else(|| known_clause_failure(tokens)) {
        return Err(failure);
    }
    let dialect = FlinkDialect;
    let mut parser =
        Parser::new(&dialect).with_recursion_limit(MAX_NESTING).with_tokens_with_locations(tokens.to_vec());
    let parsed = parse_any(&mut parser).and_then(|statement| {
        expect_end(&mut parser)?;
        Ok(statement)
    });
    parsed.map_err(|failure| failure.into_diagnostic(tokens))
}

fn expect_end(parser: &mut Parser) -> Result<(), Failure> {
    let token = parser.peek_token();
    match token.token {
        Token::EOF => Ok(()),
        _ => Ok(parser.expected("the end of the statement", token)?),
    }
}

fn parse_any(parser: &mut Parser) -> Result<Statement, Failure> {
    let start = parser.peek_token();
    if start.token == Token::LParen {
        return Ok(Statement::Query(parser.parse_query()?.into()));
    }
    let word = unquoted_word(&start).unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "SELECT" | "WITH" | "VALUES" => Ok(Statement::Query(parser.parse_query()?.into())),
        "INSERT" => Ok(Statement::Insert(parse_insert(parser)?)),
        "CREATE" => parse_create(parser),
        "DROP" => parse_drop(parser),
        "EXECUTE" => parse_execute(parser),
        "BEGIN" => {
            parser.advance_token();
            parse_statement_set(parser)
        }
        "STATEMENT" => parse_statement_set(parser),
        "SET" => parse_set(parser),
        "RESET" => parse_reset(parser),
        "EXPLAIN" => parse_explain(parser),
        "DESCRIBE" | "DESC" => {
            parser.advance_token();
            let _ = take_word(parser, "EXTENDED");
            Ok(Statement::Describe(ddl::parse_source_name(parser, "the name of a table or view")?))
        }
        "SHOW" => parse_show(parser),
        _ => Ok(parser.expected_ref("a statement (SELECT, INSERT, CREATE, …)", &start)?),
    }
}

fn parse_insert(parser: &mut Parser) -> Result<InsertStatement, Failure> {
    expect_word(parser, "INSERT")?;
    let overwrites = take_word(parser, "OVERWRITE");
    if !overwrites {
        expect_word(parser, "INTO")?;
    }
    let target = ddl::parse_source_name(parser, "the name of a table")?;
    if peek_word(parser, 0, "PARTITION") {
        let advice = "select the partition's values as columns";
        return Err(unsupported(parser.peek_token(), "INSERT INTO … PARTITION", advice).into());
    }
    let mut columns = vec![];
    let query_starts = |parser: &Parser, nth: usize| {
        let starts = ["SELECT", "WITH", "VALUES"].iter().any(|word| peek_word(parser, nth, word));
        starts || parser.peek_nth_token_ref(nth).token == Token::LParen
    };
    if !query_starts(parser, 1) && parser.consume_token(&Token::LParen) {
        columns = parser.parse_comma_separated(|parser| parse_identifier(parser, "the name of a column"))?;
        parser.expect_token(&Token::RParen)?;
    }
    if !query_starts(parser, 0) {
        return Ok(parser.expected_ref("SELECT or VALUES", parser.peek_token_ref())?);
    }
    let query = parser.parse_query()?.into();
    Ok(InsertStatement { target, overwrites, columns, query, on_conflict: parse_on_conflict(parser)? })
}

/// `ON CONFLICT DO ERROR`, `DO NOTHING` or `DO DEDUPLICATE`, if it is there.
fn parse_on_conflict(parser: &mut Parser) -> Result<Option<OnConflict>, Failure> {
    if !(peek_word(parser, 0, "ON") && peek_word(parser, 1, "CONFLICT")) {
        return Ok(None);
    }
    expect_word(parser, "ON")?;
    expect_word(parser, "CONFLICT")?;
    expect_word(parser, "DO")?;
    let actions =
        [("ERROR", OnConflict::Error), ("NOTHING", OnConflict::Nothing), ("DEDUPLICATE", OnConflict::Deduplicate)];
    match actions.into_iter().find(|(word, _)| take_word(parser, word)) {
        Some((_, action)) => Ok(Some(action)),
        None => Ok(parser.expected_ref("ERROR, NOTHING or DEDUPLICATE", parser.peek_token_ref())?),
    }
}

/// `STATEMENT SET BEGIN insert; … END` or, after `BEGIN`, `STATEMENT SET; insert; … END`.
fn parse_statement_set(parser: &mut Parser) -> Result<Statement, Failure> {
    expect_word(parser, "STATEMENT")?;
    expect_word(parser, "SET")?;
    if !take_word(parser, "BEGIN") {
        parser.expect_token(&Token::SemiColon)?;
    }
    let mut inserts = vec![];
    let start = parser.peek_token();
    while !take_word(parser, "END") {
        if !peek_word(parser, 0, "INSERT") {
            return Ok(parser.expected_ref("INSERT INTO or END", parser.peek_token_ref())?);
        }
        inserts.push(parse_insert(parser)?);
        parser.expect_token(&Token::SemiColon)?;
    }
    if inserts.is_empty() {
        return Err(error_at(code::SYNTAX, start.span, "the statement set is empty")
            .advise("put INSERT INTO …; before END")
            .into());
    }
    Ok(Statement::StatementSet(inserts))
}

/// `EXECUTE STATEMENT SET …`, `EXECUTE INSERT …`, `EXECUTE SELECT …`.
fn parse_execute(parser: &mut Parser) -> Result<Statement, Failure> {
    parser.advance_token();
    if peek_word(parser, 0, "STATEMENT") {
        return parse_statement_set(parser);
    }
    if peek_word(parser, 0, "PLAN") {
        return Err(unsupported(parser.peek_token(), "EXECUTE PLAN", "run the query itself").into());
    }
    if ["INSERT", "SELECT", "WITH", "VALUES"].iter().any(|w| peek_word(parser, 0, w)) {
        return parse_any(parser);
    }
    Ok(parser.expected_ref("STATEMENT SET, INSERT or SELECT", parser.peek_token_ref())?)
}

fn parse_create(parser: &mut Parser) -> Result<Statement, Failure> {
    parser.advance_token();
    Ok(match parse_kind(parser)? {
        (ObjectKind::Table, temporary) => Statement::CreateTable(Box::new(ddl::parse_create_table(parser, temporary)?)),
        (ObjectKind::View, temporary) => Statement::CreateView(Box::new(ddl::parse_create_view(parser, temporary)?)),
        (ObjectKind::Function, _) => Statement::CreateFunction(Box::new(parse_create_function(parser)?)),
    })
}

fn parse_drop(parser: &mut Parser) -> Result<Statement, Failure> {
    parser.advance_token();
    let (kind, _) = parse_kind(parser)?;
    let if_exists = take_word(parser, "IF");
    if if_exists {
        expect_word(parser, "EXISTS")?;
    }
    Ok(Statement::Drop { kind, name: parse_name(parser, "a name")?, if_exists })
}

/// `[TEMPORARY [SYSTEM]] {TABLE | VIEW | FUNCTION}` after a verb: what it is, and whether it is temporary.
fn parse_kind(parser: &mut Parser) -> Result<(ObjectKind, bool), Failure> {
    let temporary = take_word(parser, "TEMPORARY");
    let system = temporary && take_word(parser, "SYSTEM");
    let token = parser.next_token();
    let word = unquoted_word(&token).unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "TABLE" if !system => Ok((ObjectKind::Table, temporary)),
        "VIEW" if !system => Ok((ObjectKind::View, temporary)),
        "FUNCTION" => Ok((ObjectKind::Function, temporary)),
        _ => Ok(parser.expected("TABLE, VIEW or FUNCTION", token)?),
    }
}

/// `SET`, `SET 'key' = 'value'`, and the older `SET key = value` without quotes.
fn parse_set(parser: &mut Parser) -> Result<Statement, Failure> {
    parser.advance_token();
    if parser.peek_token_ref().token == Token::EOF {
        return Ok(Statement::ShowSettings);
    }
    let key = parse_setting_text(parser, "a key in single quotes")?;
    parser.expect_token(&Token::Eq)?;
    let value = parse_setting_text(parser, "a value in single quotes")?;
    Ok(Statement::Set { key, value })
}

fn parse_reset(parser: &mut Parser) -> Result<Statement, Failure> {
    parser.advance_token();
    if parser.peek_token_ref().token == Token::EOF {
        return Ok(Statement::Reset { key: None });
    }
    Ok(Statement::Reset { key: Some(parse_setting_text(parser, "a key in single quotes")?) })
}

/// A string, or the bare tokens up to `=` or the end.
fn parse_setting_text(parser: &mut Parser, expected: &str) -> Result<String, Failure> {
    if let Token::SingleQuotedString(text) = &parser.peek_token_ref().token {
        let text = text.clone();
        parser.advance_token();
        return Ok(text);
    }
    let mut text = String::new();
    while !matches!(parser.peek_token_ref().token, Token::Eq | Token::EOF | Token::SingleQuotedString(_)) {
        text.push_str(&parser.next_token().token.to_string());
    }
    if text.is_empty() {
        return Ok(parser.expected_ref(expected, parser.peek_token_ref())?);
    }
    Ok(text)
}

fn parse_explain(parser: &mut Parser) -> Result<Statement, Failure> {
    parser.advance_token();
    let mut kind = ExplainKind::Plan;
    if take_word(parser, "CODEGEN") {
        kind = ExplainKind::Codegen;
    } else if take_word(parser, "ANALYZE") {
        kind = ExplainKind::Analyze;
    } else if take_word(parser, "PLAN") {
        expect_word(parser, "FOR")?;
    }
    let start = parser.peek_token();
    if peek_word(parser, 0, "EXPLAIN") {
        return Ok(parser.expected("a query, INSERT or STATEMENT SET after EXPLAIN", start)?);
    }
    match parse_any(parser)? {
        inner @ (Statement::Query(_) | Statement::Insert(_) | Statement::StatementSet(_)) => {
            Ok(Statement::Explain { kind, inner: Box::new(inner) })
        }
        _ => Ok(parser.expected("a query, INSERT or STATEMENT SET after EXPLAIN", start)?),
    }
}

/// `[NOT] LIKE 'pattern'`, `[NOT] ILIKE 'pattern'`, or nothing.
fn parse_pattern(parser: &mut Parser) -> Result<NamePattern, Failure> {
    let is_negated = take_word(parser, "NOT");
    let ignores_case = take_word(parser, "ILIKE");
    if !ignores_case && !take_word(parser, "LIKE") {
        return match is_negated {
            true => Ok(parser.expected("LIKE or ILIKE", parser.peek_token())?),
            false => Ok(NamePattern::default()),
        };
    }
    let token = parser.next_token();
    let Token::SingleQuotedString(pattern) = token.token else {
        return Ok(parser.expected("a pattern in single quotes", token)?);
    };
    Ok(NamePattern { pattern: Some(pattern), ignores_case, is_negated })
}

fn parse_show(parser: &mut Parser) -> Result<Statement, Failure> {
    parser.advance_token();
    let token = parser.next_token();
    let word = unquoted_word(&token).unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "TABLES" => Ok(Statement::ShowTables(parse_pattern(parser)?)),
        "VIEWS" => Ok(Statement::ShowViews(parse_pattern(parser)?)),
        "FUNCTIONS" => Ok(Statement::ShowFunctions(parse_pattern(parser)?)),
        "USER" if take_word(parser, "FUNCTIONS") => Ok(Statement::ShowUserFunctions(parse_pattern(parser)?)),
        "CREATE" if take_word(parser, "VIEW") => Ok(Statement::ShowCreate(parse_name(parser, "the name of a view")?)),
        "CREATE" => {
            expect_word(parser, "TABLE")?;
            Ok(Statement::ShowCreate(ddl::parse_source_name(parser, "the name of a table")?))
        }
        _ => Ok(parser.expected("TABLES, VIEWS, FUNCTIONS or CREATE TABLE", token)?),
    }
}
