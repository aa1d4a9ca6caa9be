"""What the package depends on in Python has licences that deny.toml allows, as crates have."""

import importlib.util
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

# What the field License says where it is no SPDX expression.
SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD 3-Clause License": "BSD-3-Clause",
    "MIT License": "MIT",
}

# Classifiers below "License :: OSI Approved". The BSD licence with four clauses is not approved; of the others three are the most.
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "zlib/libpng License": "Zlib",
}

# What deny.toml does not allow, and an extra cannot do without. Nothing of it is in what we ship: pip installs it from its own publisher.
EXCEPTIONS = {
    # Certificates of authorities as a file, without a change; of `requests`, of [ray].
    "certifi": "MPL-2.0",
}

# Tools of every environment, and the package itself.
OUR_OWN = {"millstream", "pip", "setuptools"}


def load() -> ModuleType:
    """scripts/licences.py, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("licences", ROOT / "scripts/licences.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["licences"] = module
    spec.loader.exec_module(module)
    return module


licences = load()


def named() -> list[Requirement]:
    """The requirements of pyproject.toml, of every extra too: what users get. What only tests need is not passed on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    words = list(project.get("dependencies", []))
    for extra in project.get("optional-dependencies", {}).values():
        words += extra
    return [Requirement(word) for word in words]


def installed(requirements: list[Requirement]) -> dict[str, Distribution]:
    """The distributions of this environment that requirements lead to, directly or not."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(r.name), extra) for r in requirements for extra in ("", *sorted(r.extras))]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen or name in OUR_OWN:
            continue
        seen.add((name, extra))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        for word in found[name].requires or []:
            needed = Requirement(word)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(needed.name), more) for more in ("", *sorted(needed.extras))]
    return found


def licence(metadata: dict[str, list[str]]) -> str:
    """The SPDX expression of a distribution: from its field for that, the older field License, or its classifiers."""
    if "License-Expression" in metadata:
        return metadata["License-Expression"][0]
    word = " ".join(metadata.get("License", [""])[0].split())
    prefix = "License :: OSI Approved :: "
    classified = [c.removeprefix(prefix) for c in metadata.get("Classifier", []) if c.startswith(prefix)]
    # The field may hold a whole text.
    if word and len(word) < 60 and (word in SPELLINGS or not classified or is_allowed(word)):
        return SPELLINGS.get(word, word)
    # Several mean any of them or all of them: all is the stricter reading.
    return " AND ".join(CLASSIFIERS.get(c, c) for c in classified)


def is_allowed(expression: str) -> bool:
    try:
        return bool(licences.satisfied(expression, licences.allowed_licences()))
    except licences.LicenceError:
        return False


def fields(found: Distribution) -> dict[str, list[str]]:
    names = ("License-Expression", "License", "Classifier")
    return {name: values for name in names if (values := found.metadata.get_all(name))}


def test_licences_of_dependencies_are_allowed() -> None:
    checked = {name: licence(fields(found)) for name, found in sorted(installed(named()).items())}
    excepted = {name: expression for name, expression in checked.items() if EXCEPTIONS.get(name) == expression}
    refused = [f"{name} has '{expression}'" for name, expression in checked.items() if name not in excepted and not is_allowed(expression)]
    assert not refused, "deny.toml does not allow: " + "; ".join(refused)
    assert {"polars", "ray"} <= checked.keys()
    assert excepted.keys() == EXCEPTIONS.keys(), "an exception that nothing needs"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"License-Expression": ["MIT AND Zlib"], "License": ["GPL"]}, "MIT AND Zlib"),
        ({"License": ["BSD-3-Clause"]}, "BSD-3-Clause"),
        ({"License": ["Apache License 2.0"]}, "Apache-2.0"),
        ({"License": ["BSD"], "Classifier": ["License :: OSI Approved :: BSD License"]}, "BSD-3-Clause"),
        ({"License": ["Permission is hereby granted, " * 9], "Classifier": ["License :: OSI Approved :: MIT License"]}, "MIT"),
        (
            {"Classifier": ["License :: OSI Approved :: MIT License", "License :: OSI Approved :: Apache Software License"]},
            "MIT AND Apache-2.0",
        ),
        ({"License": ["GPL-3.0-only"]}, "GPL-3.0-only"),
        ({}, ""),
    ],
)
def test_a_licence_is_read_from_metadata(metadata: dict[str, list[str]], expected: str) -> None:
    assert licence(metadata) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("mit or apache-2.0", True),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        # AND binds before OR.
        ("MIT OR GPL-3.0-only AND AGPL-3.0-only", True),
        ("(MIT OR GPL-3.0-only) AND AGPL-3.0-only", False),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("((GPL-2.0-only OR (BSD-3-Clause AND ISC)))", True),
        # WITH binds first, and an exception is allowed with its licence only.
        ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", True),
        ("Apache-2.0 WITH LLVM-exception AND MIT", True),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", False),
        ("MIT WITH LLVM-exception", False),
        ("LGPL-2.1-or-later", False),
        ("MPL-2.0", False),
    ],
)
def test_expressions_are_decided(expression: str, expected: bool) -> None:
    assert licences.satisfied(expression, licences.allowed_licences()) is expected


@pytest.mark.parametrize("expression", ["", "MIT OR", "AND MIT", "(MIT", "MIT)", "MIT Apache-2.0", "MIT WITH", "WITH MIT", "BSD License"])
def test_malformed_expressions_are_refused(expression: str) -> None:
    with pytest.raises(licences.LicenceError):
        licences.satisfied(expression, ["MIT"])


def test_texts_are_known_by_their_words() -> None:
    text = """Permission is hereby granted, free of charge, to any person obtaining a copy, subject to the following conditions:
        The above copyright notice and this permission notice shall be included in all copies."""
    assert licences.known(text) == {"MIT"}
    assert licences.known("Licensed under the Apache License, Version 2.0 or the MIT licence, at your option.") == set()
    assert licences.identifiers("(MIT OR Apache-2.0) AND Unicode-3.0/MIT") == ["Apache-2.0", "MIT", "Unicode-3.0"]


def part(name: str, licence: str, *texts: str, source: str = "") -> Any:
    return licences.Part(name, "1.0", licence, source, list(texts), ["Ann Author"])


MIT = """MIT License

Copyright (c) 2020 Somebody

Permission is hereby granted, free of charge, to any person. The above copyright notice and this permission notice shall be included."""


def test_a_crate_without_a_text_gets_the_standard_one() -> None:
    with_text, without = part("one", "MIT", MIT), part("two", "MIT OR GPL-3.0-only")
    licences.complete([with_text, without], licences.Standard([with_text, without]), {"MIT"})
    assert without.texts == [MIT.replace("2020 Somebody", "Ann Author")]
    assert with_text.texts == [MIT]


def test_a_crate_without_a_text_gets_that_of_its_sibling() -> None:
    sibling, without = part("one", "MIT", MIT, source="https://a"), part("two", "MIT", source="https://a")
    licences.complete([sibling, without], licences.Standard([]), {"MIT"})
    assert without.texts == [MIT]


def test_a_missing_text_names_the_crate() -> None:
    with pytest.raises(licences.LicenceError, match="two 1.0"):
        licences.complete([part("two", "ISC")], licences.Standard([]), {"ISC"})


def test_texts_that_differ_in_spaces_appear_once() -> None:
    parts = [part("one", "MIT", MIT), part("two", "MIT", MIT.replace("\n\n", "\n \n  ")), part("three", "MIT", MIT)]
    assert licences.numbered(parts) == [(MIT, ["one 1.0", "two 1.0", "three 1.0"])]
