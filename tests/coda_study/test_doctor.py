"""`coda doctor`: what a host has, and what it lacks, each thing by its name."""

from __future__ import annotations

import json
from collections import namedtuple

import pytest

from coda_study import doctor
from sciencedesk.real import display, isolation


def found(name: str) -> doctor.Finding:
    (one,) = (finding for finding in doctor.findings() if finding.name == name)
    return one


def test_this_host_has_what_is_needed(coda):
    code, told, _ = coda("doctor", "--json")
    rows = {row["name"]: row for row in json.loads(told)}
    assert rows["ScienceDesk"]["found"] == "windows are drawn in DejaVu Sans" and rows["packages"]["there"]
    assert (code == 0) == all(row["there"] for row in rows.values() if row["needed"])
    assert all(row["gives"] and (row["there"] or row["get"]) for row in rows.values())


@pytest.mark.parametrize(
    ("change", "name", "says"),
    [
        ("memory", "memory", "1.0 GB free"),
        ("disk", "disk", "2 GB free"),
        ("display", "display", "Xvfb missing"),
        ("isolate", "network of its own", "the kernel refuses"),
        ("bwrap", "bubblewrap", "bwrap missing"),
        ("package", "packages", "torch 0.1, not ==2.13.0"),
        ("none", "packages", "No package metadata"),
    ],
)
def test_what_is_missing_is_named(monkeypatch, change, name, says):
    def missing(package: str) -> list[str]:
        raise doctor.PackageNotFoundError(package)

    match change:
        case "memory":
            free = namedtuple("Memory", "available")(1e9)
            monkeypatch.setattr(doctor.psutil, "virtual_memory", lambda: free)
        case "disk":
            monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: namedtuple("Disk", "free")(2e9))
        case "display":
            monkeypatch.setattr(display, "lacking", lambda: {"Xvfb": "xvfb"})
        case "isolate":
            monkeypatch.setattr(isolation, "can_isolate", lambda: False)
        case "bwrap":
            monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
        case "package":
            monkeypatch.setattr(doctor, "version", lambda _: "0.1")
        case "none":
            monkeypatch.setattr(doctor, "requires", missing)
    one = found(name)
    assert not one.there and says in one.found and one.get


def test_a_host_that_lacks_what_is_needed_is_told_so_by_the_exit_code(coda, monkeypatch):
    monkeypatch.setattr(doctor, "MEMORY_GB", 1e6)
    code, told, _ = coda("doctor")
    (line,) = (line for line in told.splitlines() if "memory" in line)
    assert code == 1 and line.startswith("missing") and "1e+06 GB" in line
