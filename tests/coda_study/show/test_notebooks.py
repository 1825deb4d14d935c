"""The committed notebooks keep the rules of the house, and what they show is right."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from itertools import combinations, pairwise
from pkgutil import resolve_name

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.text import Text
from PIL import Image
from tiny_models import RULE, save_tiny

from coda_lib.action import Action
from coda_lib.agent import Decision, DualAgent
from coda_lib.config import load_profile
from coda_lib.dataset import observation
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.grpo import Group, draw_groups, grpo_loss, token_logprobs, trainable
from coda_lib.judge import Verdict, format_verdict
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.models.local import LocalModel, encode
from coda_lib.paths import NOTEBOOKS, REPO, TASKS
from coda_lib.planner import Planner, planner_messages
from coda_lib.reward import reward
from coda_lib.task import load_task
from coda_lib.trajectory import StopReason
from coda_study.pipeline.dependencies import PACKAGES
from coda_study.pipeline.notebook import declared_parameters
from coda_study.show import examples, figures, grpo, live, pictures, probability_bars, progress, training

BOOKS = sorted(NOTEBOOKS.glob("*.ipynb"))
SOLUTIONS = sorted(NOTEBOOKS.glob("solutions/*.ipynb"))
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
    "19_baselines": {"app", "threads"},
    "A1_base_models": {"threads"},
}
CODE_LINES, FUNCTION_LINES, SOURCES = 12, 3, 6
ALL_SOURCES = 10  # of the quickstart, which runs the whole loop
SHOWN = 22  # lines of code that one cell shows of the library

every_story = pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
every_book = pytest.mark.parametrize(
    "path", BOOKS + SOLUTIONS, ids=lambda path: f"{path.parent.name}/{path.stem}"
)


def cells(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def test_all_notebooks_are_there():
    named = re.findall(r'book\("(\w+)"\)', (REPO / "Snakefile").read_text())
    assert {path.stem for path in BOOKS} == set(named) and len(BOOKS) == 21


def test_the_first_one_lists_all_others():
    first, *others = sorted(NOTEBOOKS.glob("*.ipynb"))
    (table,) = (cell.source for cell in cells(first, "markdown") if "Where to go next" in cell.source)
    listed = re.findall(r"\]\((\w+)\.ipynb\)", table.partition("## Try it")[0])
    assert listed == [path.stem for path in others]


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
    given = GIVEN.get(path.stem, set()) if path in BOOKS else set()
    assert {"profile", "run"} | given <= set(declared_parameters(path))


@every_book
def test_nothing_of_the_machine_or_the_network_is_in_it(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|www\.|ftp:|/home/|/root/|/tmp/|[A-Z]:\\\\\\\\", text)
    assert json.loads(text)["metadata"]["kernelspec"]["name"] == "python3"


@every_book
def test_it_imports_from_at_most_six_places_of_the_packages(path):
    imports = [node for cell in cells(path, "code") for node in ast.walk(ast.parse(cell.source))]
    modules = {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    limit = ALL_SOURCES if path.stem == "00_quickstart" else SOURCES
    assert len({module for module in modules if module.split(".")[0] in PACKAGES}) <= limit


@every_story
def test_it_says_what_it_reads_and_asks_questions_with_answers(path):
    prose = "\n".join(cell.source for cell in cells(path, "markdown"))
    assert prose.startswith("# ") and "\n## Try it\n" in prose
    assert path.stem.startswith("00") or ("**Reads**" in prose and "**Writes**" in prose)
    questions = re.split(r"^\* ", prose.split("## Try it")[1], flags=re.MULTILINE)[1:]
    assert 2 <= len(questions) <= 4
    assert all(f"[Answer](solutions/{path.name})" in question for question in questions)
    answers = nbformat.read(NOTEBOOKS / "solutions" / path.name, as_version=4)
    headings = [cell for cell in answers.cells if re.search(r"^## ", cell.source, re.MULTILINE)]
    assert len(headings) == len(questions)


@every_book
def test_links_lead_to_notebooks(path):
    prose = "\n".join(cell.source for cell in cells(path, "markdown"))
    assert all((path.parent / target).is_file() for target in re.findall(r"\]\(([^)]+\.ipynb)\)", prose))


# ------------------------------------------------------------------------------------------- what the noteboo


@pytest.fixture(scope="module")
def episode():
    return examples.scripted(load_task(TASKS / "test" / "algebra" / "A-02.json"))


@pytest.fixture(scope="module")
def question():
    return examples.scripted(load_task(TASKS / "test" / "algebra" / "B-02.json"))


def agent(plans, replies):
    planner, executor = (ReplayModel(plans), Sampling()), (ReplayModel(replies), Sampling())
    return DualAgent(Planner(*planner), Executor(*executor), "replay")


def test_a_scripted_solution_is_an_episode_that_succeeds(episode, question):
    assert (episode.stop, episode.success, episode.answer) == (StopReason.DONE, True, None)
    assert episode.steps[0].plan == "Click 'View'." and episode.steps[-1].plan == "DONE"
    assert (question.stop, question.success) == (StopReason.ANS, True) and question.answer


def test_groups_reward_what_the_executor_did(episode):
    target = episode.steps[0].actions[0]
    size = episode.steps[0].image.size
    hit = f"click(start_box='({round(target.x * size[0])},{round(target.y * size[1])})')"
    plans = ["Thought: Click 'View'.\nAction: x", "", "Click 'File'.", "DONE"]
    (group,) = draw_groups(agent(plans, [hit, "nonsense"]), [(episode, 0)], 4, seed=0, reach=2)
    assert [decision.plan for decision in group.decisions] == ["Click 'View'.", "", "Click 'File'.", "DONE"]
    assert group.rewards == pytest.approx([2, 0, 0, 0], abs=0.01)
    assert group.advantages == pytest.approx([1.5, -0.5, -0.5, -0.5])
    assert group.actions[1] is None and group.actions[3] == Action.done()
    assert list(grpo.group_table(group).columns) == ["plan", "action", "reward", "advantage"]
    assert list(grpo.state_table(group)["state"]) == [episode.instruction, "–", hit]
    assert grpo.spread_of([group])["groups"].to_dict() == {"different": 1}
    assert grpo.plan_counts({"a": group})["a"].sum() == 4
    poorer = replace(group, rewards=np.array([2, 2, 0, 0]))
    table = grpo.paired_rewards({"base": [poorer] * 3, "specialist": [group] * 3}, 100)
    assert table.loc["reward (of 2)", ["base", "specialist"]].tolist() == [1, 0.5]
    assert table["change"].item().startswith("-0.50")
    assert grpo.most_varied([replace(group, rewards=np.ones(4)), group]) is group


def test_no_step_to_learn_from_is_said():
    with pytest.raises(UserError, match="no positive step"):
        draw_groups(agent([], []), [], 4, seed=0, reach=2)


def test_votes_count_what_is_no_verdict(episode):
    yes, marred = format_verdict(Verdict(True)), format_verdict(Verdict(True, redundant=(2,)))
    judged = [
        replace(episode, verdicts=(yes,) * 4),
        replace(episode, verdicts=(yes, yes, marred, "hm"), success=False),
    ]
    table = examples.vote_table(judged, RULE)
    counts = table[["correct", "clean", "invalid", "labels"]].to_numpy().tolist()
    assert counts == [[4, 4, 0, 3], [3, 2, 1, 0]]
    assert table["accepted"].tolist() == [True, False]
    task = load_task(TASKS / "test" / "algebra" / "A-02.json")
    row = examples.judge_by_grade(table, [task]).loc["A"]
    assert row[["trajectories", "successes", "accepted"]].tolist() == [2, 1, 1]
    assert row["precision"].startswith("100.0 [") and row["recall"].startswith("100.0 [")
    # a generator's tasks have no check
    assert examples.judge_by_grade(table.assign(success=None), [task]).empty
    assert examples.label_table({"algebra": judged}, RULE).loc["algebra"].tolist() == [2, 1, 1, 3, 3]


def test_episodes_by_stop(episode):
    task = load_task(TASKS / "test" / "algebra" / "A-02.json")
    failed = replace(episode, run=1, success=False, stop=StopReason.FAIL)
    table = examples.episode_table([episode, failed], [task])
    assert examples.by_stop(table).loc["DONE", ["episodes", "mean_steps", "successes"]].tolist() == [1, 3, 1]
    assert table["grade"].tolist() == ["A", "A"]
    assert table["unparsed"].tolist() == table["cut"].tolist() == [0, 0]


def test_success_by_grade_has_an_interval_even_where_nothing_succeeded():
    rows = [("algebra/A-01", 0), ("algebra/A-01", 1), ("algebra/A-02", 0), ("algebra/A-02", 1)]
    episodes = pd.DataFrame(rows, columns=["task_id", "run"]).assign(grade="A", success=False, stop="DONE")
    table = examples.success_by_grade(episodes)
    assert list(table.columns) == ["tasks", "Average@2", "Pass@2"] and list(table.index) == ["A", "all"]
    assert table.loc["A", "Average@2"] == "0.0 [0.0, 65.8]"
    assert examples.success_by_grade(episodes.assign(success=None)).empty  # a generator's tasks have no check


def test_perfect_actions_earn_two():
    table = grpo.reward_examples(reach=0.1)
    assert (table["reward of a_T itself"] == 2).all() and (table["reward"] < 2).all()


def test_prompts_are_shown_with_their_pictures(episode):
    state = observation(episode, 1)
    shown = examples.conversation(Planner(ReplayModel([]), Sampling()).messages(state))
    assert shown.count("<picture 336x252>") == 2 and episode.instruction in shown
    lines = examples.conversation(planner_messages(state, "full")).split("\n")
    for line, following in pairwise(lines):
        if re.search("[a-z,]$", line) and re.match("[a-z]", following):  # broken within a sentence:
            assert len(f"{line} {following.split()[0]}") > examples.WIDTH  # the next word had no place


def test_pictures_are_drawn(episode):
    from sciencedesk.env import ScienceDesk

    env = ScienceDesk("algebra")
    sheets = [
        pictures.idea(episode),
        pictures.screens({"one": episode.steps[0].image}),
        pictures.draw_elements(Image.fromarray(env.render()), env.desk.elements()),
        probability_bars(["Click 'View'.", "DONE"], [0.2, 0.1], [0.3, 0.05], [1, -1]),
    ]
    assert all(sheet._repr_png_()[0].startswith(b"\x89PNG") for sheet in sheets)


def test_a_group_is_drawn_without_a_number_over_the_screen_or_the_title():
    image, actions = (
        Image.new("RGB", (336, 252)),
        [Action.click(x / 10, y) for y in (0.03, 0.97) for x in range(10)],
    )
    actions += [Action.click(0.02, 0.03)] * 7 + [None, Action.done()]
    rewards = np.linspace(0, 2, len(actions))
    sheet = pictures.group_rewards(image, actions, rewards, rewards - 1, actions[0])
    sheet.draw_without_rendering()
    screen, bars = sheet.axes
    numbers = [text for text in screen.texts if text.get_text()]
    boxes = [Text.get_window_extent(text) for text in numbers]  # without its line
    assert len(numbers) == 20 and numbers[0].get_text() == "1, 21, 22, 23, 24, 25, 26, 27"
    for taken in (
        screen.get_window_extent(),
        screen._left_title.get_window_extent(),
        screen.xaxis.label.get_window_extent(),
    ):
        assert not any(taken.overlaps(box) for box in boxes)
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert bars._left_title.get_window_extent().x1 < sheet.bbox.x1


def test_colours_of_advantages_are_the_words_that_the_notebooks_use():
    assert figures.advantage_colors([0.01, -0.01, 0]) == [figures.BLUE, figures.VERMILION, figures.GREY]


def test_source_is_shown_as_highlighted_code():
    shown = examples.source(reward)
    assert "<span" in shown.data and "eq. 1" in shown.data and "<style" not in shown.data


def test_source_without_docstrings_keeps_the_code():
    shown, full = examples.source(reward, docstrings=False).data, examples.source(reward).data
    assert "eq. 1" not in shown and "return" in shown and len(shown) < len(full)


@pytest.mark.parametrize(
    "path", [path for path in BOOKS if "03" <= path.stem < "09"], ids=lambda path: path.stem
)
def test_a_stage_shows_the_lines_that_it_is(path):
    homes, calls = {}, []
    for node in (node for cell in cells(path, "code") for node in ast.walk(ast.parse(cell.source))):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in PACKAGES:
            homes |= {alias.name: node.module for alias in node.names}
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "source":
            calls.append(node)
    assert calls
    for call in calls:
        names = [ast.unparse(argument) for argument in call.args]
        shown = [resolve_name(f"{homes[name.split('.')[0]]}.{name}") for name in names]
        assert sum(len(examples._without_docstring(each).splitlines()) for each in shown) <= SHOWN


def test_settings_are_a_table_without_what_is_not_set():
    table = examples.settings_table(load_profile("smoke"), "specialize")
    assert table.loc["group_size", "value"] == "4" and "lora" not in table.index


@pytest.mark.parametrize("part", ["specialize", "generalize"])
@pytest.mark.parametrize("profile", ["smoke", "laptop", "desktop", "ablations", "gpu", "paper"])
def test_each_setting_is_shown_with_what_it_means(profile, part):
    table = examples.settings_table(load_profile(profile), part)
    assert (table["meaning; source"] != "").all(), table


def test_each_setting_of_the_study_has_its_source():
    table = examples.settings_table(load_profile("laptop"), "specialize")
    assert (
        table.loc["group_size", "meaning; source"]
        == "G of eq. 2; not published (8 in the authors' SEAgent release)"
    )


# ------------------------------------------------------------------------------------------------ one step by


def test_the_loss_of_eq_3_is_right():
    """Two plans of two tokens and one; ratios 1.5 and 0.5; derived by hand."""
    old, is_token = torch.log(torch.tensor([[0.4, 0.4], [1.0, 0.4]])), torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    now = old + torch.log(torch.tensor([[1.5, 1.0], [1.0, 0.5]]))
    loss = grpo_loss(now, old, old, is_token, torch.tensor([1.0, -1.0]), beta=0.1, epsilon=0.2)
    kl = [[1 / 1.5 + np.log(1.5) - 1, 0], [1 / 0.5 + np.log(0.5) - 1]]
    plans = [((1.2 - 0.1 * kl[0][0]) + 1.0) / 2, -0.8 - 0.1 * kl[1][0]]  # 1.5 is clipped to 1.2, -0.5 to -0.8
    assert float(loss) == pytest.approx(-np.mean(plans), abs=1e-6)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    model = LocalModel(save_tiny(tmp_path_factory.mktemp("models") / "planner"))
    return Planner(model, Sampling(max_new_tokens=8))


def test_log_probabilities_are_those_of_the_plan_and_its_end(tiny, episode):
    """The chance of each token, one token after the other, is asked of the network with nothing but what
    comes before it.
    """
    state, plans = observation(episode, 0), ["DONE", "Click 'Grid'."]
    logprobs, is_token = token_logprobs(tiny, state, plans)
    processor, network = tiny.model.processor, tiny.model.network
    inputs = encode(processor, [tiny.messages(state)])
    for row, plan in enumerate(plans):
        ids, expected = processor.tokenizer(plan + processor.tokenizer.eos_token)["input_ids"], []
        for token in ids:
            logits = network(**inputs).logits[0, -1]
            expected.append(float(torch.log_softmax(logits, -1)[token]))
            added = {"input_ids": token, "attention_mask": 1, "mm_token_type_ids": 0}
            for name, value in added.items():
                inputs[name] = torch.cat([inputs[name], torch.full((1, 1), value).to(inputs[name])], dim=1)
        assert is_token[row].sum() == len(ids)
        assert logprobs[row][is_token[row] > 0].tolist() == pytest.approx(expected, abs=1e-4)
        inputs = encode(processor, [tiny.messages(state)])


def test_a_step_by_hand_moves_probability_to_the_better_plans(tiny, episode):
    decisions = [Decision(plan, "", ()) for plan in ("Click 'Grid'.", "DONE")]
    group = Group(observation(episode, 0), episode.steps[0].actions, tuple(decisions), np.array([2.0, 0.0]))
    planner = trainable(tiny)
    now, is_token = token_logprobs(planner, group.state, group.plans)
    old = now.detach()
    grpo_loss(now, old, old, is_token, torch.tensor(group.advantages).float(), 0.01, 0.2).backward()
    torch.optim.Adam(planner.model.network.parameters(), lr=1e-3).step()
    after, _ = token_logprobs(planner, group.state, group.plans)
    table = grpo.step_table(group, before=old, after=after)
    assert table["after"][1] > table["before"][1] and table["after"][2] < table["before"][2]
    assert not any(parameter.requires_grad for parameter in tiny.model.network.parameters())


# ------------------------------------------------------------------------------------------------ how far a s


@pytest.fixture
def shown(monkeypatch):
    """What a notebook would show, in order."""
    shown = []
    monkeypatch.setattr(live.DisplayHandle, "display", lambda self, what, **_: shown.append(what))
    monkeypatch.setattr(live.DisplayHandle, "update", lambda self, what, **_: shown.append(what))
    return shown


def test_progress_shows_what_is_done_and_how_long_the_rest_takes(shown, monkeypatch):
    clock = iter([0.0, 30.0, 90.0])
    monkeypatch.setattr(live.time, "monotonic", lambda: next(clock))
    with progress("episodes") as move:
        move(1, 3)
        move(3, 3)
    lines = [line["text/plain"] for line in shown]
    assert lines[1].endswith(" 1 of 3 episodes, 30 s of about 1 min 30 s") and lines[1].count("█") == 10
    assert lines[2].endswith(" 3 of 3 episodes, 1 min 30 s")


def test_a_resumed_stage_expects_the_time_of_its_rest(shown, monkeypatch):
    clock = iter([0.0, 10.0])
    monkeypatch.setattr(live.time, "monotonic", lambda: next(clock))
    with progress("steps") as move:
        move(25, 28)
    assert shown[1]["text/plain"].endswith(" 25 of 28 steps, 10 s of about 40 s")


def test_a_training_draws_its_curves_and_a_finished_one_says_so(shown, tmp_path):
    log = tmp_path / "metrics.jsonl"
    log.write_text('{"step": 1, "reward": 1.0, "kl": 0.0}\n')
    with training(log, "algebra") as move:
        move(1, 2)
    assert sum(isinstance(what, figures.Sheet) for what in shown) == 2
    shown.clear()
    with training(log, "algebra"):
        pass
    assert shown[1] == {"text/plain": "no steps left to do"} and isinstance(shown[2], figures.Sheet)
