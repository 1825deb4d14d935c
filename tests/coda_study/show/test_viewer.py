"""The viewer: what it collects, and its page in real browsers."""

from __future__ import annotations

import io
import json
import random
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from inspect import signature

import pandas as pd
import pytest
from browsers import browser, installed
from hostile_text import HOSTILE, TOKEN
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from tiny_models import NO, YES, made_up

from coda_lib.action import Action, ActionType
from coda_lib.agent import ScriptAgent
from coda_lib.applications import APPS
from coda_lib.config import SYSTEMS, load_profile
from coda_lib.files import sha256, write_json, write_table
from coda_lib.judge import Verdict, format_verdict
from coda_lib.paths import TASKS, display
from coda_lib.reward import similarity
from coda_lib.rollout import episodes as rows_of
from coda_lib.rollout import rollout
from coda_lib.task import Task, load_task
from coda_lib.trajectory import StopReason, Trajectory, encode_image, save_trajectories
from coda_study.cli.view import view as view_command
from coda_study.evaluation import (
    compare_rules,
    comparisons,
    decide_claims,
    judge_table,
    load_claims,
    load_episodes,
    load_table2_votes,
    load_votes,
    save_results,
    table1,
    table2,
    table2_rules,
    table_settings,
    voting_rules,
)
from coda_study.evaluation.replay import without_screens
from coda_study.evaluation.votes import votes_of
from coda_study.formats import convert
from coda_study.run import Run
from coda_study.show.viewer import Evidence, page, read_logs, read_run, write_folder, write_page
from coda_study.show.viewer.pictures import Pictures
from coda_study.show.viewer.sources import TRAIN_TASKS
from sciencedesk.env import ScienceDesk
from sciencedesk.perturb import perturbed
from sciencedesk.script import read_step

BROWSERS = [
    pytest.param(
        name, marks=pytest.mark.skipif(not installed(name), reason=f"{name} and its driver are not installed")
    )
    for name in ("chromium", "firefox")
]
VOTES = (YES, NO, format_verdict(Verdict(True, (1,))), "no verdict")


def attempt(app: str, name: str, run: int, planner: str, chance: random.Random, **changes) -> Trajectory:
    """A made-up episode of one to three steps with a random outcome."""
    acts = [
        ("Click 'Grid'.", Action.click(chance.random(), 0.5)),
        ("Type it.", Action.type_text("x")),
        ("DONE", Action.done()),
    ]
    number = chance.randrange(20)
    return replace(
        made_up(number, acts[-chance.randint(1, 3) :], verdicts=()), task_id=f"{app}/{name}", app=app,
        run=run, planner=planner,
        instruction=f"do {name}", success=chance.random() < 0.4, **changes,
    )  # fmt: skip


@pytest.fixture(scope="session")
def study(tmp_path_factory) -> Run:
    """A finished run of made-up episodes, with its tables and its report."""
    here, chance = Run(str(tmp_path_factory.mktemp("results") / "study")), random.Random(3)
    profile = load_profile("smoke", ("judge.votes=4", "bootstrap_resamples=50"))
    here.store(profile)
    for app in APPS:
        tasks = [
            Task(f"{app}/{name}", app, "A", f"do {name}", 5, (), ()) for name in ("X-01", "X-02", "X-03")
        ]
        for system in SYSTEMS:
            played = [attempt(app, task.id[-4:], run, system, chance) for task in tasks for run in range(2)]
            write_table(here.evaluation(system, app), rows_of(played, tasks, system, 7))
            write_table(here.greedy(system, app), rows_of([t for t in played if not t.run], tasks, system, 7))
            save_trajectories(here.trajectories(system, app), played)
        mixed = list(played)
        for planner in ("base", "specialist"):
            tried = [
                attempt(app, f"{planner}-{n}", run, planner, chance) for n in range(3) for run in range(2)
            ]
            judged = [replace(t, verdicts=tuple(chance.choices(VOTES, (6, 1, 2, 1), k=4))) for t in tried]
            save_trajectories(here.judged(planner, app), judged)
            mixed += judged
        sizes = {"judge": 4, "low": 2, "base": 2}
        votes = [votes_of([replace(t, verdicts=tuple(chance.choices(VOTES, (6, 1, 2, 1),
        k=k))) for t in mixed], name)
                 for name, k in sizes.items()]  # fmt: skip
        write_table(here.judges(app), pd.concat(votes, ignore_index=True))
    setup, how = table_settings(profile), (profile.bootstrap_resamples, 7)
    episodes, mix, own = load_episodes(here), load_table2_votes(here), load_votes(here)
    tables = table1(episodes, **setup), comparisons(episodes, SYSTEMS, *how, **setup)
    greedy = table1(load_episodes(here, of="greedy"), **setup)
    claims = decide_claims(
        load_claims(), episodes, mix, table2_rules(profile.judge), SYSTEMS, APPS, *how, setup["provenance"]
    )
    rules = voting_rules(profile.judge)
    judge = [
        judge_table(own[own["planner"] == planner], rules[-1]).assign(planner=planner)
        for planner in ("base", "specialist")
    ]
    shares = {"judge": pd.concat(judge), "votes": compare_rules(own, rules), "table2": table2(mix, profile)}
    save_results(here, *tables, claims, greedy=greedy, **shares)
    page.write_run_page(here)
    return here


@pytest.fixture(scope="session", params=BROWSERS)
def shown(request, tmp_path_factory):
    with browser(request.param, tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def complaints(shown, folder) -> list[str]:
    """What the page asked for outside of this folder, and what the browser complained of."""
    return [
        *(url for url in shown.requests if not url.startswith(("data:", "about:", folder.as_uri()))),
        *shown.errors,
    ]


def later(shown, value: str) -> object:
    """The value of an expression when the pictures are drawn."""
    return shown.run(f"new Promise((done) => setTimeout(() => done({value}), 500))")


# ---- in browsers -----------------------------------------------------------------------------------------

READ = """(async (links) => {
  const found = [];
  for (const link of links) {
    const moved = new Promise((done) => addEventListener('hashchange', done, { once: true }));
    if (location.hash !== link) { location.hash = link; await moved; }
    const named = [...document.querySelectorAll('[data-name]')];
    const values = Object.fromEntries(named.map((one) => [one.dataset.name, one.innerText]));
    found.push({ heading: document.querySelector('h1')?.innerText, values });
  }
  return found;
})(%s)"""


def number(text: str) -> float:
    return float(text.partition(" ")[0].replace("−", "-").replace(",", ""))


@pytest.mark.slow
def test_every_linked_cell_of_the_report_is_what_its_episodes_give(study, shown):
    cells = [(unescape(link), unescape(text)) for link, text in
             re.findall(r'<td><a href="view\.html(#[^"]+)">([^<]*)</a>',
             study.report.read_text())]  # fmt: skip
    shown.open(study.view)
    counted = 0
    links = list(dict.fromkeys(link for link, _ in cells))
    parts = [links[i : i + 20] for i in range(0, len(links), 20)]
    read = [seen for part in parts for seen in shown.run(READ % json.dumps(part))]
    seen_at = dict(zip(links, read, strict=True))
    for link, text in cells:
        values, heading = seen_at[link]["values"], seen_at[link]["heading"]
        if "metric=" in link and link.startswith("#/episodes"):
            expected = [values[re.search(r"metric=(\w+)", link)[1].lower()]]
        elif link.startswith("#/episodes"):  # of a rule: its cell is one of those shown
            assert not re.search("judge=|outcome=", link) or heading.partition(" ")[0].isdigit()
            expected = list(values.values())
        else:
            expected = [values["difference"]]
        distances = [abs(number(text) - number(value)) for value in expected if value != "–"]
        assert any(distance < 0.0501 for distance in distances), (link, text, expected)
        counted += 1
    assert counted > 200  # Table 1, beside the paper, differences, greedy, claims, Table 2, votes, the judge
    assert complaints(shown, study.folder) == []


def test_it_is_walked_through_by_keyboard(study, shown):
    shown.open(study.view, "#/episodes?set=test&system=stage2&app=gis")
    assert shown.text("h1") == "6 episodes"
    shown.press("ArrowDown", "ArrowDown", "Enter")
    second = "#/episode?set=test&system=stage2&task=gis%2FX-01&run=1"
    assert shown.run("location.hash") == second and "1 of" in shown.text(".where")
    shown.press("ArrowRight")
    assert shown.run("location.hash") == f"{second}&step=2"
    shown.press("ArrowDown")
    assert "task=gis%2FX-02&run=0" in shown.run("location.hash")
    shown.press("Escape")
    assert shown.run("location.hash") == "#/episodes?set=test&system=stage2&app=gis"
    shown.press("/", "X", "-", "0", "3")
    assert shown.text("h1") == "2 episodes" and shown.run("document.activeElement.type") == "search"
    assert complaints(shown, study.folder) == []


def test_a_step_two_sides_and_every_view_open_by_their_address(study, shown):
    shown.open(
        study.view,
        "#/compare?task=gis/X-01&set=test&system=base&run=0&set2=test&system2=stage2&run2=1&step=1",
    )
    assert shown.run("document.querySelectorAll('.sides .screen').length") == 2
    assert later(shown, "document.querySelector('.screen canvas').width") == 84
    shown.go("#/episode?set=train&system=base&task=gis/base-1&run=0&step=99")
    assert shown.text(".where") == "the end"
    assert "Votes of the run's judge" in shown.run("document.body.textContent")
    for view in ("episodes", "difference", "judges", "groups", "reward", "about", "nonsense?x=%"):
        shown.go(f"#/{view}")
        assert shown.text("main")
        unnamed = "(one) => !(one.innerText || one.ariaLabel || one.labels?.length)"
        controls = f"[...document.querySelectorAll('button, select, input, a')].filter({unnamed})"
        assert shown.run(f"{controls}.map((one) => one.outerHTML)") == []
    assert complaints(shown, study.folder) == []


def test_hostile_text_does_nothing(shown, tmp_path):
    text = "".join(HOSTILE)
    names = ("task_id", "app", "instruction", "planner", "answer")
    played = []
    for i, hostile in enumerate(HOSTILE):
        steps = tuple(replace(step, plan=text, reply=text, error=hostile) for step in made_up(i).steps)
        fields = dict.fromkeys(names, hostile) | {"steps": steps, "verdicts": (hostile,)}
        played.append(replace(made_up(i), **fields, stop=StopReason.ANS))
    save_trajectories(tmp_path / "logs.parquet", played)
    evidence = Evidence(text, lacks=HOSTILE, about=[(text, text)])
    read_logs(tmp_path / "logs.parquet", evidence)
    evidence.labels[HOSTILE[0]] = text
    shown.open(write_page(evidence, tmp_path / "view.html"))
    assert shown.run("document.querySelectorAll('.entry').length") == len(HOSTILE)
    for i in range(0, len(HOSTILE), 5):
        shown.go("#/episodes")
        shown.run(f"document.querySelectorAll('.entry')[{i}].click()")
        assert "Plan" in later(shown, "document.querySelector('main').textContent")
    shown.go("#/about")
    shown.go(f"#/episodes?system={HOSTILE[0]}&text={HOSTILE[1]}")
    assert shown.run(f"document.documentElement.hasAttribute('data-{TOKEN}')") is False
    assert shown.run("document.querySelectorAll('main script, main iframe, main style').length") == 0
    assert complaints(shown, tmp_path) == []


def test_the_policy_of_the_page_stops_what_is_not_its_own(shown, tmp_path, study):
    strange = (
        "<script>document.documentElement.dataset.strange = 1</script>"
        "<img src='http://127.0.0.1:9/x.png'></body>"
    )
    (tmp_path / "view.html").write_text(study.view.read_text().replace("</body>", strange))
    shown.open(tmp_path / "view.html")
    assert shown.run("document.documentElement.dataset.strange ?? null") is None


def test_a_folder_shows_the_same_pictures(shown, tmp_path, study):
    evidence = Evidence("study")
    read_run(study, evidence, ["gis"])
    shown.open(
        write_folder(evidence, tmp_path / "folder"), "#/episode?set=test&system=base&task=gis/X-01&run=0"
    )
    assert later(shown, "document.querySelector('.screen canvas').width") == 84
    assert complaints(shown, tmp_path) == []
    assert write_folder(evidence, tmp_path / "folder").is_file()  # once more, in the place of the first


def test_the_reward_of_the_page_is_that_of_the_kit(shown):
    chance = random.Random(5)
    share = lambda: round(chance.random(), 3)  # noqa: E731
    make = {
        ActionType.CLICK: lambda: Action.click(share(), share()),
        ActionType.DRAG: lambda: Action.drag(share(), share(), share(), share()),
        ActionType.SCROLL: lambda: Action.scroll(share(), share(), chance.choice(["up", "down"])),
        ActionType.TYPE: lambda: Action.type_text("".join(chance.choices("abπ", k=chance.randint(0, 5)))),
        ActionType.HOTKEY: lambda: Action.hotkey(" ".join(chance.sample(["ctrl", "shift", "a", "b"], 2))),
        ActionType.WAIT: Action.wait,
    }  # fmt: skip
    kinds = list(make)
    pairs = [(make[a](), make[b]()) for a in kinds for b in (*kinds, *[a] * 20)]
    pairs += [(Action.drag(0.5, 0.5, 0.5, 0.5),) * 2]
    plain = [[{k: v for k, v in vars(one).items() if v is not None} for one in pair] for pair in pairs]
    reach = [chance.choice([0.4, 2]) for _ in pairs]
    script = (page.WEB / "reward.js").read_text()
    cases = json.dumps([[*pair, r] for pair, r in zip(plain, reach, strict=True)])
    found = shown.run(f"(() => {{ {script}\nreturn {cases}.map((one) => similarity(...one)); }})()")
    expected = [similarity(a, b, r) for (a, b), r in zip(pairs, reach, strict=True)]
    assert found == pytest.approx(expected, abs=1e-9)


def test_the_reward_of_the_page_begins_with_the_reach_of_the_run(shown, study):
    evidence = Evidence("x")
    read_run(study, evidence)
    assert evidence.reach == study.profile().specialize.reach
    evidence.reach = 0.7
    shown.open(write_page(evidence, study.view), "#/reward")
    assert shown.text("main").count("reach (of the run: 0.7)") == 1


def test_the_scripts_make_no_markup_of_text():
    script = "".join(path.read_text() for path in page.WEB.glob("*.js"))
    markup = (
        r"(inner|outer)HTML|insertAdjacentHTML|createContextualFragment|document\.write|eval\(|Function\("
    )
    assert not re.search(markup, script)
    assert "</script" not in script and not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script)


# ---- what is collected -----------------------------------------------------------------------------------


def test_a_run_is_collected_whole(study):
    evidence = Evidence("study")
    read_run(study, evidence)
    count = pd.Series([episode["set"] for episode in evidence.episodes]).value_counts().to_dict()
    assert count == {"test": 4 * 4 * 6, "greedy": 4 * 4 * 3, "train": 4 * 2 * 6}
    mixed = [episode for episode in evidence.episodes if "mix" in episode.get("judged", {})]
    assert len(mixed) == 4 * 18 and all(len(episode["judged"]["mix"]) == 5 for episode in mixed)
    assert evidence.rules["mix"][2] == evidence.standard["mix"] == "voting@4"
    assert evidence.lacks == ["run study: the test tasks have changed since: their texts and checks are not "
                              "shown where the run has not kept them",
                              "run study: no GRPO groups of stage 1"]  # fmt: skip


def test_of_many_train_episodes_a_page_shows_some_step_by_step_and_says_so(study, tmp_path):
    evidence, everything = Evidence("some"), Evidence("all")
    read_run(study, evidence, train_tasks=1)
    read_run(study, everything, train_tasks=None)
    train = [episode for episode in evidence.episodes if episode["set"] == "train"]
    assert list(Counter((one["system"], one["app"]) for one in train if "steps" in one).values()) == [2] * 8
    assert len(train) == 4 * 2 * 6 and all(
        "success" in one and "instruction" in one and "count" in one for one in train
    )
    assert "run study: 32 train episodes are listed without screens, plans and actions; "\
           "`coda view study --train-tasks -1` shows all of them" in evidence.lacks  # fmt: skip
    assert not any("train episodes" in text for text in everything.lacks)
    assert len(evidence.pictures) < len(everything.pictures)
    assert signature(view_command).parameters["train_tasks"].default == TRAIN_TASKS


def test_a_run_that_keeps_outcomes_says_what_it_lacks(study, tmp_path):
    bare = Run(str(tmp_path / "bare"))
    bare.store(study.profile())
    for system in SYSTEMS:
        write_table(bare.evaluation(system, "gis"), pd.read_parquet(study.evaluation(system, "gis")))
    evidence = Evidence("bare")
    read_run(bare, evidence)
    assert {episode["set"] for episode in evidence.episodes} == {"test"} and len(evidence.pictures) == 0
    words = " ".join(evidence.lacks)
    assert "of 24 test episodes only the outcome is here, without screens, plans and actions" in words
    assert "no train episodes" in words and "no votes" in words


@pytest.fixture
def bare(tmp_path) -> Run:
    """A run on a real application as it is committed: one episode with its screens, three as plans and
    actions.
    """
    run, chance = Run(str(tmp_path / "bare")), random.Random(3)
    run.store(load_profile("smoke", ("apps=[PyMOL]",)))
    tasks = [Task(f"PyMOL/{name}", "PyMOL", "A", f"do {name}", 5, (), ()) for name in ("X-01", "X-02")]
    played = [attempt("PyMOL", task.id[-4:], number, "base", chance) for task in tasks for number in range(2)]
    write_table(run.evaluation("base", "PyMOL"), rows_of(played, tasks, "base", 7))
    save_trajectories(run.trajectories("base", "PyMOL"), played[:1])
    save_trajectories(run.actions("base", "PyMOL"), [without_screens(trajectory) for trajectory in played])
    return run


def test_of_a_real_application_plans_and_actions_are_shown_where_its_screens_are_not_kept(bare):
    evidence = Evidence("bare")
    read_run(bare, evidence)
    assert [episode["final"] is None for episode in evidence.episodes] == [False, True, True, True]
    steps = [step for episode in evidence.episodes[1:] for step in episode["steps"]]
    assert all(step["plan"] and step["picture"] is None for step in steps)
    assert "of 3 test episodes plans and actions are here, without screens" in " ".join(evidence.lacks)
    assert "only the outcome" not in " ".join(evidence.lacks)


def test_a_step_without_its_screen_says_so(bare, shown):
    evidence = Evidence("bare")
    read_run(bare, evidence)
    last = next(episode for episode in evidence.episodes[1:] if "x" in episode["steps"][0]["actions"][0])
    shown.open(
        write_page(evidence, bare.view),
        f"#/episode?task={last['task']}&set=test&system=base&run={last['run']}&step=1",
    )
    assert shown.text(".screen") == "This screen is not kept."
    assert shown.text(".plan") == last["steps"][0]["plan"]
    assert re.search(r"\(\d+ %, 50 %\)", shown.text(".said"))
    first = evidence.episodes[0]
    shown.go(f"#/episode?task={first['task']}&set=test&system=base&run=0&step=1")
    assert later(shown, "document.querySelector('.screen canvas').width") == 84
    shown.go(f"#/reward?task={last['task']}&set=test&system=base&run={last['run']}&step=1")
    assert "No episode of this page has screens" in shown.text("main")
    shown.go("#/episodes")
    assert "no screens" in shown.text("main")
    assert complaints(shown, bare.folder) == []


@pytest.mark.parametrize("form", ["coda", "scienceboard", "osworld", "agentrewardbench"])
def test_logs_of_other_projects_are_read(form, tmp_path):
    save_trajectories(tmp_path / "ours.parquet", [made_up(1), made_up(2)])
    convert(tmp_path / "ours.parquet", tmp_path / "logs", form)
    evidence = Evidence("logs")
    read_logs(tmp_path / "logs", evidence)
    assert [len(episode["steps"]) for episode in evidence.episodes] == [2, 2]
    assert {episode["system"] for episode in evidence.episodes} == {"script"} and len(evidence.pictures) == 6


boxes = st.lists(st.tuples(*[st.integers(0, 40)] * 4, st.integers(0, 255)), max_size=3)


@given(st.lists(boxes, min_size=1, max_size=6))
def test_patches_give_back_every_pixel(drawn):
    pictures, originals = Pictures(), []
    for rectangles in drawn:
        originals.append(Image.new("RGB", (40, 30), "white"))
        for x, y, width, height, colour in rectangles:
            ImageDraw.Draw(originals[-1]).rectangle((x, y, x + width, y + height), (colour, 9, 200))
    numbers = [pictures.add(encode_image(picture), "gis") for picture in originals]
    for number_, original in zip(numbers, originals, strict=True):
        packed = pictures.packed[number_]
        shown = Image.open(io.BytesIO(packed.content)).convert("RGB")
        if packed.base is not None:
            assert pictures.packed[packed.base].base is None
            whole = Image.open(io.BytesIO(pictures.packed[packed.base].content)).convert("RGB")
            whole.paste(shown, (packed.left, packed.top))
            shown = whole
        assert shown.tobytes() == original.tobytes()


# ---- the command -----------------------------------------------------------------------------------------


def test_the_command_writes_a_page_into_the_run(study, coda, monkeypatch):
    code, printed, _ = coda("view", str(study.folder))
    assert code == 0 and "192 episodes, 144 of them step by step" in printed and "no GRPO groups" in printed
    monkeypatch.setattr(page, "LARGEST", 0)
    assert coda("view", str(study.folder))[0] == 0 and any((study.folder / "view").iterdir())
    monkeypatch.undo()
    assert coda("view", str(study.folder))[0] == 0 and not (study.folder / "view").exists()


def test_two_runs_are_shown_on_one_page(study, coda, tmp_path):
    sources = str(study.folder), str(study.trajectories("base", "gis"))
    code, printed, _ = coda("view", *sources, "--app", "gis", "--save", str(tmp_path / "x.html"))
    assert code == 0 and "54 episodes" in printed and (tmp_path / "x.html").is_file()


@pytest.mark.parametrize(
    ("words", "fault"),
    [(("nowhere",), "unknown run"), (("RUN", "--app", "excel"), "unknown application"), (("NOTES",),
     "is no Parquet file"),
     (("RUN", "--save", "FULL"), "name another folder"), (("RUN", "--save", "FULL/mine.txt"),
      "and no folder")],
)  # fmt: skip
def test_what_cannot_be_shown_is_one_error(words, fault, study, coda, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    full = tmp_path / "full"
    places = {"RUN": str(study.folder), "NOTES": str(full / "mine.txt"), "FULL": str(full)}
    words = [re.sub("RUN|NOTES|FULL", lambda found: places[found[0]], word) for word in words]
    code, _, message = coda("view", *words)
    assert code == 2 and fault in message and (tmp_path / "full" / "mine.txt").read_text() == "mine"


def test_of_a_perturbed_run_each_episode_shows_what_it_was_asked(tmp_path) -> None:
    run = Run(str(tmp_path / "perturbed"))
    task = load_task(path := TASKS / "test" / "algebra" / "B-02.json")
    starts = {number: perturbed(task, number, "test") for number in range(3)}
    played = []
    for number, start in starts.items():
        attempted = attempt("algebra", start.id[-4:], number, "base", random.Random(1))
        played.append(replace(attempted, instruction=start.instruction))
    run.store(load_profile("smoke", ("apps=[algebra]", "perturb=true")))
    write_json(run.manifest, {"inputs": {display(path): sha256(path)}})
    write_table(run.evaluation("base", "algebra"), rows_of(played, [task], "base", 7))
    save_trajectories(run.trajectories("base", "algebra"), played)
    read_run(run, evidence := Evidence("one"))
    asked = {one["run"]: evidence.tasks[one["asked"]] for one in evidence.episodes if one["set"] == "test"}
    assert {number: about["answer"] for number, about in asked.items()} == {
        n: s.ans for n, s in starts.items()
    }
    assert len({*(start.ans for start in starts.values()), task.ans}) == 4
    assert all(f"ends with ANS: {start.ans}" in asked[number]["checks"] for number, start in starts.items())


def test_episodes_that_are_kept_without_screens_are_played_again(tmp_path) -> None:
    kept, bare = Run(str(tmp_path / "kept")), Run(str(tmp_path / "bare"))
    paths = sorted((TASKS / "test" / "algebra").glob("*.json"))[:3]
    tasks = [load_task(path) for path in paths]
    agent = ScriptAgent({task.instruction: task.solution for task in tasks}, read_step)
    played = rollout(agent, [(task, 0) for task in tasks], lambda: ScienceDesk("algebra"), seed=1)
    for run in (kept, bare):
        run.store(load_profile("smoke", ("apps=[algebra]",)))
        write_json(run.manifest, {"inputs": {display(path): sha256(path) for path in paths}})
        write_table(run.evaluation("base", "algebra"), rows_of(played, tasks, "base", 7))
    save_trajectories(kept.trajectories("base", "algebra"), played)
    save_trajectories(bare.actions("base", "algebra"), [without_screens(t) for t in played])
    pages = [Evidence("one"), Evidence("one")]
    for run, evidence in zip((kept, bare), pages, strict=True):
        read_run(run, evidence)
    assert pages[0].episodes == pages[1].episodes and pages[0].pictures.packed == pages[1].pictures.packed
    assert "drawn again from the actions of 3 episodes" in dict(pages[1].about)["screens of bare"]
    assert not any("screens are drawn" in text for text in pages[1].lacks)
    write_json(bare.manifest, {"inputs": {display(path): "another" for path in paths}})
    read_run(bare, changed := Evidence("changed"))
    assert any("3 episodes left out" in text for text in changed.lacks)
