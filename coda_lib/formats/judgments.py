"""AgentRewardBench's folders: judgments scored as that benchmark scores them, and more strictly beside it.

Layout (github.com/McGill-NLP/agent-reward-bench, scripts/score_judgments.py, eval/metrics.py, judge/): one reply of a judge is
`JUDGMENTS/{benchmark}/{agent}/{judge}/{task_id}.json`; people's labels are rows of annotations.csv.  The published scorer drops a
trajectory whose judgment is missing or has no reply, and takes a reply without a verdict for a "no"; so a judge that fails
often can look better than it is.  Here such replies are counted, and the strict figures take each for a wrong verdict.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coda_lib.errors import UserError
from coda_lib.evaluation.statistics import wilson
from coda_lib.files import write_json, write_text
from coda_lib.judge import VerdictError, parse_verdict

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("benchmark", "model_name", "task_id", "trajectory_success")
YES, NO = ("successful", "yes", "success"), ("unsuccessful", "no", "failure", "unsuccesful")  # the last is the benchmark's own
ALL = "all"


class Problem(StrEnum):
    """Why a judgment holds no verdict."""

    MISSING = "missing"  # no file
    UNREADABLE = "unreadable"  # an empty file, no JSON, or not of the benchmark's form; the published scorer stops there
    NO_REPLY = "no reply"  # the model gave none: left out by the published scorer
    NO_TAG = "no verdict tag"  # a reply without a verdict: "failure" to the published scorer
    UNKNOWN = "unknown verdict"  # a verdict in words that are not the benchmark's; the published scorer stops there


@dataclass(frozen=True)
class Annotation:
    """What people say of a trajectory; `success` is None where they are unsure."""

    benchmark: str
    agent: str
    task_id: str
    success: bool | None

    @property
    def group(self) -> str:
        """The benchmark as the published tables name it: WorkArena's second level is WorkArena++."""
        return "workarena++" if self.benchmark == "workarena" and "l2" in self.task_id.lower() else self.benchmark


class Judged(NamedTuple):
    """A trajectory: people's label, the published scorer's reading of the judgment (None: neither yes nor no), its problem."""

    success: bool
    reading: bool | None
    problem: Problem | None


@dataclass(frozen=True)
class Score:
    """A judge against people.  Counts are trajectories; those that people are unsure of are not among them."""

    judge: str
    benchmark: str
    judged: tuple[Judged, ...]

    def count(self, success: bool, reading: bool) -> int:
        """Trajectories with this label that the published scorer reads so."""
        return sum(j.success == success and j.reading is reading for j in self.judged)

    @property
    def problems(self) -> dict[str, int]:
        return dict(Counter(str(j.problem) for j in self.judged if j.problem))

    @property
    def coverage(self) -> float:
        """Share of the labelled trajectories with a verdict."""
        return sum(j.problem is None for j in self.judged) / len(self.judged) if self.judged else 0.0

    @property
    def precision(self) -> tuple[int, int]:
        """(rightly called successful, called successful), as published."""
        right = self.count(True, True)
        return right, right + self.count(False, True)

    @property
    def recall(self) -> tuple[int, int]:
        """(rightly called successful, successful and called anything), as published."""
        right = self.count(True, True)
        return right, right + self.count(True, False)

    @property
    def strict_precision(self) -> tuple[int, int]:
        """As `precision`, but a failure without a verdict counts as called successful."""
        wrong = sum(not j.success and (j.reading is True or j.problem is not None) for j in self.judged)
        return self._right(), self._right() + wrong

    @property
    def strict_recall(self) -> tuple[int, int]:
        """As `recall`, but a success without a verdict counts as not found."""
        return self._right(), sum(j.success for j in self.judged)

    def _right(self) -> int:
        return sum(j.success and j.reading is True and j.problem is None for j in self.judged)


@dataclass(frozen=True)
class Scores:
    """All that is found in a folder of judgments, and what was not used."""

    scores: tuple[Score, ...]
    unsure: int  # annotations
    repeated: int  # annotations of a trajectory that has one; the first counts
    unknown: dict[str, int]  # judge -> judgments of trajectories that nobody has annotated


def load_annotations(path: Path) -> tuple[list[Annotation], int]:
    """The first row of each trajectory in annotations.csv, and how many further rows there are.

    UserError names file, line and what is wrong: a column that is not there, a label that is not the benchmark's.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}: --annotations wants AgentRewardBench's annotations.csv")
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if absent := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
            raise UserError(f"{path}: no column {', '.join(absent)}")
        rows = [(reader.line_num, row) for row in reader]
    first: dict[tuple[str, str, str], Annotation] = {}
    for line, row in rows:
        key = (row["benchmark"], row["model_name"], row["task_id"])
        said = _label(row["trajectory_success"])
        if said not in (*YES, *NO, "unsure"):
            given = row["trajectory_success"]
            raise UserError(f"{path}, line {line}: trajectory_success is {given!r}, which is no label of the benchmark")
        first.setdefault(key, Annotation(*key, None if said == "unsure" else said in YES))
    return list(first.values()), len(rows) - len(first)


def load_split(path: Path, split: str) -> set[str]:
    """The task ids of a split (`test` or `dev`) in the benchmark's splits.csv (columns task_id, split)."""
    if not path.is_file():
        raise UserError(f"there is no file {path}: --splits wants AgentRewardBench's splits.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"task_id", "split"} <= rows[0].keys():
        raise UserError(f"{path}: no rows with the columns task_id and split")
    if split not in (known := {row["split"] for row in rows}):
        raise UserError(f"{path}: no split {split!r}: choose one of {', '.join(sorted(known))}")
    return {row["task_id"] for row in rows if row["split"] == split}


def score(judgments: Path, annotations: Sequence[Annotation], repeated: int = 0, split: set[str] | None = None) -> Scores:
    """Score every judge under `judgments`, for each benchmark and over all trajectories together.

    `split` holds the task ids that count; None counts all.  UserError if there is no judgment at all.
    """
    judges = sorted({path.parent.name for path in judgments.glob("*/*/*/*.json")})
    if not judges:
        raise UserError(f"no judgments under {judgments}: expected {{benchmark}}/{{agent}}/{{judge}}/{{task_id}}.json")
    wanted = [a for a in annotations if split is None or re.sub(r"\.resized|\.improved", "", a.task_id) in split]
    sure = [a for a in wanted if a.success is not None]
    scores = [part for judge in judges for part in _score(judgments, judge, sure)]
    known = {(a.benchmark, a.agent, a.task_id) for a in annotations}
    unknown = {judge: sum(key not in known for key in _keys(judgments, judge)) for judge in judges}
    return Scores(tuple(scores), len(wanted) - len(sure), repeated, {judge: n for judge, n in unknown.items() if n})


def _score(judgments: Path, judge: str, annotations: Sequence[Annotation]) -> Iterator[Score]:
    judged = []
    for a in annotations:
        reading, problem = read_verdict(judgments / a.benchmark / a.agent / judge / f"{a.task_id}.json", judge)
        judged.append((a.group, Judged(bool(a.success), reading, problem)))
    for name in (*sorted({group for group, _ in judged}), ALL):
        yield Score(judge, name, tuple(one for group, one in judged if name in (group, ALL)))


def _keys(judgments: Path, judge: str) -> Iterator[tuple[str, str, str]]:
    """Which trajectories a judge was asked about; `_error.json` is what the benchmark leaves where the model refused."""
    for path in judgments.glob(f"*/*/{judge}/*.json"):
        benchmark, agent = path.relative_to(judgments).parts[:2]
        yield benchmark, agent, path.stem.removesuffix("_error")


def read_verdict(path: Path, judge: str) -> tuple[bool | None, Problem | None]:
    """How the published scorer reads a judgment (None: it counts neither as yes nor as no), and why it is no verdict, if so."""
    if not path.is_file():
        return None, Problem.MISSING
    try:
        judgment = json.loads(path.read_text(encoding="utf-8"))
        if judge == "functional" and judgment.get("judge") == "functional":
            return judgment["trajectory_info"]["summary_info"]["cum_reward"] > 0.5, None
        if not (judgment.get("response") or {}).get("choices"):
            return None, Problem.NO_REPLY
        reply = judgment["response"]["choices"][0]["message"]["content"]
        said = _verdict(reply, judge)
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError):
        return None, Problem.UNREADABLE
    if said is None or not said.strip():
        return False, Problem.NO_TAG
    return _reading(_label(said))


def _verdict(reply: str, judge: str) -> str | None:
    """The words of a reply that are its verdict, by the form in which the benchmark asks this judge."""
    if judge in ("aer", "aerv"):
        lines = [line for line in reply.split("\n") if line.startswith("Status:")]
        return lines[-1].removeprefix("Status:") if lines else None
    if judge == "nnetnav":  # a mark from 1 to 5
        mark = reply.partition("Reward:")[2].strip()
        return ("yes" if int(mark) >= 4 else "no") if mark.isdigit() else mark
    start, end = reply.find("<success>"), reply.find("</success>")
    return None if start < 0 or end < 0 else reply[start + len("<success>") : end]


def _label(said: Any) -> str:
    return str(said).strip().lower().replace("'", "").replace('"', "")


def _reading(said: str) -> tuple[bool | None, Problem | None]:
    if said in YES or said in NO:
        return said in YES, None
    if said.startswith("1.") or "complete failure" in said:  # read as the lowest mark of another question, which is 1
        return True, Problem.UNKNOWN
    return None, Problem.UNKNOWN


def write_votes(votes: pd.DataFrame, folder: Path) -> None:
    """Write the first vote of each judge of a run (`votes.find_votes`) as `folder`/judgments, the truth as annotations.csv.

    The application stands for the benchmark, the planner and the number of its attempt for the agent.  A reply of our judges is
    JSON; the tag that the benchmark looks for is put behind it, and behind one without a verdict nothing.
    """
    first = votes[votes["vote"].eq(0) & votes["success"].notna()]
    rows = {}
    for row in first.itertuples():
        agent, task = f"{row.planner}-{row.run}", row.task_id.replace("/", ".")
        rows[row.app, task, agent] = (YES if row.success else NO)[0].capitalize()
        message = {"role": "assistant", "content": row.reply + _tag(row.reply)}
        judgment = {"benchmark": row.app, "agent": agent, "judge": row.judge, "response": {"choices": [{"message": message}]}}
        write_json(folder / "judgments" / row.app / agent / row.judge / f"{task}.json", judgment)
    lines = [",".join((*key, said)) for key, said in rows.items()]
    write_text(folder / "annotations.csv", "\n".join(["benchmark,task_id,model_name,trajectory_success", *lines]) + "\n")


def _tag(reply: str) -> str:
    try:
        said = YES if parse_verdict(reply).correct else NO
    except VerdictError:
        return ""
    return f"\n<success>{said[0].capitalize()}</success>"


def percent(part: int, whole: int) -> str:
    """`61.5 [45.1, 75.8]`: a share in percent with Wilson's interval; 0.0 of nothing, as the benchmark has it."""
    if not whole:
        return "0.0 (of none)"
    share = wilson(part, whole)
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def record(found: Scores) -> dict[str, Any]:
    """All figures as plain data; shares in percent, rounded as the benchmark rounds them."""
    rows = [
        {
            "judge": one.judge, "benchmark": one.benchmark, "trajectories": len(one.judged),
            "true_positive": one.count(True, True), "false_positive": one.count(False, True),
            "false_negative": one.count(True, False), "true_negative": one.count(False, False),
            "precision": _rounded(one.precision), "recall": _rounded(one.recall), "coverage": round(100 * one.coverage, 1),
            "strict_precision": _rounded(one.strict_precision), "strict_recall": _rounded(one.strict_recall),
            "no_verdict": one.problems,
        }
        for one in found.scores
    ]  # fmt: skip
    return {"scores": rows, "unsure": found.unsure, "repeated": found.repeated, "unknown": found.unknown}


def _rounded(share: tuple[int, int]) -> float:
    part, whole = share
    return round(part / whole * 100, 1) if whole else 0.0
