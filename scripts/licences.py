#!/usr/bin/env python3
"""Writes the licence texts of everything that is linked into the wheel, and into a binary with static libraries.

    scripts/licences.py OUTPUT [--target TRIPLE] [--sbom FILE]

These are the crates that `cargo tree` names for the wheel's features, the crates inside Rust's standard library, and the libraries in
C and C++ that scripts/licences.toml names. Identical texts appear once. The output depends on Cargo.lock, the toolchain and the
installed libraries only. It fails when the licence of a part is not allowed by deny.toml, or when a text is missing.
"""
import argparse
import html
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "millstream-python"
FEATURES = ["--no-default-features", "--features", "static-libraries"]
WIDTH = 120


class LicenceError(Exception):
    """What keeps the file from being written: says which part, and what is wrong with it."""


# ---- SPDX expressions

Names = frozenset[str]
WORDS = re.compile(r"[()/]|[^\s()/]+")
RESERVED = {"AND", "OR", "WITH", "(", ")", "/"}


def satisfied(expression: str, allowed: Iterable[str]) -> bool:
    """Whether the allowed licences satisfy an SPDX expression. A slash is an OR, as crates wrote it once; case does not count."""
    words = WORDS.findall(expression)
    value, rest = _alternatives(words, frozenset(name.casefold() for name in allowed))
    if rest:
        raise LicenceError(f"'{expression}' is no licence expression: what is '{rest[0]}'?")
    return value


def _alternatives(words: list[str], allowed: Names) -> tuple[bool, list[str]]:
    value, rest = _all_of(words, allowed)
    while rest and rest[0].upper() in ("OR", "/"):
        other, rest = _all_of(rest[1:], allowed)
        value = value or other
    return value, rest


def _all_of(words: list[str], allowed: Names) -> tuple[bool, list[str]]:
    value, rest = _single(words, allowed)
    while rest and rest[0].upper() == "AND":
        other, rest = _single(rest[1:], allowed)
        value = value and other
    return value, rest


def _single(words: list[str], allowed: Names) -> tuple[bool, list[str]]:
    """A licence, one with an exception, or an expression in parentheses. Licence and exception are allowed together or not at all."""
    if words[:1] == ["("]:
        value, rest = _alternatives(words[1:], allowed)
        if rest[:1] != [")"]:
            raise LicenceError("a licence expression lacks a closing parenthesis")
        return value, rest[1:]
    name, rest = _name(words), words[1:]
    if rest and rest[0].upper() == "WITH":
        name, rest = f"{name} WITH {_name(rest[1:])}", rest[2:]
    return name.casefold() in allowed, rest


def _name(words: list[str]) -> str:
    if not words or words[0].upper() in RESERVED:
        raise LicenceError(f"a licence expression lacks a name before '{' '.join(words) or 'its end'}'")
    return words[0]


def identifiers(expression: str) -> list[str]:
    """The licences that an expression names, each once, sorted."""
    parts = re.split(r"\s+(?:and|or)\s+|/", re.sub(r"[()]", " ", expression), flags=re.IGNORECASE)
    return sorted({" ".join(part.split()) for part in parts})


def allowed_licences() -> list[str]:
    """The list of deny.toml."""
    rules = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    allowed: list[str] = rules["licenses"]["allow"]
    return allowed


# ---- Texts

# By what a text is known, after spaces are made one and letters small: all of the first, none of the second.
MARKS: dict[str, tuple[list[str], list[str]]] = {
    "0BSD": (["copy, modify, and/or distribute this software"], ["provided that the above copyright"]),
    "Apache-2.0": (["version 2.0, january 2004", "terms and conditions for use, reproduction"], ["llvm exceptions to the apache"]),
    "Apache-2.0 WITH LLVM-exception": (["terms and conditions for use, reproduction", "llvm exceptions to the apache"], []),
    "BSD-2-Clause": (["redistribution and use in source and binary forms"], ["neither the name", "advertising materials"]),
    "BSD-3-Clause": (["redistribution and use in source and binary forms", "neither the name"], ["advertising materials"]),
    "BSL-1.0": (["boost software license - version 1.0"], []),
    "CC0-1.0": (["cc0 1.0 universal", "statement of purpose"], []),
    "CDLA-Permissive-2.0": (["community data license agreement - permissive - version 2.0"], []),
    "ISC": (["distribute this software for any purpose with or without fee", "provided that the above copyright"], []),
    "MIT": (["permission is hereby granted, free of charge", "the above copyright notice and this permission notice"], []),
    "MIT-0": (["permission is hereby granted, free of charge", "furnished to do so. the software is provided"], []),
    "Unicode-3.0": (["unicode license v3", "provided that either"], []),
    "Unlicense": (["free and unencumbered software released into the public domain", "copyright interest"], []),
    "Zlib": (["provided 'as-is', without any express or implied warranty", "must not be misrepresented"], []),
}


def known(text: str) -> set[str]:
    """The licences whose text this is; several when a file holds several."""
    flat = " ".join(text.split()).casefold()
    return {
        name
        for name, (having, lacking) in MARKS.items()
        if all(mark in flat for mark in having) and not any(mark in flat for mark in lacking)
    }


def read(path: Path) -> str:
    """A text without byte order mark, form feeds, spaces at ends of lines, and empty lines around it."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return tidy(text)


def tidy(text: str) -> str:
    lines = [line.replace("\f", "").expandtabs().rstrip() for line in text.split("\n")]
    return "\n".join(lines).strip("\n")


@dataclass
class Part:
    """A crate or a library, and the texts of its licences."""

    name: str
    version: str
    licence: str
    source: str
    texts: list[str] = field(default_factory=list)
    authors: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}".strip()

    def known(self) -> set[str]:
        return set().union(*map(known, self.texts))


class Standard:
    """Texts by licence, as most crates have them, without the lines that say whose copyright it is (Apache's has none above it)."""

    def __init__(self, parts: list[Part]) -> None:
        counts: dict[str, Counter[str]] = {}
        for text in (text for part in parts for text in part.texts):
            names = known(text)
            if len(names) == 1:
                name = names.pop()
                counts.setdefault(name, Counter())[text if name.startswith("Apache") else _without_holder(text)] += 1
        self.texts = {name: counter.most_common(1)[0][0] for name, counter in counts.items()}

    def text(self, name: str, holder: str, whose: str) -> str:
        """The text, with the holder of the copyright on top. Apache's is granted as it is: it asks for no such line."""
        if name not in self.texts:
            raise LicenceError(f"{whose} has no licence file, and no other crate has the text of '{name}'")
        text = self.texts[name]
        if name.startswith("Apache") or not holder:
            return text
        first, _, rest = text.partition("\n\n")
        title = re.search(r"licen[cs]e", first, re.I) and len(first) < 80
        return f"{first}\n\n{holder}\n\n{rest}" if title else f"{holder}\n\n{text}"


def _without_holder(text: str) -> str:
    holder = re.compile(r"\s*(copyright\s+(\(c\)|©|\d)|(\(c\)|©)\s*\d|all rights reserved)", re.I)
    lines = [line for line in text.split("\n") if not holder.match(line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def complete(parts: list[Part], standard: Standard, allowed: set[str]) -> None:
    """Gives texts to parts that lack those of their licences: of a sibling in the same repository, else the standard ones."""
    full = {(part.source, part.licence): part for part in parts if satisfied(part.licence, part.known() & allowed)}
    for part in parts:
        having = part.known() & allowed
        if satisfied(part.licence, having):
            continue
        sibling = full.get((part.source, part.licence))
        if part.source and sibling:
            part.texts += sibling.texts
            part.note = f"comes without a licence file: the texts of {sibling.title}, of the same repository"
            continue
        lacking = _lacking(part, having, allowed)
        holder = "Copyright (c) " + (", ".join(part.authors) or f"the authors of {part.name}")
        part.texts += [standard.text(name, holder, part.title) for name in lacking]
        part.note = f"comes without a licence file: the standard text of {' and '.join(lacking)}"


def _lacking(part: Part, having: set[str], allowed: set[str]) -> tuple[str, ...]:
    """The fewest allowed licences that satisfy the part's expression together with those it has texts of."""
    names = [name for name in identifiers(part.licence) if name in allowed and name not in having]
    choices = (choice for size in range(1, len(names) + 1) for choice in itertools.combinations(names, size))
    for choice in choices:
        if satisfied(part.licence, having.union(choice)):
            return choice
    raise LicenceError(f"{part.title} lacks the text of its licence '{part.licence}'")


# ---- Crates

Package = dict[str, Any]
Key = tuple[str, str]
FILE = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.I)
NO_TEXT = {".c", ".h", ".html", ".js", ".json", ".pm", ".py", ".rs", ".toml", ".yml"}
ELSEWHERE = {"benches", "docs", "examples", "target", "tests"}


def run(*words: str) -> str:
    """The output of a program, which may be one of Rust's that is not on the path."""
    program = shutil.which(words[0]) or str(Path.home() / ".cargo/bin" / words[0])
    try:
        return subprocess.run([program, *words[1:]], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    except FileNotFoundError:
        raise LicenceError(f"there is no program '{words[0]}'") from None
    except subprocess.CalledProcessError as error:
        raise LicenceError(f"'{' '.join(words)}' failed: {error.stderr.strip()}") from None


def packages(target: str) -> dict[Key, Package]:
    """What Cargo tells of packages, by name and version; more of them than the wheel has, which only `cargo tree` names exactly."""
    manifest = ["--manifest-path", "crates/python/Cargo.toml", *FEATURES]
    metadata = json.loads(run("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target, *manifest))
    return {(package["name"], package["version"]): package for package in metadata["packages"]}


def tree(target: str, edges: str) -> list[Key]:
    """Name and version of what the wheel depends on, with exactly the features that it is built with."""
    words = ["-p", PACKAGE, *FEATURES, "--target", target, "--locked", "-e", edges, "--prefix", "none", "--format", "{p}"]
    lines = [line.split() for line in run("cargo", "tree", *words).splitlines()]
    return sorted({(line[0], line[1].removeprefix("v")) for line in lines if line})


def crate(package: Package, whole: bool) -> Part:
    """A crate with the texts of its files: of the whole crate, or of its top directory when scripts/licences.toml tells the rest."""
    root = Path(package["manifest_path"]).parent
    files = {root / package["license_file"]} if package["license_file"] else set()
    for directory, below, names in os.walk(root):
        below[:] = [name for name in below if whole and name not in ELSEWHERE]
        files.update(Path(directory, name) for name in names if FILE.match(name) and Path(name).suffix not in NO_TEXT)
    texts = [read(path) for path in sorted(files)]
    authors = [author.split(" <")[0] for author in package["authors"]]
    source = (package["repository"] or package["homepage"] or "").removesuffix("/").removesuffix(".git")
    return Part(package["name"], package["version"], package["license"] or "", source, texts, authors)


# ---- Rust's standard library


def standard_library(target: str, rules: dict[str, Any], parts: list[Part]) -> list[Part]:
    """The crates inside Rust's standard library, with the texts that the toolchain has for them."""
    sysroot = Path(run("rustc", "--print", "sysroot").strip())
    archives = (sysroot / "lib/rustlib" / target / "lib").glob("lib*.rlib")
    names = sorted({path.name.removeprefix("lib").rsplit("-", 1)[0] for path in archives})
    if not names:
        raise LicenceError(f"the toolchain has no standard library for {target}: rustup target add {target}")
    notices = _notices(sysroot / "share/doc/rust/COPYRIGHT-library.html")
    found = []
    for name in names:
        if name in rules["own"] or name in rules["unused"]:
            continue
        found.append(notices.get(name) or _unnoticed(name, rules["unnoticed"], parts))
    return found


def _unnoticed(name: str, licences: dict[str, str], parts: list[Part]) -> Part:
    """A crate that the toolchain's page leaves out, with the texts of the crate of the same name that the wheel has too, if any."""
    if name not in licences:
        raise LicenceError(f"Rust's standard library contains '{name}': scripts/licences.toml must name its licence")
    texts = next((part.texts for part in parts if part.name.replace("-", "_") == name), [])
    return Part(name, "", licences[name], "", list(texts))


def _notices(page: Path) -> dict[str, Part]:
    """The crates of the page that comes with the toolchain, by name with underscores."""
    if not page.is_file():
        raise LicenceError("the toolchain has no share/doc/rust/COPYRIGHT-library.html; toolchains of rustup have it")
    found = {}
    for section in page.read_text(encoding="utf-8").split("<h3>")[1:]:
        title = re.match(r"\W*([\w-]+?)-(\d[^<]*)</h3>", section)
        licence = re.search(r"<b>License:</b>([^<]*)</p>", section)
        if not title or not licence:
            raise LicenceError("COPYRIGHT-library.html of the toolchain has a form that this script does not know")
        texts = [tidy(html.unescape(text)) for text in re.findall(r"<pre>(.*?)</pre>", section, re.DOTALL)]
        name, version = title.groups()
        source = f"https://crates.io/crates/{name}"
        found[name.replace("-", "_")] = Part(name, version, html.unescape(licence[1]).strip(), source, texts)
    return found


# ---- Libraries in C and C++


def libraries(target: str, rules: list[dict[str, Any]], known_packages: dict[Key, Package], standard: Standard) -> list[Part]:
    """The libraries of scripts/licences.toml that are linked for the target."""
    built = {name: known_packages[name, version] for name, version in tree(target, "normal,build")}
    found = []
    for rule in rules:
        if rule.get("only", "") not in target:
            continue
        versions = []
        if "crate" in rule:
            if rule["crate"] not in built:
                raise LicenceError(f"scripts/licences.toml has {rule['name']} from the crate {rule['crate']}, which is not built")
            versions.append(f"crate {rule['crate']} {built[rule['crate']]['version']}")
        if "package" in rule:
            versions += _installed(rule["package"])
        part = Part(rule["name"], f"[{', '.join(versions)}]" if versions else "", rule["licence"], rule["source"])
        directory = Path(built[rule["crate"]]["manifest_path"]).parent if "crate" in rule else ROOT
        part.texts = [_text(text, directory, standard, part) for text in rule["texts"]]
        part.note = rule.get("accepted", "")
        found.append(part)
    return found


def _text(rule: dict[str, str], directory: Path, standard: Standard, part: Part) -> str:
    """A text from where a rule says: one of the keys that scripts/licences.toml explains."""
    if "standard" in rule:
        return standard.text(rule["standard"], rule.get("holder", ""), part.name)
    if "notice" in rule:
        return tidy(rule["notice"])
    if "toolchain" in rule:
        path = Path(run("rustc", "--print", "sysroot").strip(), "share/doc/rust/licenses", rule["toolchain"])
    elif "debian" in rule:
        path = Path("/usr/share/doc", rule["debian"], "copyright")
    else:
        path = directory / (rule.get("file") or rule["comment"])
    if not path.is_file():
        raise LicenceError(f"the text of {part.name} is not there: {path}")
    text = read(path)
    if "debian" in rule:
        return _stanza(text, path)
    return _comment(text, path) if "comment" in rule else text


def _comment(text: str, path: Path) -> str:
    """The comment at the top of a source file in C."""
    match = re.match(r"/\*(.*?)\*/", text, re.DOTALL)
    if not match:
        raise LicenceError(f"{path} does not begin with a comment")
    return tidy("\n".join(re.sub(r"^ ?\* ?", "", line) for line in match[1].split("\n")))


def _stanza(text: str, path: Path) -> str:
    """Copyright and licence of most files of a Debian package, from its description of copyrights in Debian's form 1.0."""
    stanzas = [stanza + "\n" for stanza in re.split(r"\n\s*\n", text)]
    main = next((stanza for stanza in stanzas if re.search(r"^Files: \*$", stanza, re.M)), "")
    copyright = re.search(r"^Copyright:(.*?)^(?=\S)", main, re.M | re.DOTALL)
    licence = re.search(r"^License: (.*)$", main, re.M)
    terms = next((s for s in stanzas if licence and s.startswith(licence[0] + "\n")), "").partition("\n")[2]
    if not copyright or not terms:
        raise LicenceError(f"{path} has a form that this script does not know")
    holders = "\n".join(line.strip() for line in copyright[1].split("\n"))
    body = textwrap.dedent(terms).replace("\n.\n", "\n\n")
    return tidy(f"{holders.strip()}\n\n{body}")


def _installed(pattern: str) -> list[str]:
    """The version of an installed Debian package; nothing on other systems. {gcc} in its name is the major version of GCC."""
    if not shutil.which("dpkg-query"):
        return []
    name = pattern.replace("{gcc}", run("gcc", "-dumpversion").split(".")[0].strip()) if "{gcc}" in pattern else pattern
    return [f"package {name} {run('dpkg-query', '-W', '-f=${Version}', name)}"]


# ---- The file


def gather(target: str) -> dict[str, list[Part]]:
    """Every part with its texts, sorted by name, below the headings of the file."""
    rules = tomllib.loads((ROOT / "scripts/licences.toml").read_text(encoding="utf-8"))
    allowed = set(allowed_licences())
    everything = packages(target)
    told = {rule["crate"] for rule in rules["library"] if "crate" in rule} | set(rules["crates"])
    foreign = [everything[key] for key in tree(target, "normal,no-proc-macro") if everything[key]["source"]]
    for package in foreign:
        if package["links"] and package["name"] not in told:
            raise LicenceError(f"{package['name']} links '{package['links']}': scripts/licences.toml must say what that is")
    crates = [crate(package, package["name"] not in told) for package in foreign]
    standard = Standard(crates)
    inner = standard_library(target, rules["standard-library"], crates)
    for part in crates + inner:
        if not part.licence or not satisfied(part.licence, allowed):
            raise LicenceError(f"{part.title} has the licence '{part.licence}', which deny.toml does not allow")
    complete(crates, standard, allowed)
    complete(inner, standard, allowed)
    linked = libraries(target, rules["library"], everything, standard)
    for part in linked:
        if not satisfied(part.licence, allowed) and not part.note:
            raise LicenceError(f"{part.name} has the licence '{part.licence}', which deny.toml does not allow")
    headed = {"LIBRARIES": linked, "CRATES INSIDE RUST'S STANDARD LIBRARY": inner, "CRATES": crates}
    return {heading: sorted(parts, key=lambda part: (part.name.casefold(), part.version)) for heading, parts in headed.items()}


def numbered(parts: list[Part]) -> list[tuple[str, list[str]]]:
    """The texts with the titles of their users, those of many first. Texts that differ in line breaks and spaces only are one."""
    forms: dict[str, Counter[str]] = {}
    users: dict[str, list[str]] = {}
    for part in parts:
        for text in part.texts:
            key = " ".join(text.split())
            forms.setdefault(key, Counter())[text] += 1
            if part.title not in users.setdefault(key, []):
                users[key].append(part.title)
    keys = sorted(forms, key=lambda key: (-len(users[key]), users[key], key))
    return [(forms[key].most_common(1)[0][0], users[key]) for key in keys]


INTRODUCTION = """THIRD-PARTY LICENCES OF MILLSTREAM

Millstream itself has the Apache License 2.0, in the file LICENSE. Its Python package and its binaries contain the crates
and libraries below, or parts of them, under licences of their own. The lists give their versions, licences (SPDX
expressions), where they come from, and the numbers of the texts that follow.
"""


def render(headed: dict[str, list[Part]]) -> str:
    texts = numbered([part for parts in headed.values() for part in parts])
    numbers = {" ".join(text.split()): number for number, (text, _) in enumerate(texts, 1)}
    out = [INTRODUCTION]
    for heading, parts in headed.items():
        out += ["", heading, ""]
        for part in parts:
            own = sorted({numbers[" ".join(text.split())] for text in part.texts})
            words = [f"{part.title}: {part.licence}", part.source, part.note, f"texts {', '.join(map(str, own))}"]
            out.append(wrap("; ".join(word for word in words if word)))
    out += ["", "", "TEXTS"]
    for number, (text, users) in enumerate(texts, 1):
        out += ["", "=" * WIDTH, wrap(f"Text {number}, of {', '.join(users)}"), "=" * WIDTH, "", text]
    return "\n".join(out) + "\n"


def wrap(line: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def components(headed: dict[str, list[Part]]) -> str:
    """The parts as a CycloneDX SBOM."""
    package = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
    listed: list[dict[str, Any]] = []
    for heading, parts in headed.items():
        for part in parts:
            component: dict[str, Any] = {"type": "library", "name": part.name}
            if heading != "LIBRARIES":
                component |= {"version": part.version, "purl": f"pkg:cargo/{part.name}@{part.version}"}
            elif part.version:
                # Which crate or package it comes from.
                component["version"] = part.version.strip("[]")
            listed.append(component | {"licenses": [{"expression": part.licence}]})
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "millstream", "version": package["version"]}},
        "components": listed,
    }
    return json.dumps(whole, indent=1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--target", help="the target triple; this machine's if it is not given")
    parser.add_argument("--sbom", type=Path, help="also write the parts to this file, as CycloneDX")
    arguments = parser.parse_args()
    try:
        target = arguments.target or re.findall(r"^host: (.*)$", run("rustc", "-vV"), re.M)[0]
        headed = gather(target)
    except LicenceError as error:
        sys.exit(f"error: {error}")
    text = render(headed)
    if arguments.sbom:
        arguments.sbom.write_text(components(headed), encoding="utf-8", newline="\n")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
