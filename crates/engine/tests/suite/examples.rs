//! The examples of `docs/functions.md`: each gives what the page says, interpreted and compiled.

use crate::configurations::Configuration;
use crate::flink::execute;
use millstream::connectors::display;
use millstream::sql::functions::{Category, EXAMPLE_TABLE, Example, all};
use millstream::{Collected, Session};

/// The values of each column, with a comma between those of several rows.
fn columns(results: Collected) -> Vec<String> {
    let schema = results.schema().clone();
    let batch = results.into_batch().unwrap();
    let column = |column: usize| {
        let value = |row: usize| {
            let mut text = Vec::new();
            display::write_value(&mut text, batch.column(column).as_ref(), row, &schema.fields[column].data_type);
            String::from_utf8(text).unwrap()
        };
        (0..batch.num_rows()).map(value).collect::<Vec<_>>().join(", ")
    };
    (0..batch.num_columns()).map(column).collect()
}

/// What a statement gives for each of its expressions.
fn evaluate(session: &mut Session, sql: &str) -> Vec<String> {
    columns(execute(session, sql).unwrap_or_else(|error| panic!("{error}\n{sql}")))
}

/// What the examples of a category give: expressions by one statement where they can share one.
fn evaluated(session: &mut Session, category: Category) -> Vec<(Example, String)> {
    let examples = all().into_iter().filter(|f| f.category == category).flat_map(|f| f.examples);
    let (queries, expressions): (Vec<Example>, Vec<Example>) =
        examples.partition(|e| category == Category::Window || e.expression.starts_with("SELECT "));
    let mut found: Vec<String> = Vec::new();
    if !expressions.is_empty() {
        let list: Vec<String> =
            expressions.iter().enumerate().map(|(number, e)| format!("{} AS v{number}", e.expression)).collect();
        let source = match category {
            Category::Aggregate => " FROM sales",
            Category::Over => " FROM sales ORDER BY id",
            _ => "",
        };
        found.extend(evaluate(session, &format!("SELECT {}{source}", list.join(", "))));
    }
    for Example { expression, .. } in &queries {
        let query = match category {
            Category::Window => format!(
                "SELECT LISTAGG(item, '+') FROM TABLE({expression}) GROUP BY window_start, window_end \
                 ORDER BY window_start, window_end"
            ),
            _ => expression.to_string(),
        };
        found.extend(evaluate(session, &query));
    }
    expressions.into_iter().chain(queries).zip(found).collect()
}

#[test]
fn every_example_gives_what_the_page_says() {
    for tier in ["interpreted", "compiled"] {
        let mut session = Configuration::new(tier, &[("pipeline.tier", tier), ("parallelism.default", "1")]).session();
        session.set("table.local-time-zone", "UTC").unwrap();
        execute(&mut session, EXAMPLE_TABLE).unwrap();
        let found: Vec<(Example, String)> =
            Category::ALL.iter().flat_map(|(category, _)| evaluated(&mut session, *category)).collect();
        assert_eq!(found.len(), all().iter().map(|f| f.examples.len()).sum::<usize>());
        let wrong: Vec<String> = found
            .into_iter()
            .filter(|(example, result)| example.result != result)
            .map(|(example, result)| format!("{} is {result}, not {}", example.expression, example.result))
            .collect();
        assert!(wrong.is_empty(), "{tier}:\n{}", wrong.join("\n"));
    }
}
