//! Broken input of every kind: the code, the place, the advice, and what is left behind.

use millstream::{Diagnostic, Place, Session, SessionConfig, code};

fn fail(script: &str) -> Diagnostic {
    Session::new(SessionConfig::default()).query(script).expect_err(script)
}

#[test]
fn names_that_are_not_there_are_placed_and_answered() {
    let error = fail("SELECT 1;\nSELECT x\nFROM nowhere");
    assert_eq!(error.code, code::UNKNOWN_TABLE);
    assert_eq!(error.place, Some(Place::Sql { line: 3, column: 6, length: 7 }));
    assert!(error.advice.is_some());
}
