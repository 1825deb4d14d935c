"""manifest.json, where a run's figures come from: code, versions, settings, files, machine, time, memory."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from typing import Any

import psutil

from coda_lib.config import Profile
from coda_lib.files import read_object, sha256, write_json
from coda_lib.paths import REPO, display
from coda_study.run import Run

PACKAGES = (
    "torch", "transformers", "trl", "datasets", "accelerate", "numpy", "scipy", "pandas",
    "PySide6-Essentials", "sympy", "ase", "ephem", "snakemake", "papermill", "peft", "vllm",
)  # fmt: skip
RECORDED = ("wall_s", "peak_rss_mb", "notebook", "parameters")  # of a stage
FOLDERS = ("tables", "figures")  # of a run, whose files the manifest lists beside what the stages declare


def code_state(repo: Path = REPO) -> dict[str, Any]:
    """The commit and whether tracked files differ from it; None for both where there is no git checkout."""
    if shutil.which("git") is None or not (repo / ".git").exists():
        return {"commit": None, "changed": None}
    how = {"cwd": repo, "capture_output": True, "text": True}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], **how, check=False)
    status = subprocess.run(["git", "status", "--porcelain"], **how, check=True)
    known = commit.stdout.strip() if commit.returncode == 0 else None
    return {"commit": known, "changed": bool(status.stdout.strip())}


def package_versions() -> dict[str, str | None]:
    """The version of Python and of each package that figures depend on; None where it is not installed."""
    versions = {"python": platform.python_version()} | dict.fromkeys(PACKAGES)
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def hardware() -> dict[str, Any]:
    """The processor, cores this process may use, memory in GiB and GPUs of this machine."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _processor(),
        "cores": usable,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": _gpus(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def build_manifest(run: Run, profile: Profile) -> dict[str, Any]:
    """The manifest of what the run's stages recorded; paths are relative to the repository if inside it."""
    paths = sorted((run.folder / "stages").glob("*.json"))
    records = [read_object(path, "state", "started", "inputs", "outputs") for path in paths]
    records = [record for record in records if record["state"] == "done"]
    records.sort(key=itemgetter("started"))
    inputs, outputs = {}, {}
    for record in records:
        inputs |= record["inputs"]
        outputs |= record["outputs"]
    size = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file())
    shown = [path for name in FOLDERS for path in sorted((run.folder / name).rglob("*")) if path.is_file()]
    produced = set(outputs)
    outputs |= {display(path): sha256(path) for path in shown}
    return {
        "run": run.folder.name,
        "profile": profile.model_dump(mode="json"),
        "seed": profile.seed,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_state(),
        "versions": package_versions(),
        "hardware": hardware(),
        "wall_s": round(sum(record["wall_s"] for record in records), 2),
        "peak_rss_mb": max((record["peak_rss_mb"] for record in records), default=0),
        "disk_mb": round(size / 1e6, 1),
        "stages": {record["stage"]: {key: record[key] for key in RECORDED} for record in records},
        "inputs": {name: inputs[name] for name in sorted(inputs) if name not in produced},
        "outputs": dict(sorted(outputs.items())),
    }


def write_manifest(run: Run, profile: Profile) -> None:
    write_json(run.manifest, build_manifest(run, profile))


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        if name := re.search(r"^model name\s*:(.*)", information.read_text(), re.MULTILINE):
            return name[1].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return platform.processor() or platform.machine()


def _gpus() -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.split("\n")[:-1] if result.returncode == 0 else []
