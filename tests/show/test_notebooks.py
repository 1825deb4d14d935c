"""The committed notebooks keep the rules of the house, and what they show is right."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace

import nbformat
import pandas as pd
import pytest
from PIL import Image
from tiny_models import RULE

from coda_lib.action import Action
from coda_lib.agent import DualAgent
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.judge import Verdict, format_verdict
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.paths import NOTEBOOKS, REPO, TASKS
from coda_lib.pipeline.notebook import declared_parameters
from coda_lib.planner import Planner
from coda_lib.show import examples as teaching
from coda_lib.show import pictures
from coda_lib.show.live import progress
from coda_lib.task import load_task
from coda_lib.trajectory import StopReason

BOOKS = sorted(NOTEBOOKS.glob("*.ipynb"))
GIVEN = {  # what the Snakefile passes besides profile and run
    "03_explore": {"planner", "app", "threads"},
    "04_judge": {"planner", "app", "threads"},
    "05_reward": {"app"},
    "06_specialize": {"app", "threads"},
    "07_generalize": {"threads"},
    "08_evaluate": {"system", "app", "threads"},
    "09_judges": {"app", "threads"},
    "11_labels": {"app", "threads"},
    "12_variant": {"variant", "threads"},
    "13_transfer": {"app", "threads"},
    "A1_base_models": {"threads"},
}
CODE_LINES, FUNCTION_LINES = 12, 3

every_book = pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)


def cells(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def test_all_notebooks_are_there():
    named = re.findall(r'book\("(\w+)"\)', (REPO / "Snakefile").read_text())
    assert {path.stem for path in BOOKS} == set(named) and len(BOOKS) == 18


@every_book
def test_it_is_valid_and_committed_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in cells(path, "code"):
        assert cell.outputs == [] and cell.execution_count is None, cell.source
        assert "papermill" not in cell.metadata
    assert "papermill" not in notebook.metadata


@every_book
def test_a_text_cell_comes_before_every_code_cell(path):
    kinds = [cell.cell_type for cell in nbformat.read(path, as_version=4).cells]
    assert kinds[0] == "markdown" and set(kinds) == {"markdown", "code"}
    assert ("code", "code") not in set(zip(kinds, kinds[1:], strict=False))
    assert all(cell.source.strip() for cell in cells(path, "markdown"))


@every_book
def test_code_cells_only_import_call_and_show(path):
    for cell in cells(path, "code"):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        assert len(lines) <= CODE_LINES, cell.source
        for node in ast.walk(ast.parse(cell.source)):
            assert not isinstance(node, ast.ClassDef | ast.Try), cell.source
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < FUNCTION_LINES, cell.source


@every_book
def test_one_cell_of_parameters_explains_itself(path):
    tagged = [cell for cell in cells(path, "code") if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    assert cells(path, "code")[0].source == tagged[0].source
    for line in tagged[0].source.splitlines():
        assert re.fullmatch(r"\w+: (str|int|float|bool) = [^=#]+  # \S.*", line), line
    assert {"profile", "run"} | GIVEN.get(path.stem, set()) <= set(declared_parameters(path))


@every_book
def test_nothing_of_the_machine_or_the_network_is_in_it(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|www\.|ftp:|/home/|/root/|/tmp/|[A-Z]:\\\\\\\\", text)
    assert json.loads(text)["metadata"]["kernelspec"]["name"] == "python3"


@every_book
def test_it_says_what_it_reads_and_suggests_what_to_try(path):
    prose = "\n".join(cell.source for cell in cells(path, "markdown"))
    assert prose.startswith("# ") and "\n## Try it\n" in prose
    suggestions = re.findall(r"^\* ", prose.split("## Try it")[1], re.MULTILINE)
    assert 2 <= len(suggestions) <= 4
    assert path.stem.startswith("00") or ("**Reads**" in prose and "**Writes**" in prose)


# ------------------------------------------------------------------------------------------- what the notebooks show


@pytest.fixture(scope="module")
def episode():
    return teaching.scripted(load_task(TASKS / "test" / "algebra" / "A-02.json"))


@pytest.fixture(scope="module")
def question():
    return teaching.scripted(load_task(TASKS / "test" / "algebra" / "B-02.json"))


def agent(plans, replies):
    return DualAgent(
        Planner(ReplayModel(plans), Sampling()), Executor(ReplayModel(replies), Sampling()), "replay"
    )  # fmt: skip


def test_a_scripted_solution_is_an_episode_that_succeeds(episode, question):
    assert (episode.stop, episode.success, episode.answer) == (StopReason.DONE, True, None)
    assert episode.steps[0].plan == "Click 'View'." and episode.steps[-1].plan == "DONE"
    assert (question.stop, question.success) == (StopReason.ANS, True) and question.answer


def test_groups_reward_what_the_executor_did(episode):
    target = episode.steps[0].actions[0]
    size = episode.steps[0].image.size
    hit = f"click(start_box='({round(target.x * size[0])},{round(target.y * size[1])})')"
    plans = ["Thought: Click 'View'.\nAction: x", "", "Click 'File'.", "DONE"]
    (group,) = teaching.draw_groups(agent(plans, [hit, "nonsense"]), [(episode, 0)], 4, seed=0)
    assert [decision.plan for decision in group.decisions] == ["Click 'View'.", "", "Click 'File'.", "DONE"]
    assert group.rewards == pytest.approx([2, 0, 0, 0], abs=0.01)
    assert group.advantages == pytest.approx([1.5, -0.5, -0.5, -0.5])
    assert group.actions[1] is None and group.actions[3] == Action.done()
    assert list(group.table.columns) == ["plan", "action", "reward", "advantage"]
    assert teaching.learnable([group]).to_dict() == {"rewards differ": 1}
    assert teaching.plan_counts({"a": group})["a"].sum() == 4


def test_no_step_to_learn_from_is_said():
    with pytest.raises(UserError, match="no positive step"):
        teaching.draw_groups(agent([], []), [], 4, seed=0)


def test_votes_count_what_is_no_verdict(episode):
    yes, marred = format_verdict(Verdict(True)), format_verdict(Verdict(True, redundant=(2,)))
    judged = [
        replace(episode, verdicts=(yes,) * 4),
        replace(episode, verdicts=(yes, yes, marred, "hm"), success=False),
    ]
    table = teaching.votes(judged, RULE)
    assert table[["correct", "clean", "invalid", "positive"]].to_numpy().tolist() == [[4, 4, 0, 3], [3, 2, 1, 0]]
    assert table["judged"].tolist() == [True, False]
    task = load_task(TASKS / "test" / "algebra" / "A-02.json")
    by_grade = teaching.judge_by_grade(judged, [task], RULE)
    assert by_grade.loc["A", ["trajectories", "true_positive", "precision", "recall"]].tolist() == [
        2,
        1,
        "100.0",
        "100.0",
    ]
    assert teaching.by_app({"algebra": judged}, RULE).loc["algebra"].tolist() == [2, 1, 1, 3]
    assert len(teaching.different_steps(judged, RULE)) == 3


def test_outcomes_by_stop_and_grade(episode):
    task = load_task(TASKS / "test" / "algebra" / "A-02.json")
    table = teaching.outcomes([episode, replace(episode, run=1, success=False, stop=StopReason.FAIL)], [task])
    assert teaching.by_stop(table).loc["DONE", ["episodes", "mean_steps", "successes"]].tolist() == [1, 3, 1]
    assert teaching.by_grade(table).loc["A"].tolist() == [1, 50, 100]


def test_success_by_grade_has_an_interval_even_where_nothing_succeeded():
    rows = [("algebra/A-01", 0), ("algebra/A-01", 1), ("algebra/A-02", 0), ("algebra/A-02", 1)]
    episodes = pd.DataFrame(rows, columns=["task_id", "run"]).assign(grade="A", success=False, stop="DONE")
    table = teaching.success_by_grade(episodes, 100)
    assert list(table.columns) == ["tasks", "Average@2", "Pass@2"] and list(table.index) == ["A", "all"]
    assert table.loc["A", "Average@2"] == "0.0 [0.0, 65.8]"


def test_perfect_actions_earn_two():
    table = teaching.reward_examples()
    assert (table["reward of a_T itself"] == 2).all() and (table["reward"] < 2).all()


def test_prompts_are_shown_with_their_pictures(episode):
    state = teaching.observation(episode, 1)
    shown = teaching.conversation(Planner(ReplayModel([]), Sampling()).messages(state))
    assert shown.count("<picture 336x252>") == 2 and episode.instruction in shown


def test_pictures_are_drawn(episode):
    from coda_lib.envs.sciencedesk.env import ScienceDesk

    env = ScienceDesk("algebra")
    sheets = [
        pictures.idea(episode),
        pictures.screens({"one": episode.steps[0].image}),
        pictures.draw_elements(Image.fromarray(env.render()), env.desk.elements()),
    ]
    assert all(sheet._repr_png_().startswith(b"\x89PNG") for sheet in sheets)


def test_progress_moves(capsys):
    with progress("episodes") as move:
        move(0, 2)
        move(2, 2)
