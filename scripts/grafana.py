"""Reads the dashboard of packaging/monitoring with Grafana's own types, and writes it again: what they do not know is lost there."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

FILE = Path(__file__).resolve().parents[1] / "packaging/monitoring/grafana.json"
# Of the data source Prometheus, which these types leave to it.
OF_PLUGINS = {"step", "titleFormat", "definition"}


def differences(wrote: Any, read: Any, at: str) -> Iterator[str]:
    """Where what was read is not what was written. Types leave out what is empty."""
    if isinstance(wrote, dict) and isinstance(read, dict):
        for key, value in wrote.items():
            if key in read:
                yield from differences(value, read[key], f"{at}.{key}")
            elif value not in (None, {}, [], False, "") and key not in OF_PLUGINS:
                yield f"{at}.{key} is not known"
    elif isinstance(wrote, list) and isinstance(read, list) and len(wrote) == len(read):
        for number, (one, other) in enumerate(zip(wrote, read, strict=True)):
            yield from differences(one, other, f"{at}[{number}]")
    elif wrote != read:
        yield f"{at} is {wrote!r}, read as {read!r}"


plugins.register_default_plugins()
written = json.loads(FILE.read_text())
again = json.loads(JSONEncoder().encode(dashboard.Dashboard.from_json(written)))
if found := list(differences(written, again, "dashboard")):
    sys.exit("\n".join(["error: Grafana's types do not read packaging/monitoring/grafana.json as it is", *found]))
print(f"Grafana's types read {len(written['panels'])} panels")
