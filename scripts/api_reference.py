#!/usr/bin/env python3
"""Writes docs/python-api.md: every public name of the Python package, with signature and docstring, read from the source.

A name is public if `__all__` of the package has it. Each stands in one of GROUPS, and so do the classes that only methods give. Docstrings are
Markdown with the roles of Sphinx that the code has (:meth:`sql`), which become links. Names for types (`Duration`) are replaced by what they
stand for. It needs nothing but Python.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python/millstream"
PAGE = ROOT / "docs/python-api.md"

#: The title of each group, what it is about, and its names: those with a module are not exported.
GROUPS: list[tuple[str, str, list[str]]] = [
    (
        "The default session",
        "These functions belong to one session, which the process makes when it first needs it.",
        ["sql", "table", "execute", "submit", "register", "register_source", "register_sink", "register_function", "create_table", "default_session"],
    ),
    ("Sessions", "", ["connect", "Session"]),
    ("Relations", "", ["Relation", "_chain.Keyed", "_chain.Windowed", "BatchReader", "Batch", "Chart", "Plan"]),
    (
        "Windows",
        "What `window()` takes: a `Window` is any of these. A length of time is `\"10s\"`, `\"1.5 min\"`, `\"1h 30min\"`, `\"250ms\"` or a `timedelta`, in whole milliseconds.",
        ["Tumble", "Hop", "Cumulate", "SessionWindow", "CountWindow"],
    ),
    ("Expressions", "", ["col", "lit", "call", "when", "count", "left", "right", "Expression"]),
    ("Functions of Python", "", ["udf", "Function", "udaf", "Aggregate", "Column"]),
    ("Sinks of Python", "", ["Sink"]),
    ("Jobs", "", ["Job"]),
    ("Clusters", "Nodes without Ray ([how to](how-to/cluster.md#from-a-python-program)).", ["Cluster"]),
    (
        "On Ray",
        "These are in `millstream.ray` ([how to](how-to/cluster.md#on-ray)).",
        ["_ray_cluster.RayCluster", "ray.run", "ray.status", "ray.rescale", "ray.stop"],
    ),
    (
        "Errors",
        "All are in `millstream.errors`; `Error` is also `millstream.Error`.",
        [
            "Error",
            *(f"errors.{name}" for name in ("ConfigurationError", "QueryError", "RunError", "Cancelled", "ConnectorError", "NetworkError", "Bug")),
            "errors.Interrupted",
        ],
    ),
]

#: Public names that are no subject of their own.
UNSAID = {"__version__", "connectors", "errors", "load_ipython_extension"}

Definition = ast.ClassDef | ast.FunctionDef
WIDTH = 110


class Module:
    """A file of the package."""

    def __init__(self, path: Path) -> None:
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.tree = ast.parse("\n".join(self.lines))
        self.definitions: dict[str, Definition] = {}
        self.aliases: dict[str, ast.expr] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                # The last one of a name: those before are overloads.
                self.definitions[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and is_type(node.value):
                self.aliases[node.targets[0].id] = node.value
            elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("millstream"):
                for name in node.names:
                    self.imports[name.name] = (node.module.removeprefix("millstream").lstrip("."), name.name)

    def remark(self, line: int) -> str:
        """What `#:` says above a line, counted from 1."""
        remarks: list[str] = []
        while line >= 2 and self.lines[line - 2].strip().startswith("#:"):
            line -= 1
            remarks.insert(0, self.lines[line - 1].strip()[2:].strip())
        return " ".join(remarks)


def is_type(value: ast.expr) -> bool:
    """Whether a value is a type: `A | B`, `Literal[…]`."""
    if isinstance(value, ast.Subscript):
        return isinstance(value.value, ast.Name) and value.value.id == "Literal"
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)


class Package:
    def __init__(self) -> None:
        self.modules = {path.stem: Module(path) for path in sorted(PACKAGE.glob("*.py*")) if path.stem not in ("__init__", "__main__", "py")}
        self.root = Module(PACKAGE / "__init__.py")
        exported = next(node.value for node in self.root.tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        self.public: list[str] = ast.literal_eval(exported)
        heirs: dict[str, list[str]] = {}
        for name in self.public:
            origin, original = self.root.imports.get(name, ("", ""))
            definition = self.modules[origin].definitions.get(original) if origin in self.modules else None
            if isinstance(definition, ast.ClassDef):
                for _, base in self.inherited(self.modules[origin], definition)[1:]:
                    heirs.setdefault(base.name, []).append(name)
        #: Private classes with one public heir, which is what signatures mean by them.
        self.heirs = {base: names[0] for base, names in heirs.items() if len(names) == 1}

    def find(self, name: str) -> tuple[Module, Definition]:
        """Where a name of GROUPS is defined."""
        module, _, short = name.rpartition(".")
        if not module:
            module = self.root.imports[short][0]
        return self.modules[module], self.modules[module].definitions[short]

    def alias(self, module: Module, name: str) -> tuple[Module, ast.expr] | None:
        """The type that a name stands for in a module."""
        if name in module.aliases:
            return module, module.aliases[name]
        if name in module.imports:
            origin, original = module.imports[name]
            if origin in self.modules and original in self.modules[origin].aliases:
                return self.modules[origin], self.modules[origin].aliases[original]
        return None

    def type_text(self, module: Module, node: ast.expr) -> str:
        """An annotation without the names that the package has for types."""
        package = self

        class Expand(ast.NodeTransformer):
            def visit_Name(self, name: ast.Name) -> ast.expr:
                found = package.alias(module, name.id)
                name.id = package.heirs.get(name.id, name.id)
                return name if found is None else ast.parse(package.type_text(*found), mode="eval").body

        return ast.unparse(Expand().visit(ast.parse(ast.unparse(node), mode="eval")))

    def inherited(self, module: Module, node: ast.ClassDef) -> list[tuple[Module, ast.ClassDef]]:
        """A class, and the private ones of the package that it is made of."""
        found = [(module, node)]
        for base in node.bases:
            name = base.id if isinstance(base, ast.Name) else ""
            origin = module.imports.get(name, ("", ""))[0]
            home = self.modules.get(origin, module)
            defined = home.definitions.get(name)
            if isinstance(defined, ast.ClassDef) and name not in self.public:
                found += self.inherited(home, defined)
        return found


def documentation(node: Definition) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def decorators(node: Definition) -> set[str]:
    return {ast.unparse(decorator) for decorator in node.decorator_list}


def signature(package: Package, module: Module, node: ast.FunctionDef, name: str, *, of_class: bool, returns: bool = True) -> str:
    """A call as code, on as many lines as it takes."""

    def parameter(argument: ast.arg, default: ast.expr | None, stars: str = "") -> str:
        text = stars + argument.arg
        if argument.annotation is not None:
            text += f": {package.type_text(module, argument.annotation)}"
        return text if default is None else f"{text} = {ast.unparse(default)}" if argument.annotation else f"{text}={ast.unparse(default)}"

    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    items = [parameter(argument, default) for argument, default in zip(positional, defaults, strict=True)]
    if given.posonlyargs:
        items.insert(len(given.posonlyargs), "/")
    items = items[1:] if of_class else items
    if given.vararg is not None:
        items.append(parameter(given.vararg, None, "*"))
    elif given.kwonlyargs:
        items.append("*")
    items += [parameter(argument, default) for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg is not None:
        items.append(parameter(given.kwarg, None, "**"))
    result = f" -> {package.type_text(module, node.returns)}" if returns and node.returns is not None else ""
    line = f"{name}({', '.join(items)}){result}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {item},\n" for item in items) + f"){result}"


class Entry:
    """A heading with what stands below it."""

    def __init__(self, level: int, name: str, code: str, text: str, owner: str) -> None:
        self.level, self.name, self.code, self.text, self.owner = level, name, code, text, owner

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w-]", "", self.name.lower())


def entries(package: Package, name: str) -> Iterator[Entry]:
    """A name of GROUPS, and its members if it is a class."""
    module, node = package.find(name)
    short = node.name
    if isinstance(node, ast.FunctionDef):
        yield Entry(3, short, signature(package, module, node, short, of_class=False), documentation(node), "")
        return
    text = documentation(node)
    chain = package.inherited(module, node)
    bases = [ast.unparse(base) for base in node.bases if ast.unparse(base) in ("Error", "RunError", "Exception", "BaseException", "Expression")]
    code = f"class {short}({', '.join(bases)})" if bases else f"class {short}"
    made = [member for member in node.body if isinstance(member, ast.FunctionDef) and member.name in ("__init__", "__new__")]
    if made and "Made by" not in text:
        code = f"class {signature(package, module, made[0], short, of_class=True, returns=False)}"
    yield Entry(3, short, code, text, short)
    seen: set[str] = set()
    for home, part in chain:
        for member, code, text in members(package, home, part):
            if member not in seen:
                seen.add(member)
                yield Entry(4, f"{short}.{member}", code, text, short)


def members(package: Package, module: Module, node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Name, code and text of what a class has and says something about."""
    for member in ast.walk(node):
        # Attributes: in the class, or where it is made.
        if not isinstance(member, (ast.AnnAssign, ast.Assign)):
            continue
        target = member.target if isinstance(member, ast.AnnAssign) else member.targets[0]
        if remark := module.remark(member.lineno):
            name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
            kind = f": {package.type_text(module, member.annotation)}" if isinstance(member, ast.AnnAssign) else ""
            if not name.startswith("_"):
                yield name, f"{name}{kind}", remark
    for member in node.body:
        if not isinstance(member, ast.FunctionDef) or not documentation(member):
            continue
        if member.name.startswith("_") and not member.name.endswith("__"):
            continue
        if "property" in decorators(member):
            kind = f": {package.type_text(module, member.returns)}" if member.returns is not None else ""
            yield member.name, f"{member.name}{kind}", documentation(member)
        else:
            yield member.name, signature(package, module, member, member.name, of_class=True), documentation(member)


def marked_up(entry: Entry, anchors: dict[str, str]) -> str:
    """A docstring as Markdown."""

    def link(found: re.Match[str]) -> str:
        named = found[1].removeprefix("millstream.")
        shown = f"`{named}`" if found[0].startswith(":class:") else f"`{named}()`"
        for name in (f"{entry.owner}.{named}", named, f"Session.{named}", f"Relation.{named}"):
            if name in anchors:
                return f"[{shown}](#{anchors[name]})"
        raise SystemExit(f"error: {entry.name} refers to {found[0]}, which is not on the page")

    text = re.sub(r":(?:meth|func|class):`([^`]+)`", link, entry.text.replace("``", "\0"))
    text = re.sub(r"docs/([\w/-]+\.md)", lambda found: f"[{heading(found[1])}]({found[1]})", text)
    return text.replace("\0", "`")


def heading(name: str) -> str:
    """The title of a page of docs/."""
    text = (PAGE.parent / name).read_text(encoding="utf-8")
    return next(line[2:] for line in text.splitlines() if line.startswith("# "))


def page() -> str:
    package = Package()
    groups = [(title, text, [entry for name in names for entry in entries(package, name)]) for title, text, names in GROUPS]
    everything = [entry for _, _, group in groups for entry in group]
    anchors = {entry.name: entry.anchor for entry in everything}
    missing = set(package.public) - UNSAID - set(anchors)
    if missing:
        raise SystemExit(f"error: {', '.join(sorted(missing))}: put these names into GROUPS of scripts/api_reference.py")
    bare = [entry.name for entry in everything if not entry.text]
    if bare:
        raise SystemExit(f"error: {', '.join(bare)} have no docstring")
    lines = [
        "<!-- Generated by `make docs`; edit the code it comes from. -->",
        "",
        "# Python API",
        "",
        "Every public name of the package `millstream`, with its signature. [Python](python.md) says how they are used together.",
        "",
    ]
    for title, text, group in groups:
        lines += [f"## {title}", ""]
        lines += [text, ""] if text else []
        for entry in group:
            lines += [f"{'#' * entry.level} `{entry.name}`", "", "```python", entry.code, "```", "", marked_up(entry, anchors), ""]
    slugs = [entry.anchor for entry in everything] + [title.lower().replace(" ", "-") for title, _, _ in groups]
    assert len(slugs) == len(set(slugs)), "two headings have one anchor"
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page()) if sys.argv[1:] == ["-"] else PAGE.write_text(page(), encoding="utf-8")
