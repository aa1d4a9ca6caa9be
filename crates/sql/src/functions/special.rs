//! Functions that are more than their arguments, so that [`crate::bind`] binds them: what `docs/functions.md` says of them.

use super::function::{Category, Function, functions};

/// Functions that stand with OVER only.
pub(super) const OVER: &[Function<()>] = functions! {Over;
    "ROW_NUMBER" ("ROW_NUMBER()") (), "The number of the row in its partition, from 1.";
    "RANK" ("RANK()") (), "The number of the first row of equal order, from 1: equal rows have one rank, and ranks have gaps.";
    "DENSE_RANK" ("DENSE_RANK()") (), "The rank without gaps.";
    "NTILE" ("NTILE(n)") (), "The number of the row's part, from 1, of n parts of nearly the same size. Bounded input only.";
    "LAG" ("LAG(x [, n [, default]])") (), "The value n rows before (1 by default); the default, or NULL, if there is none.";
    "LEAD" ("LEAD(x [, n [, default]])") (),
        "The value n rows after (1 by default); the default, or NULL, if there is none. Bounded input only.";
};

/// Table functions that put rows into windows.
pub(super) const WINDOW: &[Function<()>] = functions! {Window;
    "TUMBLE" ("TUMBLE(TABLE t, DESCRIPTOR(time), size [, offset])") (), "Windows of the size, one after the other.";
    "HOP" ("HOP(TABLE t, DESCRIPTOR(time), slide, size [, offset])") (), "Windows of the size, one beginning every slide.";
    "CUMULATE" ("CUMULATE(TABLE t, DESCRIPTOR(time), step, size [, offset])") (),
        "Windows that grow by the step until they have the size, a multiple of it.";
    "SESSION" ("SESSION(TABLE t [PARTITION BY key, …], DESCRIPTOR(time), gap)") (), "Windows of rows that follow one another within the gap.";
    "COUNT_TUMBLE" ("COUNT_TUMBLE(TABLE t [PARTITION BY key, …], DESCRIPTOR(time), size)") (),
        "Windows of that many rows, in the order of arrival.";
    "COUNT_HOP" ("COUNT_HOP(TABLE t [PARTITION BY key, …], DESCRIPTOR(time), slide, size)") (),
        "Windows of that many rows, one beginning every slide rows.";
};

/// What tells the sets of a grouping apart.
pub(super) const GROUPING: &[Function<()>] = functions! {Aggregate;
    "GROUPING" ["GROUPING_ID"] ("GROUPING(key, …)") (),
        "A bit for each key, the last one lowest: 1 where the grouping set lacks the key. BIGINT.";
};

/// Time that is an attribute of the row.
pub(super) const TIME: &[Function<()>] = functions! {Temporal;
    "PROCTIME" ("PROCTIME()") (), "The processing time, a TIMESTAMP_LTZ(3): as a column of a table, a time attribute.";
    "CURRENT_WATERMARK" ("CURRENT_WATERMARK(time)") (), "The watermark before the row, of an event time; NULL before the first one.";
};
