"""Task spaces: values, the split by content, drawing, and drawn sets as files."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from coda_lib.applications import APPS, DESKTOP_APPS
from coda_lib.errors import UserError
from coda_lib.files import read_json, write_json
from coda_lib.paths import DATA
from coda_lib.task import test_tasks
from sciencedesk import script
from sciencedesk.env import ScienceDesk, desk_class
from sciencedesk.goals import Aim, expand, sentence
from sciencedesk.make import defaults as defaults_of
from sciencedesk.real.pymol_facts import SETTINGS
from sciencedesk.sets import SPLIT, check_knowledge, check_split, read_set, write_set, write_split
from sciencedesk.space import REGIONS, Space, content, draw, draw_with_aims, read_space, region, setup, space

SPACES = [app for app in APPS if (DATA / "tasks" / "spaces" / f"{app}.yaml").is_file()]
REAL = [app for app in DESKTOP_APPS if (DATA / "tasks" / "spaces" / f"{app}.yaml").is_file()]
UNTRAINED = {
    "algebra": {"grid", "axes"}, "biochem": {"dark", "hydrogens"}, "gis": {"legend"},
    "astron": {"constellations", "horizon", "pause"},
}  # fmt: skip

SMALL = """
vocabularies: {peaks: [Ash, Bay, Elm, Fir, Ivy, Oak, Yew, Asp]}
starts: {grid: [true, false], legend: [true, false]}
goals:
  - name: grid
    say: "turn the grid {v}"
    values: {"on": true, "off": false}
    key: grid
    solve: [{click: View}, {click: Grid}]
  - name: light
    say: ["set the light azimuth to {v}", "light the map from {v} degrees"]
    values: {numbers: [5, 355, 5]}
    key: light
    solve: [{click: Raster}, {click: Light}, {type: "{v}\\n"}]
  - name: peaks
    say: "look at {v}"
    values: {names: peaks}
    check: [{key: queried, pred: equals, value: "{v}"}]
    setup: {shown: {names: peaks, count: 3}}
    solve: [{click: "{v}"}]
"""


@pytest.fixture
def small(tmp_path: Path) -> Space:
    path = tmp_path / "gis.yaml"
    path.write_text(SMALL)
    return read_space("gis", path)


# ---- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a", 4], {"a": "a", "4": 4}),
        ({"on": True, "off": False}, {"on": True, "off": False}),
        ({"numbers": [0.5, 2, 0.5]}, {"0.5": 0.5, "1": 1, "1.5": 1.5, "2": 2}),
        ({"numbers": [-2, 0, 1]}, {"-2": -2, "-1": -1, "0": 0}),
        ({"names": "peaks"}, {"Ash": "Ash", "Bay": "Bay"}),
        ({"parts": [{"names": "peaks"}, {"names": "peaks"}], "word": "{0} to {1}"},
         {"Ash to Bay": ["Ash", "Bay"], "Bay to Ash": ["Bay", "Ash"]}),
        ({"parts": [{"slope": "Slope"}, [25, 50]], "word": "{0} to {1}"},
         {"slope to 25": ["Slope", 25], "slope to 50": ["Slope", 50]}),
        ({"parts": [["a", "b"], [1, 2]], "word": "{0} {1}", "without": ["a 2", "b 1"]},
        {"a 1": ["a", 1], "b 2": ["b", 2]}),
    ],
)  # fmt: skip
def test_values_of_a_goal(values, expected):
    assert expand(values, {"peaks": ["Ash", "Bay"]}) == expected


def test_a_set_up_shows_the_value_among_others(small):
    for aim in small.aims["peaks"]:
        shown = setup(small, aim)["shown"]
        assert aim.word in shown and len(set(shown)) == 3 and set(shown) <= set(small.vocabularies["peaks"])
    assert len({setup(small, aim)["shown"].index(aim.word) for aim in small.aims["peaks"]}) > 1
    assert setup(small, small.aims["peaks"][0]) == setup(small, small.aims["peaks"][0])


def test_an_answer_is_the_value_or_its_last_part(small):
    ask = replace(
        small.goals[0], ask=True, values={"Ash": "9 m", "Bay": ["Bay", 4]}, solve=[{"click": "{v}"}]
    )
    assert [Aim(ask, word).answer for word in ask.values] == ["9 m", "4"]
    assert Aim(ask, "Bay").solution == [{"click": "Bay"}, {"answer": "4"}] and Aim(ask, "Bay").checks[0][
        "args"
    ] == ["4"]


# ---- the split -------------------------------------------------------------------------------------------


def test_where_a_task_belongs_depends_on_its_content_alone(small):
    """Not on wording, order of aims or the other values of the goal."""
    light, peak = small.aims["light"], small.aims["peaks"]
    for aim in light:
        assert region(small, [aim]) == region(small, [Aim(aim.goal, aim.word, wording=1)])
    for pair in zip(light, peak * 9, strict=False):
        assert region(small, pair) == region(small, pair[::-1])
    counts = Counter(region(small, [aim]) for aim in light)
    assert set(counts) == set(REGIONS) and counts["train"] > 0.5 * len(light)
    assert {region(small, [aim]) for aim in small.aims["grid"]} <= {
        "train",
        "test",
    }  # two values: the hash does not split them


def test_a_combination_belongs_where_its_aims_do(small):
    """Aims to be trained on alone: to the train region; with aims held out: to theirs, if it is one."""
    seen = set()
    for pair in itertools.product(small.aims["light"], small.aims["peaks"]):
        held_out = {region(small, [aim]) for aim in pair} - {"train"}
        found = region(small, pair)
        if small.is_committed(pair):  # a committed test task lights the map and queries a peak
            assert found is None
            continue
        seen.add((frozenset(held_out), found))
        assert found == (None if len(held_out) > 1 else held_out.pop() if held_out else "train")
    assert {found for _, found in seen} == {*REGIONS, None}


@pytest.mark.parametrize("app", SPACES)
def test_what_a_test_task_asks_is_in_the_test_region(app):
    task_space = space(app)
    tasks = {task.instruction for task in test_tasks(app)}
    asked = [aim for aims in task_space.aims.values() for aim in aims if sentence([aim]) in tasks]
    assert len(asked) > 0.8 * sum(task.grade in "AB" for task in test_tasks(app))
    assert {region(task_space, [aim]) for aim in asked} == {"test"}


@pytest.mark.parametrize("app", SPACES + REAL)
def test_a_space_is_large_varied_and_unambiguous(app):
    task_space, defaults = space(app), defaults_of(app)
    trained = {
        name: sum(region(task_space, [aim]) == "train" for aim in aims)
        for name, aims in task_space.aims.items()
    }
    assert sum(count >= 12 for count in trained.values()) >= len(trained) / 2, trained
    # goals of few values all of which a committed test task asks for, or has the script of
    assert {name for name, count in trained.items() if not count} == UNTRAINED.get(app, set())
    meanings: dict[str, set[str]] = {}
    for aims in task_space.aims.values():
        for aim in aims:
            for wording in range(len(aim.goal.wordings)):
                meanings.setdefault(sentence([Aim(aim.goal, aim.word, wording)]), set()).add(
                    content(task_space, [aim])
                )
    assert not [text for text, contents in meanings.items() if len(contents) > 1]
    count = 3000 if app in APPS else 500
    tasks = draw(task_space, "train", count, 0, defaults)
    assert (
        len({task.instruction for task in tasks})
        == len({(task.goal, task.instruction) for task in tasks})
        == count
    )
    assert {task.grade for task in tasks} == set("ABCD") and max(task.steps for task in tasks) <= 15
    assert len({json.dumps(task.settings, sort_keys=True) for task in tasks}) > 50


@pytest.mark.parametrize("app", SPACES)
def test_drawn_tasks_are_solved_by_their_scripts_and_not_by_doing_nothing(app):
    task_space, env = space(app), ScienceDesk(app)
    for name in REGIONS:
        for task in draw(task_space, name, 25, 5, env.desk.defaults):
            assert script.solve(env, task), task.instruction
            assert not script.idle(env, task), task.instruction
    env.close()


@pytest.mark.parametrize("app", SPACES)
def test_the_answers_of_questions_are_what_the_application_shows(app):
    task_space, env = space(app), ScienceDesk(app)
    asked = [
        (parts[-1], task)
        for parts, task in draw_with_aims(
            task_space, "train", 60, 6, env.desk.defaults, mix={"B": 0.5, "D": 0.5}
        )
        if task.ans
    ]
    assert asked
    for aim, task in asked:
        env.reset(task)
        for step in task.solution[:-1]:
            env.step(script.to_action(env.desk, step))
        assert str(env.desk.state()[aim.goal.fact]) == task.ans, task.instruction
    env.close()


# ---- drawing ---------------------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_tasks_and_another_one_others():
    task_space, defaults = space(SPACES[0]), desk_class(SPACES[0]).defaults
    assert draw(task_space, "train", 40, 3, defaults) == draw(task_space, "train", 40, 3, defaults)
    first, other = (
        {task.instruction for task in draw(task_space, "train", 40, seed, defaults)} for seed in (3, 4)
    )
    assert len(first & other) < 20


def test_a_region_with_too_few_tasks_is_one_message(small):
    with pytest.raises(
        UserError, match=r"the test region of gis has too few tasks: .* of grade B.*; ask for fewer"
    ):
        draw(small, "test", 5000, 0, desk_class("gis").defaults)
    with pytest.raises(UserError, match="unknown region 'trane': choose one of train, development, test"):
        draw(small, "trane", 5, 0, {})


def test_an_application_without_a_space_is_one_message():
    with pytest.raises(UserError, match=r"spectra has no task space: write .*spaces/spectra.yaml"):
        space("spectra")
    with pytest.raises(UserError, match="unknown application 'word'"):
        space("word")


# ---- files -----------------------------------------------------------------------------------------------


def test_a_drawn_set_survives_its_file(tmp_path):
    tasks = [task for app in SPACES for task in draw(space(app), "test", 10, 1, desk_class(app).defaults)]
    write_set(tmp_path / "set.json", "test", 1, tasks)
    assert read_set(tmp_path / "set.json") == tasks


def test_a_set_of_another_split_is_refused(tmp_path):
    tasks = draw(space("algebra"), "test", 4, 1, desk_class("algebra").defaults)
    write_set(tmp_path / "set.json", "test", 1, tasks)
    raw = json.loads((tmp_path / "set.json").read_text())
    (tmp_path / "set.json").write_text(json.dumps(raw | {"spaces": {"algebra": "0123456789abcdef"}}))
    with pytest.raises(
        UserError, match=r"another version of the task space of algebra \(0123456789abcdef, .*: draw it again"
    ):
        read_set(tmp_path / "set.json")


NO_SETS = [
    "",
    "[]",
    "{}",
    '{"spaces": {}, "tasks": [{}]}',
    '{"spaces": {}, "tasks": 3}',
    "[" * 100_000,
    "\x00",
]


@pytest.mark.parametrize("text", NO_SETS)
def test_a_file_that_is_no_set_is_one_message(tmp_path, text):
    (tmp_path / "set.json").write_text(text)
    with pytest.raises(UserError, match=r"set\.json"):
        read_set(tmp_path / "set.json")
    with pytest.raises(UserError, match="is a folder and no JSON file"):
        read_set(tmp_path)


def test_two_tasks_of_one_name_are_refused(tmp_path):
    tasks = draw(space("algebra"), "test", 2, 1, desk_class("algebra").defaults)
    write_set(tmp_path / "set.json", "test", 1, [*tasks, tasks[0]])
    with pytest.raises(UserError, match=f"set.json has two tasks of the name {tasks[0].id}"):
        read_set(tmp_path / "set.json")


def test_the_fingerprint_is_of_goals_values_and_regions(small, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(SMALL.replace("355", "350"))
    assert (
        read_space("gis", other).fingerprint
        != small.fingerprint
        == read_space("gis", tmp_path / "gis.yaml").fingerprint
    )


def test_no_goal_of_pymol_holds_from_the_start():
    """A new peptide is shown as sticks, and numbers have values of their own."""
    for aims in space("PyMOL").aims.values():
        for aim in aims:
            for item in aim.checks:
                name, _, key = str(item.get("key", "")).partition(".")
                assert name != "settings" or SETTINGS[key] != item["value"], aim.text
                assert name != "ways" or item["value"] != "sticks", aim.text


def test_every_file_of_a_space_is_of_an_application():
    assert {path.stem for path in (DATA / "tasks" / "spaces").glob("*.yaml")} == {*SPACES, *REAL}


def test_a_checkpoint_of_another_split_is_refused(tmp_path):
    assert check_split(tmp_path, "gis") is None  # one from elsewhere has no note
    write_split(tmp_path, ["algebra", "gis", "spectra"])
    assert check_split(tmp_path, "gis") is None
    write_json(tmp_path / SPLIT, read_json(tmp_path / SPLIT) | {"gis": "0123456789abcdef"})
    assert check_split(tmp_path, "algebra") is None
    with pytest.raises(UserError, match="another split of the task space of gis .*train it again"):
        check_split(tmp_path, "gis")


def test_a_planner_that_was_taught_by_another_split_of_goals_is_refused(tmp_path):
    check_knowledge(tmp_path, ["gis"], 1)  # one from elsewhere has no note
    write_split(tmp_path, ["gis", "algebra"], 1)
    check_knowledge(tmp_path, ["gis", "algebra"], 1)
    assert check_split(tmp_path, "gis") is None
    with pytest.raises(
        UserError, match=r"taught those of split 1 \(\w{16}\) of gis, .* those of split 2 \(\w"
    ):
        check_knowledge(tmp_path, ["gis"], 2)
    with pytest.raises(UserError, match="the profile explores every goal: set knowledge"):
        check_knowledge(tmp_path, ["gis"], None)
    write_split(tmp_path, ["gis"])
    check_knowledge(tmp_path, ["gis"], None)
    with pytest.raises(
        UserError, match="was taught every goal of gis, and the profile explores those of split"
    ):
        check_knowledge(tmp_path, ["gis"], 1)


def test_a_checkpoint_of_an_earlier_split_is_warned_of(tmp_path):
    """It held out the committed test tasks, and is refused in no evaluation on them."""
    write_json(tmp_path / SPLIT, {"gis": space("gis").earlier[0]})
    assert "may have learned some drawn tasks" in check_split(tmp_path, "gis")
