"""The table of docs/expected-values.md: each claim of the reference runs, the command that makes it, its
cost, value and file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from coda_lib.files import read_json
from coda_lib.paths import REFERENCE, REPO
from coda_study.evaluation.paper import OVERALL
from coda_study.evaluation.report import SYSTEM_LABELS
from coda_study.evaluation.tables import siblings
from coda_study.run import Run

HEAD = (
    "| claim | from nothing | stage minutes, disk | expected | elsewhere | from the committed files | file |"
)
NOT_MEASURED = "not measured"


def artifact_section(folder: Path) -> str:
    """The table."""
    runs, studied = _studies(folder)
    rows = [*_over_seeds(folder, runs), *_judges(folder), *(_ablations(studied) if studied else ())]
    return "\n".join([HEAD, "| --- | --- | --- | --- | --- | --- | --- |", *map(_line, rows)])


def runs_section(folder: Path) -> str:
    """Commit, machine, time, memory and disk of the committed runs of the study and of the ablations."""
    runs, studied = _studies(folder)
    return "\n".join(run_lines([run.folder for run in (*runs, *studied)]))


def _studies(folder: Path) -> tuple[list[Run], list[Run]]:
    """The committed runs of a study, and those of the ablations, if there are any."""
    ablations = Run(str(REFERENCE / "ablations"))
    studied = siblings(ablations, [REFERENCE]) if ablations.tables.is_dir() else []
    return siblings(Run(str(folder)), [REFERENCE]), studied


def _over_seeds(folder: Path, runs: list[Run]) -> Iterator[tuple[str, ...]]:
    study = folder.name
    make = f"`{made_by(study, runs)}`"
    cost = _cost([run.folder for run in runs])
    again = f"`coda seeds {' '.join(str(run.folder.relative_to(REPO)) for run in runs)}`"
    table = pd.read_csv(folder / "seeds" / "table1.csv")
    for row in table[table["application"] == OVERALL].itertuples():
        claim = f"{_system(row.system)}: {row.metric}, Overall, percent"
        yield (
            claim,
            make,
            cost,
            f"{row.value:.1f}",
            f"{row.low:.1f} to {row.high:.1f}",
            again,
            _name(folder / "seeds/table1.csv"),
        )
        make = cost = again = "the same"
    compared = pd.read_csv(folder / "seeds" / "comparisons.csv")
    for row in compared[compared["application"] == OVERALL].itertuples():
        claim = f"{_system(row.second)} − {_system(row.first)}: {row.metric}, Overall, points"
        yield (claim, make, cost, f"{row.difference:+.1f}", f"{row.low:+.1f} to {row.high:+.1f}", again,
               _name(folder / "seeds/comparisons.csv"))  # fmt: skip


def made_by(study: str, runs: list[Run]) -> str:
    """The command that makes the runs of a study again, from nothing."""
    profiles = [run.profile() for run in runs]
    seeds = f" --seeds {' '.join(str(profile.seed) for profile in profiles)}" if len(runs) > 1 else ""
    sealed = next((profile.sealed for profile in profiles if profile.sealed), None)
    more = (
        f" --set 'sealed={{tasks: {sealed.tasks}, seed: {sealed.seed}, runs: {sealed.runs}}}'"
        if sealed
        else ""
    )
    return f"coda reproduce --profile {study}{seeds}{more}"


def _judges(folder: Path) -> Iterator[tuple[str, ...]]:
    make, cost = f"`coda reproduce --profile {folder.name}`", _cost([folder])
    again = f"`coda judge votes {folder.relative_to(REPO)} --table2`"
    for row in pd.read_csv(folder / "tables" / "table2.csv").itertuples():
        for measure in ("precision", "recall"):
            value, low, high = (getattr(row, name) for name in (measure, f"{measure}_low", f"{measure}_high"))
            claim = f"Judge, {row.rule}: {measure}, percent"
            yield (
                claim,
                make,
                cost,
                f"{value:.1f}",
                f"{low:.1f} to {high:.1f}",
                again,
                _name(folder / "tables/table2.csv"),
            )
            make = cost = again = "the same"


def _ablations(runs: list[Run]) -> Iterator[tuple[str, ...]]:
    make, cost = f"`{made_by('ablations', runs)} --until ablations`", _cost([run.folder for run in runs])
    again = "`python -m tools.reference`"
    folder = next(run.folder for run in runs if run.folder.name == "ablations")
    file = folder / ("seeds" if len(runs) > 1 else "tables") / "ablations.csv"
    for row in pd.read_csv(file).dropna(subset=["difference"]).itertuples():
        claim = f"Ablation {row.variant} − stage 1: Average@{row.runs // row.seeds}, Overall, points"
        near = f"{row.difference_low:+.1f} to {row.difference_high:+.1f}"
        yield claim, make, cost, f"{row.difference:+.1f}", near, again, _name(file)
        make = cost = again = "the same"


def run_lines(folders: list[Path]) -> Iterator[str]:
    """Commit, machine, time, memory and disk of runs, a line each, under a head."""
    yield "| run | seed | commit | machine | stage minutes | largest stage | disk |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for folder in folders:
        manifest = read_json(folder / "manifest.json")
        hardware = manifest["hardware"]
        machine = f"{hardware['processor']}, {hardware['cores']} cores, {len(hardware['gpus']) or 'no'} GPU"
        yield _line(
            (
                f"`{_path(folder)}`",
                str(manifest["seed"]),
                (manifest["code"]["commit"] or "unknown")[:10],
                machine,
                _minutes([manifest]),
                f"{manifest['peak_rss_mb'] / 1000:.1f} GB",
                _disk([manifest]),
            )
        )


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cost(folders: list[Path]) -> str:
    manifests = [read_json(folder / "manifest.json") for folder in folders]
    return f"{_minutes(manifests)}, {_disk(manifests)}"


def _minutes(manifests: list[dict[str, Any]]) -> str:
    return f"{sum(one['wall_s'] for one in manifests) / 60:.0f} min"


def _disk(manifests: list[dict[str, Any]]) -> str:
    sizes = [one.get("disk_mb") for one in manifests]
    return NOT_MEASURED if None in sizes else f"{sum(sizes):.0f} MB"


def _system(name: str) -> str:
    return SYSTEM_LABELS[name].strip("*")


def _path(path: Path) -> str:
    return str(path.relative_to(REPO))


def _name(path: Path) -> str:
    return f"`{_path(path)}`"
