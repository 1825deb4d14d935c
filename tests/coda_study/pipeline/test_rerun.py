"""What is run again after a change: all that depends on it, and nothing else.

A copy of the project runs once, with notebooks that import what the real ones import and write a line instead
of computing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_notebooks import FAKE_NOTEBOOKS, ROLES, write_fake_notebooks

from coda_lib.paths import NOTEBOOKS, REPO
from coda_study.pipeline.dependencies import PACKAGES

pytestmark = pytest.mark.slow

COPIED = (*PACKAGES, "profiles", "data/tasks", "data/paper", "data/generator", "Snakefile", "notebooks")
SET = (
    "apps=[algebra, gis]",
    "systems=[base, executor, stage2]",
    "ablations={}",
    "ablations.truth={labels: truth}",
)
PREVIEW = "from coda_study.cli.main import main; import sys; sys.argv = sys.argv[:1] + {words!r}; main()"

TUTORIALS = {"quickstart", "sciencedesk", "planner_executor"}


def each(*stages: str) -> set[str]:
    return {f"{stage}/{app}" for stage in stages for app in ("algebra", "gis")}


JUDGES = each("judges")
# from specialists onward
LATER = each("explore/specialist", "judge/specialist", "evaluate/stage2") | JUDGES | {"generalize"}
TRAINED = each("specialize/specialist") | LATER
TRANSFER = each("transfer") | {"transfer/spectra"}  # of the generalist
AFTER_TRAINING = TRAINED | TRANSFER | {"variant/truth"}
AFTER_JUDGING = each("judge/base", "labels") | AFTER_TRAINING | {"reward"}
# by planner and executor
PLANNED = each("explore/base", "evaluate/base", "baselines")
PLANNED |= AFTER_JUDGING | {"quickstart", "planner_executor"}
ALL = TUTORIALS | PLANNED | each("evaluate/executor")
GENERALIST = {"generalize"} | JUDGES | each("evaluate/stage2") | TRANSFER
GIS = {stage for stage in ALL if stage.endswith("/gis")} | {"variant/truth"} | GENERALIST
ENDS = {"results", "ablations"}  # what reads everything: run again with any stage before it


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Path:
    """A copy of the project with a finished run."""
    folder = tmp_path_factory.mktemp("house")
    for name in COPIED:
        source, target = REPO / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for path in (REPO / "data").glob("*.yaml"):
        shutil.copy(path, folder / "data")
    write_fake_notebooks(
        folder / "fakes", {name: imports_of(NOTEBOOKS / f"{name}.ipynb") for name in FAKE_NOTEBOOKS}
    )
    for role in ROLES:
        (folder / "checkpoints" / role).mkdir(parents=True)
        (folder / "checkpoints" / role / "config.json").write_text("{}")
    coda(folder)
    return folder


def imports_of(notebook: Path) -> str:
    """The import statements of a notebook that name the library, as code that is read and not run."""
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    source = "\n".join("".join(cell["source"]) for cell in cells)
    kit = "|".join(PACKAGES)
    statements = re.findall(
        rf"^(?:from (?:{kit})\S* import (?:\([^)]*\)|.*)|import (?:{kit}).*)$", source, re.MULTILINE
    )
    return "\n".join(
        ["if False:", "    pass", *(f"    {' '.join(statement.split())}" for statement in statements)]
    )


def coda(house: Path, *words: str) -> str:
    changes = [f"models.{role}={house / 'checkpoints' / role}" for role in ROLES]
    options = [word for change in (*changes, *SET) for word in ("--set", change)]
    command = [
        sys.executable,
        "-m",
        "coda_study.cli.main",
        "reproduce",
        "--profile",
        "smoke",
        "--until",
        "ablations",
        *options,
    ]
    environment = os.environ | {"PYTHONPATH": str(house)}
    command += ["--notebooks", str(house / "fakes"), *words]
    done = subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_again(house: Path, *words: str) -> set[str]:
    return set(coda(house, "--dry-run", *words).split()) & (ALL | ENDS)


def test_nothing_is_run_again_where_nothing_changed(house):
    assert run_again(house) == set()


@pytest.mark.parametrize(
    ("file", "stages"),
    [
        ("sciencedesk/apps/gis/app.py", GIS | TUTORIALS | {"reward"}),
        ("sciencedesk/desk/desk.py", ALL),
        ("coda_lib/reward.py", AFTER_TRAINING | {"reward", "quickstart"}),
        ("coda_lib/trainer.py", AFTER_TRAINING | {"quickstart"}),
        ("coda_study/generator.py", {"results"}),
        ("coda_lib/prompts/compact/planner.j2", PLANNED),
        ("coda_lib/prompts/compact/executor.j2", PLANNED),
        ("coda_lib/prompts/compact/judge.j2", AFTER_JUDGING | {"quickstart"}),
        ("coda_lib/prompts/generator/propose.j2", set()),
        ("coda_study/show/figures.py", TUTORIALS | {"reward"}),
        ("coda_study/evaluation/report.html.j2", {"results"}),
        ("coda_study/show/viewer/web/stage.js", {"results"}),
        ("checkpoints/base_judge/config.json", JUDGES | each("labels")),
        ("data/tasks/test/gis/A-01.json", GIS | TUTORIALS),
    ],
)
def test_a_changed_file_runs_again_what_depends_on_it(house, file, stages):
    path = house / file
    content = path.read_text()
    path.write_text(content + ("\n" if path.suffix in (".json", ".j2") else "\n# changed\n"))
    try:
        assert run_again(house) == stages | (ENDS if stages & ALL else set())
    finally:
        path.write_text(content)


def test_a_notebook_that_is_saved_with_outputs_runs_nothing_again_and_a_changed_cell_does(house):
    path = house / "fakes" / "05_reward.ipynb"
    content = path.read_text()
    saved = json.loads(content)
    for number, cell in enumerate(saved["cells"]):
        output = {"output_type": "stream", "name": "stdout", "text": ["seen\n"]}
        cell |= {"execution_count": number, "outputs": [output]}
        cell["metadata"]["collapsed"] = False
    try:
        path.write_text(json.dumps(saved))
        assert run_again(house) == set()
        saved["cells"][-1]["source"].append("\n2")
        path.write_text(json.dumps(saved))
        assert run_again(house) == {"reward"}
    finally:
        path.write_text(content)


def test_notebook_00_is_run_again_with_the_profile_of_its_loop(house):
    path = house / "profiles" / "smoke.yaml"
    content = path.read_text()
    path.write_text(content + "\n# changed\n")
    assert run_again(house) == {"quickstart"}
    path.write_text(content)


@pytest.mark.parametrize(
    ("value", "stages"),
    [
        ("specialize.beta=0.5", AFTER_TRAINING | {"reward"}),
        ("generalize.batch_size=7", GENERALIST),
        ("judge.rule=majority", AFTER_JUDGING),
        ("baselines.tasks=3", each("baselines")),
        ("perturb=true", PLANNED | each("evaluate/executor")),
        ("step_limit=4", PLANNED | each("evaluate/executor")),
        ("bootstrap_resamples=77", set()),
    ],
)
def test_a_changed_value_of_the_profile_runs_again_what_depends_on_it(house, value, stages):
    assert run_again(house, "--set", value) == stages | ENDS


def test_a_curve_is_made_again_with_its_starts_and_with_the_settings_of_stage_2(house):
    start = house / "checkpoints" / "coder"
    curve = f"curve={{app: gis, tasks: [2], episodes: 4, starts: {{a: {start}}}}}"
    words = ("--run", "curve", "--until", "curve", "--set", curve)

    def planned(*more: str) -> bool:
        return "curve" in coda(house, "--dry-run", *words, *more).split()

    assert planned()
    coda(house, *words)
    assert not planned() and not planned("--set", "bootstrap_resamples=77")
    assert planned("--set", "generalize.batch_size=7")
    (start / "config.json").write_text("{} ")
    assert planned()
