"""What the tests share: quiet libraries, and fake notebooks that stand in for the real ones."""

from __future__ import annotations

import os

# Before anything imports torch or transformers: tests share the machine's cores and never ask the network.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and rich would take it for good

import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import nbformat
import pytest

from coda_lib.cli import main as cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job, and so by what tests start


def write_notebook(path: Path, parameters: str, *cells: str) -> Path:
    """Write a notebook of one cell tagged `parameters` (none if empty) and other code cells."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "language": "python", "display_name": "Python 3"}
    tagged = [nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})] if parameters else []
    notebook.cells = [*tagged, *(nbformat.v4.new_code_cell(cell) for cell in cells)]
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


@pytest.fixture
def make_notebook(tmp_path: Path) -> Callable[..., Path]:
    """Give a function (name, parameters, *cells) that writes a notebook into the test's folder."""
    return lambda name, parameters, *cells: write_notebook(tmp_path / name, parameters, *cells)


PARAMETERS = {
    "app": 'app: str = "algebra"',
    "planner": 'planner: str = "base"',
    "system": 'system: str = "base"',
    "threads": "threads: int = 1",
    "variant": 'variant: str = "truth"',
}
ROLES = ("planner", "executor", "judge", "base_judge", "coder")
PUT = "from coda_lib.files import write_text\nfrom coda_lib.run import Run\nsettings = Run(run).profile(profile)\n"
FAKE_NOTEBOOKS = {
    "00_quickstart": ("", "1"),
    "01_sciencedesk": ("", "1"),
    "02_planner_executor": ("", "1"),
    "03_explore": (
        "app planner threads",
        PUT + "write_text(Run(run).rollouts(planner, app), f'{app} {settings.train_tasks}')",
    ),
    "04_judge": (
        "app planner threads",
        PUT + "write_text(Run(run).judged(planner, app), Run(run).rollouts(planner, app).read_text())\n"
        "write_text(Run(run).judge_scores(planner, app), '{}')",
    ),
    "05_reward": ("app", "1"),
    "06_specialize": (
        "app threads",
        PUT + "write_text(Run(run).specialist(app) / 'weights', str(settings.specialize.steps))",
    ),
    "07_generalize": ("threads", PUT + "write_text(Run(run).generalist / 'weights', str(settings.generalize.steps))"),
    "08_evaluate": ("app system threads", PUT + "write_text(Run(run).evaluation(system, app), f'{app} {system}')"),
    "09_judges": ("app threads", PUT + "write_text(Run(run).judges(app), app)"),
    "10_results": (
        "",
        PUT + "for name in ('tables/table1.csv', 'tables/table1.md', 'figures/curve.svg', 'report.html'):\n"
        "    write_text(Run(run).folder / name, f'{settings.name} {settings.seed}')",
    ),
    "11_labels": ("app threads", PUT + "write_text(Run(run).label_votes(app), app)"),
    "12_variant": ("variant threads", PUT + "write_text(Run(run).ablation(variant), str(settings.ablations[variant]))"),
    "13_transfer": ("app threads", PUT + "write_text(Run(run).transfer(app), app)"),
    "14_ablations": ("", PUT + "write_text(Run(run).tables / 'ablations.csv', ' '.join(settings.ablations))"),
    "15_real_apps": ("", "1"),
    "16_virtual_machines": ("", "1"),
    "A1_base_models": ("threads", PUT + "write_text(Run(run).base_models / 'planner' / 'weights', 'x')"),
}


def write_fake_notebooks(folder: Path, before: Mapping[str, str] = {}) -> Path:
    """Write notebooks with the names, parameters and outputs of the real ones, each done in no time; `before` is code by name."""
    for name, (parameters, code) in FAKE_NOTEBOOKS.items():
        declared = ['profile: str = "smoke"', 'run: str = "smoke"', *(PARAMETERS[key] for key in parameters.split())]
        write_notebook(folder / f"{name}.ipynb", "\n".join(declared), "\n".join(filter(None, [before.get(name), code])))
    return folder


@pytest.fixture
def fake_notebooks(tmp_path: Path) -> Path:
    """Give a folder of such notebooks."""
    return write_fake_notebooks(tmp_path / "notebooks")


@pytest.fixture
def fake_checkpoints(tmp_path: Path) -> tuple[str, ...]:
    """Give the overrides that put one small folder in the place of the checkpoints."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    return tuple(f"models.{role}={tmp_path / 'checkpoint'}" for role in ROLES)


@pytest.fixture
def coda(monkeypatch, capsys):
    """Give a function that runs the command in this process and returns exit code, output and messages."""

    def coda(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coda", *words])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return coda
