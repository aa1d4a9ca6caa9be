//! What each module names, and which item a path means.
//!
//! Names live in three namespaces, as the language has them. Re-exports, aliases and globs are followed to the module
//! that defines the item.

use super::modules::Modules;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use syn::ext::IdentExt;
use syn::{Fields, ImplItem, Item, ItemImpl, ItemUse, Type, UseTree, Visibility};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Namespace {
    Type,
    Value,
    Macro,
}

pub const NAMESPACES: [Namespace; 3] = [Namespace::Type, Namespace::Value, Namespace::Macro];

/// What a path means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Module(usize),
    /// An item that a module defines.
    Item(usize, String),
    /// Another crate's, the language's or the function's own.
    Outside,
}

/// `use a::b as c`: name `c`, path `a::b`; a glob has the name `*`, and the path of what it opens.
pub struct Import {
    pub name: String,
    pub path: Vec<String>,
    /// It passes the name on to others.
    pub is_export: bool,
}

/// The names of a module.
#[derive(Default)]
struct Scope {
    items: HashSet<(Namespace, String)>,
    imports: Vec<Import>,
    /// What calls of macros may have made: a guess that comes after what is certain.
    made: HashSet<String>,
}

/// The names of a crate.
pub struct Names<'a> {
    pub tree: &'a Modules,
    scopes: Vec<Scope>,
    /// The variants of an enum, by its module and name.
    variants: HashMap<(usize, String), BTreeSet<String>>,
    /// The modules whose `impl`s define `Type::name`, by the module and name of the type, and the name.
    associated: BTreeMap<(usize, String, String), BTreeSet<usize>>,
}

impl<'a> Names<'a> {
    pub fn collect(tree: &'a Modules) -> Names<'a> {
        let scopes = tree.modules.iter().map(|_| Scope::default()).collect();
        let mut names = Names { tree, scopes, variants: HashMap::new(), associated: BTreeMap::new() };
        let all = || tree.modules.iter().enumerate().flat_map(|(id, m)| m.items.iter().map(move |i| (id, i)));
        for (id, item) in all() {
            names.declare(id, item);
        }
        let macros = macros(all().map(|(_, item)| item));
        for (id, item) in all() {
            let Item::Macro(call) = item else { continue };
            if call.ident.is_some() {
                continue;
            }
            // A list hands its rows to the macro that is its argument.
            let arguments = call.mac.tokens.clone().into_iter().map(|token| token.to_string());
            let called = call.mac.path.segments.last().map(|s| s.ident.to_string());
            for body in called.into_iter().chain(arguments).filter_map(|name| macros.get(&name)) {
                names.scopes[id].made.extend(made_by(body, &call.mac.tokens));
            }
        }
        for (id, item) in all() {
            if let Item::Impl(block) = item {
                names.associate(id, block);
            }
        }
        names
    }

    fn declare(&mut self, module: usize, item: &Item) {
        use Namespace::{Macro, Type, Value};
        if let Item::Use(import) = item {
            self.scopes[module].imports.extend(imports(import));
            return;
        }
        if let Item::Enum(item) = item {
            let variants = item.variants.iter().map(|v| v.ident.to_string()).collect();
            self.variants.insert((module, item.ident.to_string()), variants);
        }
        let Some(name) = item_name(item) else { return };
        let namespaces: &[Namespace] = match item {
            Item::Const(_) | Item::Fn(_) | Item::Static(_) => &[Value],
            Item::Struct(item) if !matches!(item.fields, Fields::Named(_)) => &[Type, Value],
            Item::Macro(_) => &[Macro],
            _ => &[Type],
        };
        self.scopes[module].items.extend(namespaces.iter().map(|n| (*n, name.clone())));
    }

    fn associate(&mut self, module: usize, block: &ItemImpl) {
        let Some(Target::Item(home, name)) = self.self_type(module, block) else { return };
        for item in &block.items {
            let item = match item {
                ImplItem::Const(item) => &item.ident,
                ImplItem::Fn(item) => &item.sig.ident,
                ImplItem::Type(item) => &item.ident,
                _ => continue,
            };
            self.associated.entry((home, name.clone(), item.to_string())).or_default().insert(module);
        }
    }

    /// The type of an `impl`.
    pub fn self_type(&self, module: usize, block: &ItemImpl) -> Option<Target> {
        let mut ty = &*block.self_ty;
        while let Type::Reference(reference) = ty {
            ty = &reference.elem;
        }
        let Type::Path(path) = ty else { return None };
        self.resolve(module, &segments(&path.path), Namespace::Type, &|_, _| None).map(|(target, _)| target)
    }

    /// The module whose `impl` defines `Type::name`, if there is one such.
    pub fn associated(&self, (home, ty): (usize, &str), name: &str) -> Option<usize> {
        let modules = self.associated.get(&(home, ty.to_string(), name.to_string()))?;
        modules.first().copied().filter(|_| modules.len() == 1)
    }

    /// The variants of an enum.
    pub fn variants(&self, module: usize, name: &str) -> impl Iterator<Item = &String> {
        self.variants.get(&(module, name.to_string())).into_iter().flatten()
    }

    /// What a path means where `local` names what blocks declare, and how many of its segments name that. None: it
    /// leads into this crate, but to nothing.
    pub fn resolve(
        &self,
        module: usize,
        path: &[String],
        namespace: Namespace,
        local: &dyn Fn(Namespace, &str) -> Option<Target>,
    ) -> Option<(Target, usize)> {
        let first = if path.len() > 1 { Namespace::Type } else { namespace };
        match local(first, &path[0]) {
            Some(target) => self.walk(target, path, 1, namespace, &mut HashSet::new()),
            None => self.resolve_in(module, path, namespace, &mut HashSet::new()),
        }
    }

    fn resolve_in(&self, module: usize, path: &[String], namespace: Namespace, seen: Seen) -> Option<(Target, usize)> {
        let first = if path.len() > 1 { Namespace::Type } else { namespace };
        let start = match path[0].as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.tree.modules[module].parent),
            name if first == Namespace::Macro => self.textual(module, name, seen),
            name => self.name_in(module, first, name, seen).unwrap_or(Target::Outside),
        };
        self.walk(start, path, 1, namespace, seen)
    }

    /// Follows a path from what its first segments mean.
    fn walk(
        &self,
        mut target: Target,
        path: &[String],
        mut at: usize,
        namespace: Namespace,
        seen: Seen,
    ) -> Option<(Target, usize)> {
        while let Target::Module(module) = target
            && at < path.len()
        {
            let wanted = if at + 1 < path.len() { Namespace::Type } else { namespace };
            target = match path[at].as_str() {
                "super" => Target::Module(self.tree.modules[module].parent),
                name => self.name_in(module, wanted, name, seen)?,
            };
            at += 1;
        }
        // A module is a name of types only.
        let is_wanted = !matches!(target, Target::Module(_)) || namespace == Namespace::Type;
        is_wanted.then_some((target, at))
    }

    /// A macro by its name alone: modules see those of their parents.
    fn textual(&self, module: usize, name: &str, seen: Seen) -> Target {
        match self.name_in(module, Namespace::Macro, name, seen) {
            Some(target) => target,
            None if module == 0 => Target::Outside,
            None => self.textual(self.tree.modules[module].parent, name, seen),
        }
    }

    fn name_in(&self, module: usize, namespace: Namespace, name: &str, seen: Seen) -> Option<Target> {
        let scope = &self.scopes[module];
        if namespace == Namespace::Type
            && let Some(child) = self.tree.modules[module].children.get(name)
        {
            return Some(Target::Module(*child));
        }
        if scope.items.contains(&(namespace, name.to_string())) {
            return Some(Target::Item(module, name.to_string()));
        }
        // Imports may go in circles: `use super::*` of a child whose names the parent imports.
        let key = (module, namespace, name.to_string());
        if !seen.insert(key.clone()) {
            return None;
        }
        let mut named = scope.imports.iter().filter(|i| i.name == name);
        let found = named
            .find_map(|i| self.resolve_in(module, &i.path, namespace, seen).map(|(target, _)| target))
            .or_else(|| scope.made.contains(name).then(|| Target::Item(module, name.to_string())))
            .or_else(|| self.through_globs(module, namespace, name, seen));
        seen.remove(&key);
        found
    }

    fn through_globs(&self, module: usize, namespace: Namespace, name: &str, seen: Seen) -> Option<Target> {
        let mut outside = None;
        for glob in self.scopes[module].imports.iter().filter(|i| i.name == "*") {
            match self.resolve_in(module, &glob.path, Namespace::Type, seen).map(|(target, _)| target) {
                Some(Target::Module(opened)) => {
                    if let Some(found) = self.name_in(opened, namespace, name, seen) {
                        return Some(found);
                    }
                }
                Some(Target::Item(home, item)) => {
                    if self.variants(home, &item).any(|v| v == name) {
                        return Some(Target::Item(home, item));
                    }
                }
                // It may have any name.
                _ => outside = Some(Target::Outside),
            }
        }
        outside
    }
}

/// The names that are being looked up.
type Seen<'a> = &'a mut HashSet<(usize, Namespace, String)>;

/// The segments of a path, without arguments.
pub fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|s| s.ident.unraw().to_string()).collect()
}

/// The name that an item declares.
pub fn item_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Macro(i) => i.ident.as_ref()?,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        _ => return None,
    };
    Some(name.unraw().to_string())
}

/// The single imports of a `use`.
pub fn imports(item: &ItemUse) -> Vec<Import> {
    fn walk(tree: &UseTree, path: &[String], found: &mut Vec<(String, Vec<String>)>) {
        let with = |name: &syn::Ident| [path, &[name.unraw().to_string()]].concat();
        match tree {
            UseTree::Path(inner) => walk(&inner.tree, &with(&inner.ident), found),
            UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, path, found)),
            UseTree::Glob(_) => found.push(("*".into(), path.to_vec())),
            UseTree::Name(name) if name.ident == "self" => found.push((path[path.len() - 1].clone(), path.to_vec())),
            UseTree::Name(name) => found.push((name.ident.unraw().to_string(), with(&name.ident))),
            UseTree::Rename(name) if name.ident == "self" => found.push((name.rename.to_string(), path.to_vec())),
            UseTree::Rename(name) => found.push((name.rename.to_string(), with(&name.ident))),
        }
    }
    let (mut found, is_export) = (Vec::new(), !matches!(item.vis, Visibility::Inherited));
    if item.leading_colon.is_none() {
        walk(&item.tree, &[], &mut found);
    }
    found.into_iter().map(|(name, path)| Import { name, path, is_export }).collect()
}

/// The bodies of the `macro_rules!` of a crate.
fn macros<'i>(items: impl Iterator<Item = &'i Item>) -> HashMap<String, TokenStream> {
    let body = |item: &Item| match item {
        Item::Macro(item) => Some((item.ident.as_ref()?.to_string(), item.mac.tokens.clone())),
        _ => None,
    };
    items.filter_map(body).collect()
}

/// Names of items that a call of a macro may make: those that follow a keyword in its body, and, where a variable follows,
/// those at the top of the call's own tokens.
fn made_by(body: &TokenStream, call: &TokenStream) -> HashSet<String> {
    fn walk(tokens: TokenStream, made: &mut HashSet<String>, has_variable: &mut bool) {
        let mut after_keyword = false;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    let name = name.to_string();
                    let is_keyword =
                        ["const", "enum", "fn", "mod", "static", "struct", "trait", "type"].contains(&name.as_str());
                    if after_keyword && !is_keyword {
                        made.insert(name);
                    }
                    after_keyword = is_keyword;
                }
                TokenTree::Punct(sign) if sign.as_char() == '$' => *has_variable |= after_keyword,
                TokenTree::Group(group) => walk(group.stream(), made, has_variable),
                _ => after_keyword = false,
            }
        }
    }
    let (mut made, mut has_variable) = (HashSet::new(), false);
    walk(body.clone(), &mut made, &mut has_variable);
    if has_variable {
        made.extend(call.clone().into_iter().filter_map(|token| match token {
            TokenTree::Ident(name) => Some(name.to_string()),
            _ => None,
        }));
    }
    made
}
