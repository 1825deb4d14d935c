"""Scoring judgments: as AgentRewardBench's own scorer does, on a folder with every trap; and strictly."""

from __future__ import annotations

import csv
import json

import pytest

from coda_lib.errors import UserError
from coda_lib.judge import JudgeScore
from coda_study.formats import judgments
from coda_study.formats.judgments import Problem, load_annotations, load_split, percent, read_judgment, score

JUDGE, AGENT = "qwen-2.5-vl-noaxtree", "GenericAgent-gpt-4o"


def reply(text: str | None) -> str:
    choices = [] if text is None else [{"message": {"role": "assistant", "content": text}}]
    return json.dumps({"judge": JUDGE, "response": {"choices": choices}})


def functional(reward: float) -> str:
    return json.dumps({"judge": "functional", "trajectory_info": {"summary_info": {"cum_reward": reward}}})


def said(label: str) -> str:
    return reply(f"<reasoning>because</reasoning>\n<success>{label}</success><loop>No</loop>")


# (task, label of people, file of the judgment or None, what the published scorer makes of it)
CASES = [
    ("webarena.1", "Successful", said("Successful"), True),
    ("webarena.2", "Successful", said(" 'successful' "), True),  # quotes and spaces do not count
    ("webarena.3", "Unsuccessful", said("Successful"), True),
    ("webarena.4", "Unsuccessful", said("Unsuccesful"), False),  # a spelling that it knows
    ("webarena.5", "Successful", said("Unsuccessful"), False),
    ("webarena.6", "Successful", reply("It was done well."), False),  # no tag: a "no" to the published scorer
    ("webarena.7", "Unsuccessful", reply("<success>"), False),
    ("webarena.8", "Successful", reply(None), None),  # no choices: left out
    ("webarena.9", "Unsuccessful", json.dumps({"response": None}), None),
    ("webarena.10", "Successful", None, None),  # no file: left out
    ("webarena.11", "Unsuccessful", "", None),  # an empty file
    ("webarena.12", "Successful", "{'not': 'JSON'}", None),
    ("webarena.13", "Unsuccessful", said("perhaps"), None),
    ("webarena.14", "Unsure", said("Successful"), None),  # in no figure
    ("workarena.servicenow.form-l2", "Successful", said("Successful"), True),
]


@pytest.fixture
def folder(tmp_path):
    """Write the cases, a second opinion that contradicts the first on two of them, and judgments that nobody
    annotated.
    """
    rows = [(task, label) for task, label, *_ in CASES]
    rows += [("webarena.1", "Unsuccessful"), ("webarena.14", "Successful")]
    with (tmp_path / "annotations.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow("annotator_name benchmark task_id model_name exp_name trajectory_success".split())
        writer.writerows(["A", task.split(".")[0], task, AGENT, "x", label] for task, label in rows)
    unknown = ("webarena.99", "", said("Successful"), None)
    for task, _, text, _ in [*CASES, unknown, ("webarena.10_error", "", '{"error": "refused"}', None)]:
        if text is not None:
            path = tmp_path / "judgments" / task.split(".")[0] / AGENT / JUDGE / f"{task}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return tmp_path


def test_each_trap_is_read_as_the_published_scorer_reads_it(folder):
    for task, _, _, reading in CASES:
        if task != "webarena.14":
            path = folder / "judgments" / task.split(".")[0] / AGENT / JUDGE / f"{task}.json"
            assert read_judgment(path, JUDGE)[0] is reading, task


def test_the_figures_are_the_benchmarks_and_the_strict_ones_beside_them(folder):
    annotations, repeated = load_annotations(folder / "annotations.csv")
    found = score(folder / "judgments", annotations, repeated)
    assert found.unsure == 1 and found.repeated == 2 and found.unknown == {JUDGE: 1}
    of = {one.benchmark: one for one in found.scores}
    assert list(of) == ["webarena", "workarena++", "all"] and len(of["workarena++"].judged) == 1
    whole = of["all"]
    assert whole.published == JudgeScore(trajectories=8, successes=5, true_positive=3, false_positive=1)
    # strict: the failures 7, 9, 11, 13 as accepted, the successes 6, 8, 10, 12 as refused
    assert whole.strict == JudgeScore(trajectories=14, successes=8, true_positive=3, false_positive=5)
    assert [share.value for share in whole.shares()] == [3 / 4, 3 / 5, 3 / 8, 3 / 8]
    unread = {"no verdict tag": 2, "no reply": 2, "missing": 1, "unreadable": 2, "unknown verdict": 1}
    assert whole.problems == unread
    assert whole.coverage == 6 / 14


def test_accuracy_f1_and_the_rest_are_those_of_the_published_scorer_for_each_agent(folder):
    """By hand, and checked with agent_reward_bench 0.1.2, eval/metrics.py: two of ten are read as neither yes
    nor no.
    """
    rows = (folder / "annotations.csv").read_text() + f"A,webarena,webarena.3,other-{AGENT},x,Successful\n"
    (folder / "annotations.csv").write_text(rows)
    path = folder / "judgments" / "webarena" / f"other-{AGENT}" / JUDGE / "webarena.3.json"
    path.parent.mkdir(parents=True)
    path.write_text(said("Unsuccessful"))
    found = score(folder / "judgments", load_annotations(folder / "annotations.csv")[0])
    of = {(one.benchmark, one.agent): one.published_figures() for one in found.scores}
    assert set(of) == {*((b, a) for b in ("webarena", "all") for a in (AGENT, f"other-{AGENT}", "all")),
                       ("workarena++", AGENT), ("workarena++", "all")}  # fmt: skip
    # 3 right accepted, 2 right refused, 1 wrong accepted, 2 wrong refused, 2 neither
    assert of["all", AGENT] == {
        "total": 10, "accuracy": 50.0, "precision": 75.0, "recall": 60.0, "npv": 50.0, "tnr": 50.0,
        "f1": 66.7,
    }  # fmt: skip
    assert of["all", f"other-{AGENT}"] == dict(total=1, accuracy=0, precision=0, recall=0, npv=0, tnr=0, f1=0)
    assert of["all", "all"]["total"] == 11 and of["all", "all"]["f1"] == 60.0


def test_only_a_split_counts(folder):
    (folder / "splits.csv").write_text("task_id,split\nwebarena.1,dev\nwebarena.3,test\nwebarena.5,test\n")
    annotations, _ = load_annotations(folder / "annotations.csv")
    *_, whole = score(folder / "judgments", annotations, 0, load_split(folder / "splits.csv", "test")).scores
    assert whole.published == JudgeScore(trajectories=2, successes=1, true_positive=0, false_positive=1)
    with pytest.raises(UserError, match="no split 'train': choose one of dev, test"):
        load_split(folder / "splits.csv", "train")


@pytest.mark.parametrize(
    ("judge", "text", "expected"),
    [
        ("functional", functional(1.0), (True, None)),
        ("functional", functional(0.5), (False, None)),
        ("functional", json.dumps({"judge": "functional"}), (None, Problem.UNREADABLE)),
        ("aer", reply("Thoughts: fine\nStatus: success"), (True, None)),
        ("aerv", reply("Thoughts: fine\nStatus: failure"), (False, None)),
        ("aer", reply("Thoughts: fine"), (False, Problem.NO_TAG)),
        ("nnetnav", reply("Thought: good\nReward: 4"), (True, None)),
        ("nnetnav", reply("Thought: fair\nReward: 3"), (False, None)),
        ("nnetnav", reply("Thought: fair"), (False, Problem.NO_TAG)),
        # the mark 1 of another question, to the published scorer
        (JUDGE, said("1. Complete Failure"), (True, Problem.UNKNOWN)),
        (JUDGE, said("2. Suboptimal"), (None, Problem.MARK)),  # the marks 2 to 4: neither yes nor no there
        (JUDGE, said("Somewhat successful"), (None, Problem.MARK)),
        (JUDGE, "[1, 2]", (None, Problem.UNREADABLE)),
        (JUDGE, reply("x").replace('"x"', "null"), (None, Problem.UNREADABLE)),
        (JUDGE, "[" * 100_000, (None, Problem.UNREADABLE)),
    ],
)
def test_each_kind_of_judge_is_read_in_its_form(tmp_path, judge, text, expected):
    (tmp_path / "x.json").write_text(text)
    assert read_judgment(tmp_path / "x.json", judge) == expected


def test_a_judge_that_calls_nothing_successful_has_precision_zero_of_none(tmp_path):
    (tmp_path / "a.csv").write_text("benchmark,model_name,task_id,trajectory_success\nb,m,t,Unsuccessful\n")
    path = tmp_path / "j" / "b" / "m" / JUDGE / "t.json"
    path.parent.mkdir(parents=True)
    path.write_text(said("Unsuccessful"))
    *_, whole = score(tmp_path / "j", load_annotations(tmp_path / "a.csv")[0]).scores
    assert whole.published.precision is None and whole.published.recall is None and whole.coverage == 1
    figures = judgments.record(score(tmp_path / "j", load_annotations(tmp_path / "a.csv")[0]))["scores"][-1]
    assert (figures["precision"], figures["recall"], figures["true_negative"]) == (0.0, 0.0, 1)
    assert {percent(share) for share in whole.shares()} == {"0.0 (of none)"}


HEAD = "benchmark,model_name,task_id,trajectory_success"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task_id,benchmark\n", "no column model_name, trajectory_success"),
        (f"{HEAD}\nb,m,t,\n", "line 2: trajectory_success is '', which is no label"),
        (f"{HEAD}\nb,m,t,Yes\nb,m,u,Maybe\n", "line 3: trajectory_success is 'Maybe'"),
    ],
)
def test_annotations_that_cannot_be_used_are_named(tmp_path, text, message):
    (tmp_path / "annotations.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        load_annotations(tmp_path / "annotations.csv")


def test_the_command_prints_both_and_counts_what_it_left_out(folder, coda):
    annotations = ("--annotations", str(folder / "annotations.csv"))
    words = ["judge", "score", "--judgments", str(folder / "judgments"), *annotations]
    code, shown, _ = coda(*words)
    assert code == 0
    assert "75.0 [30.1, 95.4]" in shown and "37.5 [13.7, 69.4]" in shown and "missing 1" in shown
    table = shown[shown.index("As the published scorer") :].splitlines()
    assert table[1].split() == "judge benchmark agent n accuracy precision recall F1 NPV TNR".split()
    assert table[4].split() == f"{JUDGE} all all 10 50.0 75.0 60.0 66.7 50.0 50.0".split()
    assert AGENT not in shown
    assert f"{JUDGE}  all          {AGENT}  10" in coda(*words, "--agents")[1]
    assert "not used: 1 trajectories that people are unsure of, 2 further annotations" in shown
    code, shown, _ = coda(*words, "--json")
    figures = json.loads(shown)["scores"][-1]
    assert code == 0 and (figures["precision"], figures["recall"], figures["coverage"]) == (75.0, 60.0, 42.9)
    assert (figures["agent"], figures["accuracy"], figures["f1"]) == ("all", 50.0, 66.7)
    assert coda(*words, "--split", "test")[0] == 2
    code, _, error = coda("judge", "score", "--judgments", str(folder / "none"), *words[4:])
    assert code == 2 and "no judgments under" in error
