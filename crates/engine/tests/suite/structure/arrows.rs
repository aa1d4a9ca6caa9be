//! Which module names items of which.
//!
//! There is an arrow from A to B if the product code of module A names an item that module B defines: in a path in a type,
//! an expression, a pattern, a bound, the head of an `impl` or the tokens of a macro, or in a `use` of its own.
//! `Type::name` names the type, and the `impl` that defines `name`, if it is elsewhere.
//!
//! No arrows are: `mod x;`; `use` of a module, or of all names of one (what is then named through it is); `pub use`, which
//! passes a name on; names of other crates; calls of methods on values, which only types could resolve.

use super::modules::{Modules, impl_item_in_product, in_product, statement_in_product};
use super::names::{Import, NAMESPACES, Names, Namespace, Target, imports, item_name, segments};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};

/// The modules of a crate and the arrows between them.
#[derive(Default)]
pub struct Graph {
    /// Paths of modules.
    pub modules: Vec<String>,
    /// The items that a module names of another.
    pub arrows: BTreeMap<(usize, usize), BTreeSet<String>>,
    /// Paths that lead into this crate, but to nothing, with their modules: what the counter does not understand.
    pub unresolved: BTreeSet<String>,
}

impl Graph {
    pub fn of(tree: &Modules) -> Graph {
        let names = Names::collect(tree);
        let mut graph = Graph { modules: tree.modules.iter().map(|m| m.path.clone()).collect(), ..Graph::default() };
        for (module, content) in tree.modules.iter().enumerate() {
            let mut reader = Reader { names: &names, graph: &mut graph, module, locals: Vec::new(), self_type: None };
            for item in &content.items {
                reader.visit_item(item);
            }
        }
        graph
    }
}

/// Reads the code of one module.
struct Reader<'a> {
    names: &'a Names<'a>,
    graph: &'a mut Graph,
    module: usize,
    /// What functions and blocks declare, from the outermost on.
    locals: Vec<HashMap<(Namespace, String), Target>>,
    /// The type of the `impl` that is read.
    self_type: Option<Target>,
}

impl Reader<'_> {
    fn resolve(&self, path: &[String], namespace: Namespace) -> Option<(Target, usize)> {
        let local = |namespace, name: &str| {
            self.locals.iter().rev().find_map(|l| l.get(&(namespace, name.to_string()))).cloned()
        };
        self.names.resolve(self.module, path, namespace, &local)
    }

    fn arrow(&mut self, to: usize, item: String) {
        if to != self.module {
            self.graph.arrows.entry((self.module, to)).or_default().insert(item);
        }
    }

    /// The code names something by a path, in one of the namespaces.
    fn named(&mut self, path: &[String], namespaces: &[Namespace]) {
        if path == ["self"] {
            return;
        }
        if path[0] == "Self" {
            if let (Some(Target::Item(home, ty)), Some(name)) = (self.self_type.clone(), path.get(1)) {
                self.associated(home, &ty, name);
            }
            return;
        }
        let found: Vec<(Target, usize)> = namespaces.iter().filter_map(|n| self.resolve(path, *n)).collect();
        if found.is_empty() {
            self.unresolved(path);
        }
        for (target, length) in found {
            if let Target::Item(home, item) = target {
                if let Some(name) = path.get(length) {
                    self.associated(home, &item, name);
                }
                self.arrow(home, item);
            }
        }
    }

    fn associated(&mut self, home: usize, ty: &str, name: &str) {
        if let Some(module) = self.names.associated((home, ty), name).filter(|m| *m != home) {
            self.arrow(module, format!("{ty}::{name}"));
        }
    }

    fn unresolved(&mut self, path: &[String]) {
        let module = &self.graph.modules[self.module];
        self.graph.unresolved.insert(format!("{module}: {}", path.join("::")));
    }

    fn import(&mut self, import: &Import) {
        if import.name == "*" {
            if self.resolve(&import.path, Namespace::Type).is_none() {
                self.unresolved(&import.path);
            }
        } else if !import.is_export {
            self.named(&import.path, &NAMESPACES);
        } else if NAMESPACES.iter().all(|n| self.resolve(&import.path, *n).is_none()) {
            self.unresolved(&import.path);
        }
    }

    /// Declares the items and the imports of a block.
    fn declare(&mut self, block: &syn::Block) {
        for statement in block.stmts.iter().filter(|s| statement_in_product(s)) {
            match statement {
                syn::Stmt::Item(syn::Item::Use(item)) => imports(item).iter().for_each(|i| self.declare_import(i)),
                syn::Stmt::Item(item) => {
                    if let Some(name) = item_name(item) {
                        NAMESPACES.iter().for_each(|n| self.bind(*n, name.clone(), Target::Outside));
                    }
                }
                _ => {}
            }
        }
    }

    fn declare_import(&mut self, import: &Import) {
        let targets: Vec<_> = NAMESPACES.iter().filter_map(|n| Some((*n, self.resolve(&import.path, *n)?.0))).collect();
        for (namespace, target) in targets {
            match (&target, import.name.as_str()) {
                (Target::Item(home, item), "*") => {
                    for variant in self.names.variants(*home, item) {
                        NAMESPACES.iter().for_each(|n| self.bind(*n, variant.clone(), target.clone()));
                    }
                }
                // All names of a module, within a block: nothing here follows that.
                (Target::Module(_), "*") => self.unresolved(&[import.path.join("::"), "*".into()]),
                (_, name) => self.bind(namespace, name.into(), target),
            }
        }
    }

    fn bind(&mut self, namespace: Namespace, name: String, target: Target) {
        self.locals.last_mut().expect("every item has its own").insert((namespace, name), target);
    }

    /// Reads an item or a block with names of its own.
    fn nested(&mut self, read: impl FnOnce(&mut Self)) {
        let depth = self.locals.len();
        self.locals.push(HashMap::new());
        read(self);
        self.locals.truncate(depth);
    }

    /// Finds paths in the tokens of a macro: identifiers with `::` between them. One alone counts if it looks like a type, a
    /// constant, a call or a macro; others are variables and fields.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if let TokenTree::Group(group) = &tokens[at] {
                self.tokens(group.stream());
            }
            let (path, length) = path_at(&tokens, at);
            let after = at + length;
            if !path.is_empty() && begins_path(&tokens, at) {
                let is_called = matches!(tokens.get(after), Some(TokenTree::Group(_)));
                let is_macro =
                    is_sign(&tokens, after, '!') && matches!(tokens.get(after + 1), Some(TokenTree::Group(_)));
                let namespaces: &[Namespace] = match () {
                    () if is_macro => &[Namespace::Macro],
                    () if path.len() > 1 => &NAMESPACES,
                    () if path[0].starts_with(char::is_uppercase) => &[Namespace::Type, Namespace::Value],
                    () if is_called => &[Namespace::Value],
                    () => &[],
                };
                if !namespaces.is_empty() {
                    self.named(&path, namespaces);
                }
            }
            at = after.max(at + 1);
        }
    }
}

fn is_sign(tokens: &[TokenTree], at: usize, sign: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == sign)
}

/// The path that begins at a token, if one does, and its number of tokens.
fn path_at(tokens: &[TokenTree], start: usize) -> (Vec<String>, usize) {
    let (mut path, mut at) = (Vec::new(), start);
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        path.push(name.unraw().to_string());
        at += 1;
        let continues = is_sign(tokens, at, ':') && is_sign(tokens, at + 1, ':');
        if !continues || !matches!(tokens.get(at + 2), Some(TokenTree::Ident(_))) {
            break;
        }
        at += 2;
    }
    (path, at - start)
}

/// Whether an identifier is neither a field, a method, a lifetime, a variable of a macro nor the end of another path.
fn begins_path(tokens: &[TokenTree], at: usize) -> bool {
    let before = |back: usize, sign: char| at >= back && is_sign(tokens, at - back, sign);
    let is_dollar_crate = matches!(&tokens[at], TokenTree::Ident(name) if name == "crate") && before(1, '$');
    let is_part = before(1, '.') && !before(2, '.') || before(1, '\'') || before(1, '$');
    let continues = before(1, ':') && before(2, ':');
    is_dollar_crate || !is_part && !continues
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if in_product(item) {
            self.nested(|reader| visit::visit_item(reader, item));
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if impl_item_in_product(item) {
            self.nested(|reader| visit::visit_impl_item(reader, item));
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if statement_in_product(statement) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        imports(item).iter().for_each(|import| self.import(import));
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let outer = std::mem::replace(&mut self.self_type, self.names.self_type(self.module, block));
        visit::visit_item_impl(self, block);
        self.self_type = outer;
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        self.nested(|reader| visit::visit_trait_item(reader, item));
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.nested(|reader| {
            reader.declare(block);
            visit::visit_block(reader, block);
        });
    }

    /// `let x = x();` calls the function.
    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Some(init) = &local.init {
            self.visit_local_init(init);
        }
        self.visit_pat(&local.pat);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.to_string();
        if name.starts_with(char::is_uppercase) {
            self.named(&[name], &[Namespace::Value]);
        } else {
            self.bind(Namespace::Value, name, Target::Outside);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        self.path(path.qself.as_ref(), &path.path, Namespace::Value);
    }

    fn visit_type_path(&mut self, path: &'ast syn::TypePath) {
        self.path(path.qself.as_ref(), &path.path, Namespace::Type);
    }

    fn visit_pat_tuple_struct(&mut self, pattern: &'ast syn::PatTupleStruct) {
        self.path(pattern.qself.as_ref(), &pattern.path, Namespace::Value);
        pattern.elems.iter().for_each(|p| self.visit_pat(p));
    }

    /// Literals and patterns of structs, and bounds.
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(None, path, Namespace::Type);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.path(None, &call.path, Namespace::Macro);
        self.tokens(call.tokens.clone());
    }
}

impl Reader<'_> {
    fn path(&mut self, qself: Option<&syn::QSelf>, path: &syn::Path, namespace: Namespace) {
        if let Some(qself) = qself {
            self.visit_type(&qself.ty);
        }
        // The path of `<Type>::name` begins with the type.
        if path.leading_colon.is_none() && qself.is_none_or(|q| q.position > 0) {
            self.named(&segments(path), &[namespace]);
        }
        for segment in &path.segments {
            self.visit_path_arguments(&segment.arguments);
        }
    }
}
