//! Building of row programs: statements are appended to the innermost open scope, with value numbering and folding of
//! trivial constants, so that lowering can ask for what it needs without remembering what it has.

use crate::fold;
use crate::program::{Call, Comparison, FilterShape, Input, Op, Program, Site, Statement, Terminal, Value};
use crate::rewrite;
use millstream_abi::{ErrorKind, Phys, RuntimeFn};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Builds one program. `K` names results that lowering wants to find again; `R` is what it keeps of them.
#[derive(Debug)]
pub(crate) struct Builder<K, R> {
    types: Vec<Phys>,
    /// Definition of each value that an operation defines.
    ops: Vec<Option<Op>>,
    strings: Vec<Box<[u8]>>,
    sites: Vec<Site>,
    /// What operations have given, each with the scopes in which it is known. One map for all scopes: thousands of them may be
    /// open at once (CASE), and each operation is looked for in all of them.
    values: HashMap<(Op, Phys), Vec<(ScopeId, Value)>>,
    fates: Vec<Fate>,
    /// Open scopes, the body of the program first.
    scopes: Vec<Scope<K, R>>,
}

/// A number for each scope that was ever opened.
type ScopeId = usize;

/// What has become of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    /// Nothing of it is known outside, unless it is inlined yet.
    Closed,
    /// It is part of another now.
    Inlined(ScopeId),
}

/// The statements of a body or branch, and what is known in it.
#[derive(Debug)]
pub(crate) struct Scope<K, R> {
    id: ScopeId,
    statements: Vec<Statement>,
    /// Whether all statements are [`Statement::Let`]: executing them in rows that do not need them is harmless and cheap.
    pub(crate) is_pure: bool,
    /// How deep branches are within it.
    pub(crate) depth: usize,
    calls: HashMap<(RuntimeFn, Vec<Value>), (Value, Value)>,
    traps: HashSet<(Value, ErrorKind)>,
    notes: HashMap<K, R>,
}

/// Whether what a scope knows is known now: it is open, or part of an open one. Remembers where a chain of inlined scopes ends.
fn is_open(fates: &mut [Fate], scope: ScopeId) -> bool {
    let mut end = scope;
    while let Fate::Inlined(outer) = fates[end] {
        end = outer;
    }
    let mut at = scope;
    while let Fate::Inlined(outer) = fates[at] {
        fates[at] = Fate::Inlined(end);
        at = outer;
    }
    fates[end] == Fate::Open
}

impl<K, R> Scope<K, R> {
    fn new(id: ScopeId) -> Scope<K, R> {
        Scope {
            id,
            statements: Vec::new(),
            is_pure: true,
            depth: 0,
            calls: HashMap::new(),
            traps: HashSet::new(),
            notes: HashMap::new(),
        }
    }

    fn push(&mut self, statement: Statement) {
        self.is_pure &= matches!(statement, Statement::Let(..));
        self.statements.push(statement);
    }
}

impl<K: Eq + Hash + Clone, R: Clone> Builder<K, R> {
    /// An empty program.
    pub(crate) fn new() -> Builder<K, R> {
        Builder {
            types: Vec::new(),
            ops: Vec::new(),
            strings: Vec::new(),
            sites: Vec::new(),
            values: HashMap::new(),
            fates: vec![Fate::Open],
            scopes: vec![Scope::new(0)],
        }
    }

    /// A program without statements that has the constants and sites of another, at their numbers.
    pub(crate) fn over(strings: &[Box<[u8]>], sites: &[Site]) -> Builder<K, R> {
        Builder { strings: strings.to_vec(), sites: sites.to_vec(), ..Builder::new() }
    }

    fn scope(&mut self) -> &mut Scope<K, R> {
        self.scopes.last_mut().expect("the body's scope stays open")
    }

    fn define(&mut self, phys: Phys, op: Option<Op>) -> Value {
        let value = Value(self.types.len() as u32);
        self.types.push(phys);
        self.ops.push(op);
        value
    }

    /// Type of a value.
    pub(crate) fn type_of(&self, value: Value) -> Phys {
        self.types[value.0 as usize]
    }

    /// Definition of a value, when an operation defines it.
    pub(crate) fn definition(&self, value: Value) -> Option<&Op> {
        self.ops[value.0 as usize].as_ref()
    }

    /// The truth of a value that is a Bool constant.
    pub(crate) fn known_bool(&self, value: Value) -> Option<bool> {
        match self.definition(value) {
            Some(Op::Bool(b)) => Some(*b),
            _ => None,
        }
    }

    /// The number of a value that is an integer constant.
    pub(crate) fn known_int(&self, value: Value) -> Option<i128> {
        match self.definition(value) {
            Some(Op::Int(n)) => Some(*n),
            _ => None,
        }
    }

    /// The result of an operation: folded, found, or appended.
    pub(crate) fn op(&mut self, op: Op, phys: Phys) -> Value {
        let op = match fold::fold(self, op, phys) {
            fold::Folded::Value(value) => return value,
            fold::Folded::Op(op) => op,
        };
        let key = (op, phys);
        if let Some(value) = self.known(&key) {
            return value;
        }
        let value = self.define(phys, Some(key.0.clone()));
        let scope = self.scope();
        scope.push(Statement::Let(value, key.0.clone()));
        let id = scope.id;
        self.values.entry(key).or_default().push((id, value));
        value
    }

    /// What an operation has given in an open scope; the innermost one counts.
    fn known(&mut self, key: &(Op, Phys)) -> Option<Value> {
        let fates = &mut self.fates;
        self.values.get(key)?.iter().rev().find(|(scope, _)| is_open(fates, *scope)).map(|(_, value)| *value)
    }

    /// A Bool constant.
    pub(crate) fn bool(&mut self, b: bool) -> Value {
        self.op(Op::Bool(b), Phys::Bool)
    }

    /// An integer constant; wraps to the type.
    pub(crate) fn int(&mut self, n: i128, phys: Phys) -> Value {
        self.op(Op::Int(fold::wrap(n, phys)), phys)
    }

    /// A float constant.
    pub(crate) fn float(&mut self, x: f64, phys: Phys) -> Value {
        let x = if phys == Phys::F32 { x as f32 as f64 } else { x };
        self.op(Op::Float(x.to_bits()), phys)
    }

    /// A string constant.
    pub(crate) fn str(&mut self, bytes: &[u8]) -> Value {
        let index = match self.strings.iter().position(|s| **s == *bytes) {
            Some(index) => index,
            None => {
                self.strings.push(bytes.into());
                self.strings.len() - 1
            }
        };
        self.op(Op::Str(index as u32), Phys::Str)
    }

    /// The bytes of a string constant.
    pub(crate) fn string(&self, index: u32) -> Option<&[u8]> {
        self.strings.get(index as usize).map(|s| &**s)
    }

    /// The value of a type that stands where there is none: FALSE, 0, the empty string.
    pub(crate) fn default_of(&mut self, phys: Phys) -> Value {
        match phys {
            Phys::Bool => self.bool(false),
            Phys::F32 | Phys::F64 => self.float(0.0, phys),
            Phys::Str => self.str(b""),
            _ => self.int(0, phys),
        }
    }

    /// Conjunction.
    pub(crate) fn and(&mut self, a: Value, b: Value) -> Value {
        self.op(Op::And(a, b), Phys::Bool)
    }

    /// Disjunction.
    pub(crate) fn or(&mut self, a: Value, b: Value) -> Value {
        self.op(Op::Or(a, b), Phys::Bool)
    }

    /// Negation.
    pub(crate) fn not(&mut self, a: Value) -> Value {
        self.op(Op::Not(a), Phys::Bool)
    }

    /// Comparison.
    pub(crate) fn compare(&mut self, comparison: Comparison, a: Value, b: Value) -> Value {
        self.op(Op::Compare(comparison, a, b), Phys::Bool)
    }

    /// `a` when `condition`, else `b`.
    pub(crate) fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        let phys = self.type_of(a);
        self.op(Op::Select(condition, a, b), phys)
    }

    /// `a` as a value of `phys`, or `a` when it is one.
    pub(crate) fn convert(&mut self, a: Value, phys: Phys) -> Value {
        if self.type_of(a) == phys { a } else { self.op(Op::Convert(a), phys) }
    }

    /// Adds a site.
    pub(crate) fn site(&mut self, site: Site) -> u32 {
        match self.sites.iter().position(|s| *s == site) {
            Some(index) => index as u32,
            None => {
                self.sites.push(site);
                self.sites.len() as u32 - 1
            }
        }
    }

    /// Makes the row an error when `condition`.
    pub(crate) fn trap(&mut self, condition: Value, kind: ErrorKind, site: u32) {
        let known = self.known_bool(condition) == Some(false)
            || self.scopes.iter().any(|s| s.traps.contains(&(condition, kind)));
        if !known {
            self.scope().traps.insert((condition, kind));
            self.scope().push(Statement::Trap { condition, kind, site });
        }
    }

    /// Drops the row unless `condition`. Only while no branch is open.
    pub(crate) fn filter(&mut self, condition: Value, counts_late: bool) {
        self.shaped_filter(condition, counts_late, FilterShape::Auto);
    }

    /// [`Builder::filter`] of a shape.
    pub(crate) fn shaped_filter(&mut self, condition: Value, counts_late: bool, shape: FilterShape) {
        debug_assert_eq!(self.scopes.len(), 1, "filters stand at the top level");
        if self.known_bool(condition) != Some(true) {
            self.scope().push(Statement::Filter { condition, counts_late, shape });
        }
    }

    /// Result and validity of a call. The same call is made once, but for functions that give different results for the
    /// same arguments.
    pub(crate) fn call(&mut self, function: RuntimeFn, arguments: &[Value], site: u32) -> (Value, Value) {
        let key = (function, arguments.to_vec());
        if let Some(found) = self.scopes.iter().rev().find_map(|s| s.calls.get(&key)) {
            return *found;
        }
        let result = self.define(function.result(), None);
        let valid = self.define(Phys::Bool, None);
        let call = Statement::Call(Call { result, valid, function, arguments: arguments.to_vec(), site });
        self.scope().push(call);
        if function.is_deterministic() {
            self.scope().calls.insert(key, (result, valid));
        }
        (result, valid)
    }

    /// What was noted under a key in a scope that is open.
    pub(crate) fn noted(&self, key: &K) -> Option<R> {
        self.scopes.iter().rev().find_map(|s| s.notes.get(key)).cloned()
    }

    /// Notes something that holds within the innermost scope.
    pub(crate) fn note(&mut self, key: K, result: R) {
        self.scope().notes.insert(key, result);
    }

    /// Opens a scope.
    pub(crate) fn open(&mut self) {
        let id = self.fates.len();
        self.fates.push(Fate::Open);
        self.scopes.push(Scope::new(id));
    }

    /// Closes the innermost scope, to be inlined or to become a branch.
    pub(crate) fn close(&mut self) -> Scope<K, R> {
        debug_assert!(self.scopes.len() > 1, "the body's scope stays open");
        let scope = self.scopes.pop().unwrap_or_else(|| Scope::new(0));
        self.fates[scope.id] = Fate::Closed;
        scope
    }

    /// Appends a closed scope to the innermost open one.
    pub(crate) fn inline(&mut self, scope: Scope<K, R>) {
        let outer = self.scope();
        let id = outer.id;
        outer.is_pure &= scope.is_pure;
        outer.depth = outer.depth.max(scope.depth);
        outer.statements.extend(scope.statements);
        outer.calls.extend(scope.calls);
        outer.traps.extend(scope.traps);
        outer.notes.extend(scope.notes);
        self.fates[scope.id] = Fate::Inlined(id);
    }

    /// Appends an `if`; `pairs` are the values that the two branches give. Returns the results.
    pub(crate) fn branch(
        &mut self,
        condition: Value,
        then: Scope<K, R>,
        otherwise: Scope<K, R>,
        pairs: &[(Value, Value)],
    ) -> Vec<Value> {
        let results: Vec<(Value, Value, Value)> = pairs
            .iter()
            .map(|&(a, b)| {
                let phys = self.type_of(a);
                (self.define(phys, None), a, b)
            })
            .collect();
        let values = results.iter().map(|r| r.0).collect();
        let depth = 1 + then.depth.max(otherwise.depth);
        let (then, otherwise) = (then.statements, otherwise.statements);
        let scope = self.scope();
        scope.depth = scope.depth.max(depth);
        scope.push(Statement::If { condition, then, otherwise, results });
        values
    }

    /// The program, without dead code, numbered densely.
    pub(crate) fn finish(mut self, name: &str, inputs: Vec<Input>, terminal: Terminal) -> Program {
        debug_assert_eq!(self.scopes.len(), 1, "every branch is closed");
        let mut program = Program {
            name: name.into(),
            inputs,
            types: self.types,
            strings: self.strings,
            sites: self.sites,
            body: self.scopes.pop().map_or_else(Vec::new, |s| s.statements),
            terminal,
        };
        rewrite::finish(&mut program);
        program
    }
}
