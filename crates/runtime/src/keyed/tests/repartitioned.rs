//! States that are cut into more partitions and put together to fewer in the middle of their rows: what they output is the same.

use super::*;
use crate::columns::partition_of;
use crate::keyed::key_share::{Hashing, KeyShare};

/// The rows of a step that come to each of the partitions.
fn parted(plan: &KeyedOperator, code: &OperatorCode, step: &Step, bits: u32) -> Vec<Step> {
    let mut functions = FunctionContext::new(FunctionSettings::default());
    let no_rows = || Step { inputs: vec![Vec::new(); step.inputs.len()], watermark: step.watermark };
    let mut parts: Vec<Step> = (0..1 << bits).map(|_| no_rows()).collect();
    for (port, rows) in step.inputs.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
        let hashes = Hashing::new(plan, code, &mut functions).of_batch(port, &batch(rows)).unwrap();
        for (row, hash) in rows.iter().zip(hashes) {
            parts[partition_of(hash as u64, bits)].inputs[port].push(row.clone());
        }
    }
    parts
}

/// The same states in another number of partitions, as read from a checkpoint.
fn repartitioned(
    plan: &KeyedOperator,
    code: &OperatorCode,
    states: &[Box<dyn State>],
    bits: u32,
) -> Result<Vec<Box<dyn State>>, Diagnostic> {
    let mut functions = FunctionContext::new(FunctionSettings::default());
    let mut cut: Vec<Box<dyn State>> = (0..1 << bits).map(|_| state_of(plan, code)).collect::<Result<_, _>>()?;
    for state in states {
        let mut before = restored(plan, code, &saved(&**state))?;
        for (partition, state) in cut.iter_mut().enumerate() {
            let hashing = Hashing::new(plan, code, &mut functions);
            state.absorb(&mut *before, &mut KeyShare::new(hashing, (bits, partition)))?;
        }
    }
    cut.iter_mut().for_each(|state| assert!(state.versioned().is_none_or(|versioned| !versioned.is_noting())));
    Ok(cut)
}

/// Leaves out the weights that rows of the inputs of a join had.
fn without_input_weights(output: &mut Output) {
    for (_, columns, _) in output {
        let (last, width) = (columns.len() - 1, schema().fields.len());
        let mut number = 0..;
        columns.retain(|_| number.next().is_some_and(|number| number == last || number % width != WEIGHT));
    }
}

#[test]
fn states_put_out_the_same_in_any_number_of_partitions() {
    let random = Dice::new(11);
    for kind in kinds() {
        let what = format!("{kind:?}");
        let (plan, code) = operator(kind);
        let steps = steps(&random, &plan, 48);
        let mut whole = state_of(&plan, &code).unwrap();
        let (mut expected, mut found) = (Output::new(), Output::new());
        let mut states = vec![state_of(&plan, &code).unwrap()];
        let (mut bits, mut started, mut turns, mut beats) = (0, 0, 0, 0);
        for (i, step) in steps.iter().enumerate() {
            let now = i as i64 * STEP_MS;
            advance(&mut *whole, &code, step, now, &mut expected).unwrap();
            for (state, step) in states.iter_mut().zip(parted(&plan, &code, step, bits)) {
                advance(&mut **state, &code, &step, now - started, &mut found).unwrap();
            }
            // Between two beats.
            beats += usize::from(step.watermark % 2 == 1);
            if step.watermark % 2 == 1 && beats % 3 == 0 {
                bits = [2, 3, 0, 1][turns % 4];
                states = repartitioned(&plan, &code, &states, bits).unwrap();
                (started, turns) = (now, turns + 1);
            }
        }
        assert!(turns > 3 && !expected.is_empty(), "{what}");
        if has_counts(&plan.kind) {
            // Rows that cancel each other out in a beat are equal but for their weights; which of them is kept is up to the state.
            [&mut found, &mut expected].into_iter().for_each(without_input_weights);
        }
        assert!(in_order(&found) == in_order(&expected), "{what}");
    }
}

#[test]
fn two_states_with_the_same_key_are_no_partitions() {
    let group = kinds().into_iter().find(|kind| matches!(kind, KeyedKind::Group(_))).unwrap();
    let (plan, code) = operator(group);
    let mut state = state_of(&plan, &code).unwrap();
    let rows = vec![(Ordinal::NOWHERE, 1, 1, Some("one".to_string()), 1)];
    let step = Step { inputs: vec![rows], watermark: 1 };
    advance(&mut *state, &code, &step, 0, &mut Output::new()).unwrap();
    let twice = [restored(&plan, &code, &saved(&*state)).unwrap(), state];
    let error = repartitioned(&plan, &code, &twice, 0).map(|_| ()).unwrap_err();
    assert_eq!(error.code, code::CHECKPOINT_DAMAGED);
}
