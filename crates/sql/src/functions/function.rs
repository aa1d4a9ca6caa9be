//! What a function is: its names, how it is called, what it is about, and how a call of it is bound.

use super::call::{BoundCall, Call};
use super::examples::{self, Example};
use super::overload::Overload;

/// What a function is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// Strings.
    String,
    /// Patterns.
    Regex,
    /// Numbers.
    Math,
    /// Dates, times and intervals.
    Temporal,
    /// Choices and NULL.
    Conditional,
    /// Arrays, maps, rows.
    Collection,
    /// JSON.
    Json,
    /// Digests.
    Hash,
    /// Aggregate functions.
    Aggregate,
    /// Functions that need OVER.
    Over,
    /// Table functions that put rows into windows.
    Window,
    /// DataFusion's functions.
    Vectorised,
}

impl Category {
    /// Every category with its heading, in the order of the documentation.
    pub const ALL: &[(Category, &str)] = &[
        (Category::String, "String functions"),
        (Category::Regex, "Patterns and regular expressions"),
        (Category::Math, "Mathematical functions"),
        (Category::Temporal, "Date and time functions"),
        (Category::Conditional, "Conditional functions"),
        (Category::Collection, "Collection functions (vectorised)"),
        (Category::Json, "JSON functions"),
        (Category::Hash, "Hash functions"),
        (Category::Aggregate, "Aggregate functions"),
        (Category::Over, "OVER functions"),
        (Category::Window, "Window table functions"),
        (Category::Vectorised, "Further functions (vectorised)"),
    ];
}

/// A function, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Upper-case name.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// How it is called.
    pub signatures: Vec<String>,
    /// One sentence.
    pub description: String,
    /// What it is about.
    pub category: Category,
    /// At least one use of it.
    pub examples: Vec<Example>,
}

/// How a call is bound.
#[derive(Debug, Clone, Copy)]
pub(super) enum Binding {
    /// By choosing a native function.
    Overloads(&'static [Overload]),
    /// By code.
    Custom(fn(Call) -> BoundCall),
}

/// A function of ours, and what a call of it becomes.
#[derive(Debug)]
pub(super) struct Function<B = Binding> {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) category: Category,
    pub(super) signatures: &'static [&'static str],
    pub(super) description: &'static str,
    pub(super) binding: B,
}

impl<B> Function<B> {
    /// Its name and its aliases.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + use<B> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The entry of listings.
    pub(super) fn info(&self) -> FunctionInfo {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        FunctionInfo {
            name: self.name.to_owned(),
            aliases: strings(self.aliases),
            signatures: strings(self.signatures),
            description: self.description.to_owned(),
            category: self.category,
            examples: examples::of(self.name),
        }
    }
}

/// Functions of one category: name, aliases, signatures, binding, description.
macro_rules! functions {
    ($category:ident; $($name:literal $([$($alias:literal),*])? ($($signature:literal),*) $binding:expr, $description:literal;)*) => {
        &[$(Function {
            name: $name,
            aliases: &[$($($alias),*)?],
            category: Category::$category,
            signatures: &[$($signature),*],
            description: $description,
            binding: $binding,
        }),*]
    };
}
pub(super) use functions;
