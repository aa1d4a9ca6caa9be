//! How often processes are disturbed, which `make crash` says.

/// The number in a variable, or the default.
pub fn how_often(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}
