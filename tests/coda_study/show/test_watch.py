"""A page that shows an episode while it is played."""

from __future__ import annotations

from dataclasses import replace

from coda_lib import DualAgent, Executor, Planner, ReplayModel, Sampling, test_tasks
from coda_lib.rollout import jobs, rollout
from coda_study.show.watch import Watched
from sciencedesk.env import ScienceDesk


def test_each_step_is_on_the_page_before_it_is_carried_out_and_the_end_plays_all(tmp_path):
    planner = Planner(ReplayModel(["Click '<b>View</b>'.", "DONE"]), Sampling())
    executor = Executor(ReplayModel(["click(start_box='(27,10)')"]), Sampling())
    task = replace(test_tasks("algebra")[0], instruction="Turn <i>it</i> on.")
    agent, pages = Watched(DualAgent(planner, executor, "replay"), task, tmp_path / "watch.html"), []

    class Seen(ScienceDesk):
        def step(self, action):
            pages.append(agent.page.read_text())
            return super().step(action)

    (played,) = rollout(agent, jobs([task], 1), lambda: Seen("algebra"), seed=7)
    agent.end(played)
    *during, end = [*pages, agent.page.read_text()]
    assert [page.count("<li>") for page in during] == [1, 2] and end.count("<li>") == 2
    assert all('http-equiv="refresh"' in page and "image/png" in page for page in during)
    assert 'http-equiv="refresh"' not in end and "image/webp" in end
    assert "&lt;b&gt;View" in end and "<b>" not in end and "&lt;i&gt;" in end and "<i>" not in end
