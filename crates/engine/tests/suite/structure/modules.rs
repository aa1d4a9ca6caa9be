//! The modules of a crate, as `mod` declarations name them, without those of tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, ImplItem, Item, ItemMod, Lit, Meta, Stmt, Token};

/// A module: a file or an inline `mod`.
pub struct Module {
    /// `crate::keyed::driver`.
    pub path: String,
    pub parent: usize,
    pub children: BTreeMap<String, usize>,
    /// Those that product builds have.
    pub items: Vec<Item>,
}

/// The modules of a crate, parents before their children: the root is 0.
#[derive(Default)]
pub struct Modules {
    pub modules: Vec<Module>,
    /// The files that were read, with their number of lines.
    pub files: Vec<(PathBuf, usize)>,
}

/// How a file is read: None if there is none.
pub type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Where a module stands.
struct Place {
    path: String,
    parent: usize,
    /// The folder of the files of its children.
    folder: PathBuf,
}

impl Modules {
    /// Reads a crate from its root file on.
    pub fn load(root: &Path, read: Read) -> Modules {
        let mut modules = Modules::default();
        let text = read(root).unwrap_or_else(|| panic!("{} is missing", root.display()));
        let folder = root.parent().unwrap().to_path_buf();
        modules.add_file(root, &text, Place { path: "crate".into(), parent: 0, folder }, read);
        modules
    }

    fn add_file(&mut self, file: &Path, text: &str, place: Place, read: Read) -> usize {
        self.files.push((file.to_path_buf(), text.lines().count()));
        let parsed = syn::parse_file(text).unwrap_or_else(|e| panic!("{} does not parse: {e}", file.display()));
        self.add(file, parsed.items, place, read)
    }

    fn add(&mut self, file: &Path, mut items: Vec<Item>, place: Place, read: Read) -> usize {
        items.retain(in_product);
        let declared: Vec<ItemMod> =
            items.iter().filter_map(|i| if let Item::Mod(m) = i { Some(m.clone()) } else { None }).collect();
        items.retain(|i| !matches!(i, Item::Mod(_)));
        let id = self.modules.len();
        let Place { path, parent, folder } = place;
        self.modules.push(Module { path: path.clone(), parent, children: BTreeMap::new(), items });
        for module in declared {
            let name = module.ident.to_string();
            let place = Place { path: format!("{path}::{name}"), parent: id, folder: folder.join(&name) };
            let child = match module.content {
                Some((_, items)) => self.add(file, items, place, read),
                None => self.add_declared(file, &folder, path_attribute(&module.attrs), place, read),
            };
            self.modules[id].children.insert(name, child);
        }
        id
    }

    /// `mod x;` in a file, whose children are in `folder`.
    fn add_declared(&mut self, file: &Path, folder: &Path, given: Option<String>, place: Place, read: Read) -> usize {
        let own = place.folder.clone();
        let name = own.file_name().unwrap();
        let (found, children) = match given {
            Some(given) => {
                let found = file.parent().unwrap().join(given);
                let children = found.parent().unwrap().to_path_buf();
                (found, children)
            }
            None => {
                let plain = folder.join(name).with_extension("rs");
                (if read(&plain).is_some() { plain } else { own.join("mod.rs") }, own)
            }
        };
        let text = read(&found).unwrap_or_else(|| panic!("{} is missing", found.display()));
        self.add_file(&found, &text, Place { folder: children, ..place }, read)
    }
}

/// The value of `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|a| match &a.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => literal(&pair.value),
        _ => None,
    })
}

fn literal(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// Whether product builds have an item.
pub fn in_product(item: &Item) -> bool {
    let attributes = match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => return true,
    };
    is_product(attributes)
}

/// Whether product builds have an item of an `impl`.
pub fn impl_item_in_product(item: &ImplItem) -> bool {
    match item {
        ImplItem::Const(i) => is_product(&i.attrs),
        ImplItem::Fn(i) => is_product(&i.attrs),
        ImplItem::Type(i) => is_product(&i.attrs),
        _ => true,
    }
}

/// Whether product builds have a statement.
pub fn statement_in_product(statement: &Stmt) -> bool {
    match statement {
        Stmt::Local(local) => is_product(&local.attrs),
        Stmt::Item(item) => in_product(item),
        Stmt::Expr(Expr::Block(block), _) => is_product(&block.attrs),
        _ => true,
    }
}

fn is_product(attributes: &[Attribute]) -> bool {
    let mut conditions = attributes.iter().filter(|a| a.path().is_ident("cfg"));
    !conditions.any(|a| a.parse_args::<Meta>().is_ok_and(|condition| holds(&condition) == Some(false)))
}

/// Whether a condition of `cfg` holds in product builds; None if that depends on the platform or a feature.
fn holds(condition: &Meta) -> Option<bool> {
    match condition {
        Meta::Path(name) if name.is_ident("test") || name.is_ident("loom") => Some(false),
        Meta::NameValue(pair) if literal(&pair.value).as_deref() == Some("testing") => Some(false),
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
            let parts: Vec<Option<bool>> = parts.iter().map(holds).collect();
            // `any` is certain by one that holds, `all` by one that does not.
            let decisive = list.path.is_ident("any");
            match () {
                () if list.path.is_ident("not") => parts[0].map(|p| !p),
                () if parts.contains(&Some(decisive)) => Some(decisive),
                () if parts.contains(&None) => None,
                () => Some(!decisive),
            }
        }
        _ => None,
    }
}
