//! Room for messages between nodes.

use std::any::Any;

/// Room for a message: whoever drops it tells others that they may send more.
pub type Credit = Box<dyn Any + Send + Sync>;
