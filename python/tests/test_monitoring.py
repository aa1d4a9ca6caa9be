"""What packaging/monitoring has for Prometheus and Grafana names metrics that there are. ``scripts/monitoring.sh`` has a real Prometheus read it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packaging/monitoring"
METRIC = re.compile(r"\bmillstream_\w+")

#: Name, kind and labels of each metric, as the page says.
METRICS = {
    name: (kind, {label for label in re.findall(r"\w+", labels) if label not in ("of", "several", "no")} | {"job", "instance"})
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", (ROOT / "docs/metrics.md").read_text(encoding="utf-8"), re.MULTILINE)
}


def known() -> set[str]:
    """All names of series: a summary has three."""
    return {name + end for name, (kind, _) in METRICS.items() for end in (("", "_sum", "_count") if kind == "summary" else ("",))}


def rules() -> list[dict[str, str]]:
    """The fields of each alert, of which each is on a line of its own."""
    text = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
    alerts = re.split(r"^      - alert: ", text, flags=re.MULTILINE)[1:]
    return [{"alert": alert.partition("\n")[0]} | dict(re.findall(r"^ +(\w+): (.+)$", alert, re.MULTILINE)) for alert in alerts]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))
    return found


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for other in (*dashboard()["templating"]["list"], *dashboard()["annotations"]["list"]):
        yield other["name"], other.get("definition") or other.get("expr") or ""
    production = (ROOT / "docs/how-to/production.md").read_text(encoding="utf-8")
    yield from ((f"production.md, {name}", name) for name in METRIC.findall(production))


@pytest.mark.parametrize(("place", "expression"), list(expressions()))
def test_metrics_are_there(place: str, expression: str) -> None:
    unknown = set(METRIC.findall(expression)) - known()
    assert not unknown, f"{place}: docs/metrics.md has no {unknown}"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alerts_are_complete(rule: dict[str, str]) -> None:
    assert {"expr", "labels", "summary", "description"} <= rule.keys(), rule
    assert rule["summary"].startswith('"') and rule["description"].startswith('"')
    # A comparison has the labels of its left side; `up` has those that all series have.
    left = METRIC.findall(rule["expr"])[:1]
    allowed = METRICS[left[0]][1] if left else {"job", "instance"}
    used = set(re.findall(r"\$labels\.(\w+)", rule["summary"] + rule["description"]))
    assert used <= allowed, f"{rule['alert']}: no label {used - allowed}"


def test_alerts_cover_what_goes_wrong() -> None:
    metrics = {name for rule in rules() for name in METRIC.findall(rule["expr"])}
    wanted = """job_ready job_restarts_total sink_writing_seconds sink_committing_seconds watermark_delay_seconds split_silent_seconds
        split_unreachable checkpoint_age_seconds memory_used_bytes records_late_total records_malformed_total records_failed_total
        node_report_age_seconds"""
    assert {f"millstream_{name}" for name in wanted.split()} <= metrics
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)


def test_the_dashboard_is_what_grafana_reads() -> None:
    found = dashboard()
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= found.keys()
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    assert {"datasource", "job", "instance"} == {variable["name"] for variable in found["templating"]["list"]}
    for panel in found["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        # No two share a place.
        others = [other["gridPos"] for other in found["panels"] if other is not panel]
        assert not any(
            place["x"] < other["x"] + other["w"] and other["x"] < place["x"] + place["w"]
            and place["y"] < other["y"] + other["h"] and other["y"] < place["y"] + place["h"]
            for other in others
        ), panel["title"]
    for panel in panels():
        assert panel["title"] and panel["description"] and panel["fieldConfig"]["defaults"]["unit"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            # A job is chosen in every panel.
            assert target["expr"].count("millstream_") == target["expr"].count('instance=~"$instance",job=~"$job"'), target["expr"]
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= METRICS[METRIC.findall(target["expr"])[0]][1]


def test_the_configuration_keeps_the_labels_of_jobs() -> None:
    text = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
    assert "honor_labels: true" in text and "job_name: millstream" in text and "rule_files: [alerts.yml]" in text
    assert "\t" not in text
