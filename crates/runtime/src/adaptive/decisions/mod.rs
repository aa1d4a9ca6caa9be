//! What to do about what was observed: one file per decision (Grizzly section 6.2; Darwin section 4.1).
//!
//! A decision is a function of what is in use, of what was observed and of costs, to what is best from now on. It neither
//! looks at clocks nor changes anything, so that it can be tested over tables of situations. Costs are in `costs`, all of
//! them; what keeps choices from swinging is in `hysteresis`, with the margins.
//!
//! | file | decides |
//! | --- | --- |
//! | `filters` | order and shape of filters |
//! | `sharing` | private tables or shared ones |
//! | `pre_aggregation` | whether rows are aggregated before they are merged |
//! | `assumptions` | whether a column is taken to be never NULL, or constant |
//! | `few_values` | whether calls are answered by comparing a column with the few values that it has |
//! | `combination` | how overlapping windows are made of slices |
//! | `buffer_rows` | rows of a buffer |
//! | `workers` | how many workers a pipeline has |
//! | `skipping` | whether columns behind a filter are decoded for its survivors only |

pub(crate) mod assumptions;
pub(crate) mod buffer_rows;
pub(crate) mod combination;
pub(crate) mod costs;
pub(crate) mod draws;
pub(crate) mod few_values;
pub(crate) mod filters;
pub(crate) mod hysteresis;
pub(crate) mod pre_aggregation;
pub(crate) mod sharing;
pub(crate) mod skipping;
pub(crate) mod workers;
