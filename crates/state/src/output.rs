//! What the columns of a trigger's output show of entries.

use millstream_abi::Finish;
use millstream_types::DataType;

/// The columns of a trigger's output before those of the window.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputTypes {
    /// SQL types of the keys, in the order of the layout.
    pub keys: Vec<DataType>,
    /// What is shown of the components.
    pub outputs: Vec<Output>,
}

/// A column that shows an accumulator; several may show the same one.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Index into the accumulators of the layout.
    pub component: usize,
    /// What is shown of it.
    pub finish: Finish,
    /// SQL type. For [`Finish::Value`], `Accumulator::output` is narrowed to its physical type (integers wrap, DOUBLE
    /// rounds).
    pub data_type: DataType,
}
