"""What the notebook on virtual machines shows, played on fake machines."""

from __future__ import annotations

import io
import re
from contextlib import closing
from dataclasses import replace

import pandas as pd
import pytest
from kit import kit_files
from PIL import Image
from tiny_models import made_up

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.paths import REFERENCE
from coda_lib.trajectory import save_trajectories
from coda_study.run import Run
from coda_study.show.desktop import before_and_after, outcomes, played_on, repeated, requests, study_table
from sciencedesk.board.fake import FakeMachine, typing_task
from sciencedesk.board.guest import Timing


def test_a_script_solves_its_task_on_a_fake_machine():
    with closing(FakeMachine()) as fake:
        (episode,) = played_on([fake.machine], [typing_task(2)], 1, faults := [])
        assert episode.success and not faults and episode.steps[0].plan == "type(content='word 0')"
        assert outcomes([episode])["episodes"].to_dict() == {("DONE", "yes"): 1}
        table = requests(fake)
        assert list(table["request"]) == [
            "/platform", "/setup/execute", "/platform", "/setup/launch", "/execute", "/execute", "/vars",
        ]  # fmt: skip
        assert "word 0" in table["body"][4] and repeated(fake) == 0
        fake.episodes.append(["write a", "write a"])
        assert repeated(fake) == 1


def test_a_machine_as_slow_as_a_real_one_is_waited_for():
    """The deadlines were those of the fake machines, and a real one broke them all."""
    with closing(FakeMachine(action_s=0.6, screenshot_s=0.5)) as slow:
        real = slow.machine.model_copy(update={"timing": Timing(item=0, after=0)})
        (episode,) = played_on([real], [typing_task(1)], 1, faults := [])
        assert episode.success and not faults
        played_on([slow.machine], [typing_task(1)], 1, faults)
        assert faults


def test_a_task_before_and_after_training_is_one_that_training_solves(tmp_path):
    run = Run(str(tmp_path))
    run.store(load_profile("desktop"))
    for shown in (before_and_after, study_table):
        with pytest.raises(UserError, match="coda reproduce --profile desktop"):
            shown(tmp_path)
    for system, solved in {"base": (True, False, False), "stage2": (True, False, True)}.items():
        episodes = [made_up(number, success=success) for number, success in enumerate(solved)]
        episodes = [replace(episode, app="PyMOL") for episode in episodes]
        save_trajectories(run.trajectories(system, "PyMOL"), episodes)
    counts, recording = before_and_after(tmp_path)
    assert counts.to_dict("index")["PyMOL"] == {"tasks": 3, "base": 1, "stage2": 2}
    pictures = Image.open(io.BytesIO(recording.data))
    html = '<img alt="a recording" src="data:image/webp;base64,UklGR'
    assert pictures.n_frames == 3 and recording._repr_html_().startswith(html)


def test_table_1_of_a_run_is_shown_as_it_is_stored():
    shown = study_table(REFERENCE / "laptop")
    stored = pd.read_csv(REFERENCE / "laptop" / "tables" / "table1.csv")
    cell = "system == 'base' and application == 'algebra' and metric == 'Average@8'"
    (value,) = stored.query(cell)["value"]
    assert f"{value:.1f}" in str(shown.loc[("Average@8", "Base planner → executor"), "Algebra"])


def test_no_module_of_the_library_reads_the_tests():
    readers = [path for path in kit_files() if re.search(r"['\"]tests['\"/]", path.read_text())]
    assert not readers
