//! Row programs: the typed intermediate representation between operators and executable code.
//!
//! A program describes what happens to *one row* of a buffer; both back ends run it over many. It is in static
//! single assignment form with structured control flow: every value is defined once, before its uses, and a value
//! defined inside a branch of an `if` is used only there (results leave through the `if`'s `results`). NULL does not
//! exist here: lowering gives every nullable expression a second, boolean value that says whether it is valid.
//!
//! ```text
//! program "pipeline 0" (auction: i64, price: i64?, channel: str)
//!   v0 = load 1
//!   v1 = valid 1
//!   v2 = const i64 100
//!   v3 = gt v0 v2
//!   v4 = and v1 v3
//!   filter v4
//!   v5 = load 0
//!   emit auction = v5
//! ```

use millstream_abi::{ArrayLayout, EntryLayout, ErrorKind, Phys, RuntimeFn};
use std::fmt;

/// A value of a program: its number, in order of definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// A whole row program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    /// Name for profilers and printing.
    pub name: String,
    /// Input columns.
    pub inputs: Vec<Input>,
    /// Type of every value, by number.
    pub types: Vec<Phys>,
    /// String and byte constants; the program (and everything compiled from it) owns them.
    pub strings: Vec<Box<[u8]>>,
    /// Where in the query errors come from.
    pub sites: Vec<Site>,
    /// What happens to a row, before the terminal.
    pub body: Vec<Statement>,
    /// The row's effect, reached unless a filter dropped the row.
    pub terminal: Terminal,
}

/// An input column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Input {
    /// For printing.
    pub name: String,
    /// Type of its values.
    pub phys: Phys,
    /// Whether the column can have a validity bitmap.
    pub nullable: bool,
    /// Where its values are.
    pub layout: Layout,
}

impl Input {
    /// A column that is an Arrow array.
    pub fn array(name: impl Into<String>, phys: Phys, nullable: bool) -> Input {
        Input { name: name.into(), phys, nullable, layout: Layout::Array }
    }
}

/// Where the values of an input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// In an Arrow array of the type.
    Array,
    /// In packed records, one a row. The column given for the input is the records: the same for all such inputs of a
    /// program.
    Record(InRecord),
}

/// A field of packed records: that of row `r` is at the bytes `r * length + offset…` of the records. It is never NULL.
/// Numbers are little-endian and not aligned, a Bool is a byte, not 0 for TRUE, and a Str has its bytes in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InRecord {
    /// Bytes of a record.
    pub length: usize,
    /// First byte of the field.
    pub offset: usize,
    /// Bytes of the field: the size of the type, or the most that a Str has.
    pub width: usize,
    /// Whether a Str ends at its first byte of 0, if it has one, as text does and binary data does not.
    pub ends_at_zero: bool,
}

/// A place in the query that can fail.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Site {
    /// What was being computed, for the message: `price / quantity`.
    pub what: String,
    /// Line in the SQL text from 1, or 0.
    pub line: u32,
    /// Column in the SQL text from 1.
    pub column: u32,
    /// Characters to underline.
    pub length: u32,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Statement {
    /// Defines a value.
    Let(Value, Op),
    /// Calls a runtime function: defines its result and whether that is valid (not NULL). A failing call makes the row
    /// an error at the site. Only executed when control reaches it, so it can be guarded by [`Statement::If`].
    Call(Call),
    /// Executes one of two branches. Each result is defined after the `if` with the value of the branch taken.
    If {
        /// Bool.
        condition: Value,
        /// Executed when TRUE. No filters within.
        then: Vec<Statement>,
        /// Executed when FALSE. No filters within.
        otherwise: Vec<Statement>,
        /// (result, value in `then`, value in `otherwise`), all three of one type.
        results: Vec<(Value, Value, Value)>,
    },
    /// Makes the row an error when the condition is TRUE.
    Trap {
        /// Bool.
        condition: Value,
        /// What is wrong.
        kind: ErrorKind,
        /// Index into [`Program::sites`].
        site: u32,
    },
    /// Drops the row unless the condition is TRUE. Only at the top level of the body.
    Filter {
        /// Bool.
        condition: Value,
        /// Whether dropped rows are counted as late (`ExecContext::late_rows`).
        counts_late: bool,
        /// How machine code drops rows.
        shape: FilterShape,
    },
}

/// A call of a runtime function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call {
    /// The result; all zero bits (0, FALSE, the empty string) when not valid, so that operations on it are harmless.
    pub result: Value,
    /// Bool: whether there is a result.
    pub valid: Value,
    /// The function.
    pub function: RuntimeFn,
    /// Arguments, of the function's argument types.
    pub arguments: Vec<Value>,
    /// Index into [`Program::sites`].
    pub site: u32,
}

/// How machine code drops the rows of a filter. It changes what a filter costs, not what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum FilterShape {
    /// As suits what is known before rows were seen.
    #[default]
    Auto,
    /// A branch: the same loop continues with the rows that pass. Cheap when nearly all rows go one way.
    Branch,
    /// No branch: the condition is and-ed with the next one, which is evaluated for all rows that this one was. The last filter
    /// is a branch then.
    Mask,
    /// Ends the loop: the numbers of the rows that pass are stored, and another loop continues with them.
    Selection,
}

/// An operation without side effects, on operands of the types stated. Unless stated otherwise the operands and the
/// result have one type.
///
/// Both back ends give the same bits for every operation, but for the sign and payload of a computed NaN, which no
/// later operation shows: comparisons, conversions to integers and text treat all NaNs alike, and lowering replaces
/// them by the one NaN of `f64::NAN` where they are hashed or kept as minimum or maximum.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    /// A truth value.
    Bool(bool),
    /// An integer constant of the result's integer type.
    Int(i128),
    /// A float constant of the result's type, by its f64 bits (rounded to binary32 for F32).
    Float(u64),
    /// String constant: index into [`Program::strings`].
    Str(u32),
    /// Value of an input column in this row. Undefined when the column is NULL there (a Str is then the empty string).
    Load(u32),
    /// Bool: whether the input column is not NULL in this row.
    IsValid(u32),
    /// I128: the raw 16-byte Arrow view of a Str column, without resolving the address of a long string. Equal to the
    /// bits of an inline string constant iff the strings are equal.
    LoadView(u32),
    /// I128: the first bytes, 1 to 16, of a Str input in a record, zero-extended. Also those behind the end of the text.
    LoadBytes(u32, u32),
    /// I64: the watermark before this row, in milliseconds.
    Watermark,
    /// Wrapping addition of integers; IEEE addition of floats.
    Add(Value, Value),
    /// Wrapping subtraction; IEEE subtraction.
    Sub(Value, Value),
    /// Wrapping multiplication; IEEE multiplication.
    Mul(Value, Value),
    /// Division: truncated for integers, whose divisor lowering has guarded against 0 (a zero divisor in a row whose
    /// guard has trapped gives any value but must not fault; MIN / -1 wraps to MIN). IEEE for floats.
    Div(Value, Value),
    /// Remainder with the sign of the dividend; guards as for Div (MIN % -1 is 0). `fmod` for floats.
    Rem(Value, Value),
    /// Wrapping negation; sign flip of floats.
    Neg(Value),
    /// Comparison of integers (signed), Bool, floats (NaN: only `Ne` is TRUE). Bool result. For Str only Eq and Ne.
    Compare(Comparison, Value, Value),
    /// Conjunction of two Bools; both operands are evaluated.
    And(Value, Value),
    /// Disjunction of two Bools.
    Or(Value, Value),
    /// Negation of a Bool.
    Not(Value),
    /// The second operand when the first (Bool) is TRUE, else the third.
    Select(Value, Value, Value),
    /// Conversion between integers and floats, or from Bool to either, to the result's type: sign extension and
    /// truncation of integers; Bool as 0 or 1; integer to float rounds to nearest (ties to even); float to integer
    /// truncates toward zero and saturates at the ends of the result's own type, NaN gives 0; float to float rounds.
    /// Never to Bool, never to the operand's own type. (Same as Rust's `as`.)
    Convert(Value),
    /// Bool: whether x ≤ -10^digits or x ≥ 10^digits, for an I128 operand x and 1 ≤ digits ≤ 38.
    OutOfDecimal(Value, u8),
    /// I128: I128 operand times 10^n, wrapping; 1 ≤ n ≤ 38.
    ScaleUp(Value, u8),
    /// I128: I128 operand divided by 10^n, rounded half away from zero (Java's HALF_UP); 1 ≤ n ≤ 38.
    ScaleDown(Value, u8),
    /// I64: start of the slice of a time in milliseconds: `t - floor_mod(t - offset, size)`, every step wrapping.
    SliceStart {
        /// Time, I64.
        time: Value,
        /// Length of a slice in milliseconds, positive.
        size_ms: i64,
        /// Shift, 0 ≤ offset < size.
        offset_ms: i64,
    },
    /// I64: folds a value of any type (second) that is not NULL into the hash of a key so far (first), as described at
    /// [`Update`]. Hashes start as [`millstream_abi::HASH_SEED`].
    HashFold(Value, Value),
    /// I64: ends a hash, as `hash_finish` does.
    HashFinish(Value),
}

/// Comparison operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Eq,
    /// `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

/// The effect of a row that no filter dropped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Terminal {
    /// Appends a row to the outputs, and, in a program with filters, its number to `out_selection`. With no columns only the
    /// selection is written.
    Emit(Vec<Emit>),
    /// Updates a table.
    Update(Update),
}

/// One emitted column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Emit {
    /// For printing.
    pub name: String,
    /// The value.
    pub value: Value,
    /// Bool: whether it is not NULL; `None`: never NULL (the validity bytes are not written).
    pub valid: Option<Value>,
}

/// Update of the entry of a key in the table of a slice.
///
/// 1. If a slice is given and is not the context's `slice_start`, or the context has no table, `find_slice` is called
///    first (with 0 when there is no slice).
/// 2. The key is hashed: from [`millstream_abi::HASH_SEED`], for each key in order: a NULL folds the word `HASH_SEED`;
///    I8 to I64 fold their sign extension, Bool 0 or 1, F32 and F64 the bits as f64 by `hash_word`; I128 folds by
///    `hash_wide`, Str by `hash_str`; at the end `hash_finish`.
/// 3. If the layout has a dense key that is not NULL, and `index = key - table.dense_first` (sign-extended, wrapping) is
///    less than `table.dense_len` (unsigned), the region covers the key. If it is an [array](Update::array), the entry is at
///    `table.dense + index * array.stride`: it is always there, and its mark is set to 1 unless that is a count. If not, the
///    entry is number `index` from `table.dense`, and it is there if its hash is not 0. A key that is not covered is searched from
///    number `hash & mask` of `table.entries` on, wrapping around, until an entry has
///    hash 0 (not there) or has the same hash, the same null mask and the same keys (a NULL key's bytes are zero; strings by
///    content). If it is not there, `insert_key` is called with the hash, the null mask (0 when the layout has none) and one
///    [`millstream_abi::Slot`] a key, zero for NULL; its entry is used; the table's header may have changed.
///    If the layout [packs](EntryLayout::packs), the search may be left out where the table's directory knows the place
///    ([`millstream_abi::PackedKey`]); whoever searches may tell it. Not of a table that others update too.
///    Of a table that others update too ([`Access::Shared`]) hash words are loaded with acquire ordering, and an entry whose
///    hash is 1 is just being written: in the dense region it counts as not there, in the search it is passed over.
/// 4. Each component whose guard holds is updated by the formula at [`Component`], in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Update {
    /// Who else uses the table meanwhile.
    pub access: Access,
    /// Layout of the table's entries.
    pub layout: EntryLayout,
    /// I64: start of the row's slice; `None` when there is only one, whose start is then given as 0.
    pub slice: Option<Value>,
    /// Value of each key, of the slot's type, and its validity (None: never NULL).
    pub keys: Vec<(Value, Option<Value>)>,
    /// Updates in the order of the layout's accumulators.
    pub components: Vec<Component>,
}

impl Update {
    /// The entries of the dense region, if that is an array.
    pub fn array(&self) -> Option<ArrayLayout> {
        self.layout.array().filter(|_| self.access == Access::Own)
    }
}

/// Who uses a table while a program updates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// The task alone.
    Own,
    /// Other tasks as well, with the same layout, which allows it ([`EntryLayout::allows_sharing`]).
    Shared,
}

/// Update of one accumulator `a` with the argument `x`, when the guard holds. (The interpreter's form of this is in
/// `interpreter::update`.)
///
/// | accumulator | formula |
/// | --- | --- |
/// | Count | `a += 1` |
/// | SumI64, SumI128 | `a += x`, wrapping |
/// | SumF64, `a` of three words | if `x` is near ([`millstream_abi::exact::fixed`]): `a = exact::add(a, fixed(x))`. Else as Object, with the address of `a`, which stays as it is |
/// | MinI64, MinI128 | `if x < a { a = x }`, signed |
/// | MaxI64, MaxI128 | `if x > a { a = x }`, signed |
/// | MinF64, MaxF64 | as MinI64, MaxI64 over `order(x)`, `order(a)`: `order(v)` is the i64 `bits ^ ((bits >> 63 arithmetic) >> 1 logical)`, which orders -∞ < … < -0.0 < 0.0 < … < ∞ < NaN. Lowering has made every NaN argument the one of `f64::NAN` |
/// | MinStr, MaxStr | if `a` is [`millstream_abi::Str::NONE`], or `x` is less (greater) than `a` in byte order: copy `x`, call `keep_string` on the copy if it is not inline, and store it in `a` |
/// | Group | `a` stays; it is stored in `ExecContext::groups` at the row's number. No argument, no guard |
/// | Object | call `update_object` with the address of `a`, the component's index and the row's number; and `x` in a slot, the bytes behind it zero, or null when `valid` is there and FALSE. The callback does not move entries. Of a bag or set of words (`is_logged_inline`) compiled code appends `x` to the log of the table itself, if `a` is not 0 and there is room |
///
/// With [`Access::Shared`] the same happens by atomic instructions of relaxed ordering, so that no update is lost; what a
/// task sees of the others' is only defined when all have ended. An addition is one atomic addition; those of SumI128 and SumF64 add the
/// low words, then each higher one with the carry of the one before. Minima and maxima load `a` first and write by compare-and-swap only
/// while `x` is better, so that an entry that many tasks meet is mostly read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Component {
    /// Of the accumulator's argument type; `None` for those that have none.
    pub argument: Option<Value>,
    /// Bool: whether the argument is not NULL; `None`: it never is where the guard holds. Only lists that keep NULLs are
    /// updated with one.
    pub valid: Option<Value>,
    /// Bool: whether the row counts; `None`: always.
    pub guard: Option<Value>,
}

impl Program {
    /// The same program for tables that several tasks update at once; `None` when it updates none, or none that can be
    /// shared. Hand it to a back end beside the program itself: the tables decide which of the two runs.
    pub fn shared(&self) -> Option<Program> {
        let Terminal::Update(update) = &self.terminal else { return None };
        let terminal = Terminal::Update(Update { access: Access::Shared, ..update.clone() });
        update.layout.allows_sharing().then(|| Program { terminal, ..self.clone() })
    }

    /// Whether it is for tables that several tasks update at once.
    pub fn is_shared(&self) -> bool {
        matches!(&self.terminal, Terminal::Update(update) if update.access == Access::Shared)
    }

    /// Whether every row reaches the terminal, unless it is bad.
    pub fn is_total(&self) -> bool {
        !self.body.iter().any(|statement| matches!(statement, Statement::Filter { .. }))
    }

    /// Type of a value.
    pub fn type_of(&self, value: Value) -> Phys {
        self.types[value.0 as usize]
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}
