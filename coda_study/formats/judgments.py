"""AgentRewardBench's folders: judgments scored as that benchmark scores them, and strictly.

Layout (github.com/McGill-NLP/agent-reward-bench, scripts/score_judgments.py, eval/metrics.py, judge/): one
reply of a judge is `JUDGMENTS/{benchmark}/{agent}/{judge}/{task_id}.json`; the human labels are rows of
annotations.csv.  The published scorer drops a trajectory whose judgment is missing, leaves one without a
reply out of precision and recall (not out of accuracy), and reads a reply without a verdict as a "no": a
judge that fails often can get too good a score.  Its figures are `Score.published_figures`. Here such replies
are counted, and the strict score takes each for a wrong verdict.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coda_lib.errors import UserError
from coda_lib.files import reading, safe_name, write_json, write_text
from coda_lib.judge import JudgeScore, read_verdict
from coda_study.evaluation.statistics import Estimate, precision_and_recall

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("benchmark", "model_name", "task_id", "trajectory_success")
YES, NO = (
    ("successful", "yes", "success"),
    ("unsuccessful", "no", "failure", "unsuccesful"),
)  # the last is the benchmark's own
MARKS, MARK_WORDS = ("2.", "3.", "4."), ("suboptimal", "somewhat successful", "partially successful")
ALL = "all"


class Problem(StrEnum):
    """Why a judgment holds no verdict."""

    MISSING = "missing"  # no file
    # an empty file, no JSON, or not of the benchmark's form; the published scorer stops there
    UNREADABLE = "unreadable"
    NO_REPLY = "no reply"  # the model gave none: neither yes nor no to the published scorer
    NO_TAG = "no verdict tag"  # a reply without a verdict: "failure" to the published scorer
    MARK = "mark"  # of another question, 2 to 4: neither yes nor no to the published scorer
    UNKNOWN = (
        "unknown verdict"  # a verdict in words that are not the benchmark's; the published scorer stops there
    )


@dataclass(frozen=True)
class Annotation:
    """The human label of a trajectory; `success` is None where it is "unsure"."""

    benchmark: str
    agent: str
    task_id: str
    success: bool | None

    @property
    def group(self) -> str:
        """The benchmark as the published tables name it: WorkArena's second level is WorkArena++."""
        return (
            "workarena++"
            if self.benchmark == "workarena" and "l2" in self.task_id.lower()
            else self.benchmark
        )


class Judged(NamedTuple):
    """A trajectory with a human label."""

    agent: str
    task_id: str
    success: bool  # the label
    reading: bool | None  # of the published scorer: accepted or refused; None: neither
    problem: Problem | None

    @property
    def strict(self) -> bool:
        """Whether it counts as accepted in the strict score: a reply without a verdict is a wrong verdict."""
        return not self.success if self.problem else bool(self.reading)


@dataclass(frozen=True)
class Score:
    """A judge against the human labels of an agent's trajectories, or all agents'; those labelled "unsure"
    are left out.
    """

    judge: str
    benchmark: str
    agent: str
    judged: tuple[Judged, ...]

    @property
    def problems(self) -> dict[str, int]:
        return dict(Counter(str(j.problem) for j in self.judged if j.problem))

    @property
    def coverage(self) -> float:
        """Share of the labelled trajectories with a verdict."""
        return sum(j.problem is None for j in self.judged) / len(self.judged) if self.judged else 0.0

    @property
    def published(self) -> JudgeScore:
        """As the published scorer counts: without the trajectories that it reads as neither accepted nor
        refused.
        """
        read = self._read()
        return JudgeScore.of([bool(j.reading) for j in read], [j.success for j in read])

    @property
    def strict(self) -> JudgeScore:
        return JudgeScore.of([j.strict for j in self.judged], [j.success for j in self.judged])

    def published_figures(self) -> dict[str, float]:
        """What the published scorer writes in a row of metrics_{split}.csv: total, and the rest in percent,
        rounded as there.

        `total` and accuracy count a trajectory that is read as neither accepted nor refused, as a wrong
        verdict; so does `tnr`, the share of the failures that are refused, but not `npv`, the share of the
        refused that are failures.
        """
        counted = [
            j for j in self.judged if j.reading is not None or j.problem in (Problem.NO_REPLY, Problem.MARK)
        ]
        pairs = Counter((j.success, j.reading) for j in counted)
        right, refused = pairs[True, True], pairs[False, False]
        failures = sum(not j.success for j in counted)
        shares = {  # name: part, whole
            "accuracy": (right + refused, len(counted)), "precision": (right, right + pairs[False, True]),
            "recall": (right, right + pairs[True, False]), "npv": (refused, refused + pairs[True, False]),
            "tnr": (refused, failures),
        }  # fmt: skip
        exact = {name: part / whole if whole else 0.0 for name, (part, whole) in shares.items()}
        four = {
            name: round(exact[name], 4) for name in ("accuracy", "precision", "recall")
        }  # F1 is that of rounded shares
        both = four["precision"] + four["recall"]
        exact |= {
            "accuracy": four["accuracy"],
            "f1": 2 * four["precision"] * four["recall"] / both if both else 0.0,
        }
        return {"total": len(counted)} | {name: round(100 * share, 1) for name, share in exact.items()}

    def shares(self) -> tuple[Estimate, Estimate, Estimate, Estimate]:
        """Precision and recall, published and strict, with 95 % intervals as of `statistics.ratio`."""
        read = self._read()
        published, strict = (
            precision_and_recall([j.task_id for j in some], accepted, [j.success for j in some])
            for some, accepted in (
                (read, [j.reading for j in read]),
                (self.judged, [j.strict for j in self.judged]),
            )
        )
        return *published, *strict

    def _read(self) -> list[Judged]:
        return [j for j in self.judged if j.reading is not None]


@dataclass(frozen=True)
class Scores:
    """The scores of a folder of judgments, and the numbers of what was not used."""

    scores: tuple[Score, ...]
    unsure: int  # annotations
    repeated: int  # further annotations of a trajectory; the first counts
    unknown: dict[str, int]  # judge -> judgments of trajectories without annotation


def load_annotations(path: Path) -> tuple[list[Annotation], int]:
    """The first row of each trajectory in annotations.csv, and how many further rows there are.

    UserError names the file, the line and the missing column or unknown label.
    """
    first: dict[tuple[str, str, str], Annotation] = {}
    rows = _read_csv(path, "annotations", COLUMNS)
    for line, row in rows:
        key, given = (row["benchmark"], row["model_name"], row["task_id"]), row["trajectory_success"]
        label = _label(given)
        if label not in (*YES, *NO, "unsure"):
            raise UserError(
                f"{path}, line {line}: trajectory_success is {given!r}, which is no label of the benchmark"
            )
        first.setdefault(key, Annotation(*key, None if label == "unsure" else label in YES))
    return list(first.values()), len(rows) - len(first)


def load_split(path: Path, split: str) -> set[str]:
    """The task ids of a split (`test` or `dev`) in the benchmark's splits.csv (columns task_id, split)."""
    rows = [row for _, row in _read_csv(path, "splits", ("task_id", "split"))]
    if split not in (known := {row["split"] for row in rows}):
        raise UserError(f"{path}: no split {split!r}: choose one of {', '.join(sorted(known))}")
    return {row["task_id"] for row in rows if row["split"] == split}


def _read_csv(path: Path, option: str, columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """The rows of the benchmark's file for this option, each with its line.  UserError names a missing file
    or column.
    """
    if not path.is_file():
        raise UserError(f"no file {path}: --{option} needs AgentRewardBench's {option}.csv")
    with reading(path, "CSV"), path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if absent := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise UserError(f"{path}: no column {', '.join(absent)}")
        rows = [(reader.line_num, row) for row in reader]
    if short := [line for line, row in rows if None in map(row.get, columns)]:
        raise UserError(f"{path}, line {short[0]}: fewer columns than the first line has")
    return rows


def score(
    judgments: Path, annotations: Sequence[Annotation], repeated: int = 0, split: set[str] | None = None
) -> Scores:
    """Score every judge under `judgments`, for each benchmark and agent, and over all benchmarks and agents
    together (`ALL`).

    `split` holds the task ids that count; None counts all.  UserError if there is no judgment at all.
    """
    judges = sorted({path.parent.name for path in judgments.glob("*/*/*/*.json")})
    if not judges:
        raise UserError(
            f"no judgments under {judgments}: expected {{benchmark}}/{{agent}}/{{judge}}/{{task_id}}.json"
        )
    counted = [
        a for a in annotations if split is None or re.sub(r"\.resized|\.improved", "", a.task_id) in split
    ]
    sure = [a for a in counted if a.success is not None]
    scores = [part for judge in judges for part in _score(judgments, judge, sure)]
    known = {(a.benchmark, a.agent, a.task_id) for a in annotations}
    unknown = Counter(
        judge for path in sorted(judgments.glob("*/*/*/*.json"), key=lambda path: path.parent.name)
        for benchmark, agent, judge in [path.relative_to(judgments).parts[:3]]
        if (benchmark, agent, path.stem.removesuffix("_error")) not in known  # `_error`: the model refused
    )  # fmt: skip
    return Scores(tuple(scores), len(counted) - len(sure), repeated, dict(unknown))


def _score(judgments: Path, judge: str, annotations: Sequence[Annotation]) -> Iterator[Score]:
    judged = []
    for a in annotations:
        reading, problem = read_judgment(
            judgments / a.benchmark / a.agent / judge / f"{a.task_id}.json", judge
        )
        judged.append((a.group, Judged(a.agent, a.task_id, bool(a.success), reading, problem)))
    groups, agents = sorted({group for group, _ in judged}), sorted({one.agent for _, one in judged})
    for name, agent in product((*groups, ALL), (*agents, ALL)):
        of = tuple(one for group, one in judged if name in (group, ALL) and agent in (one.agent, ALL))
        if of or name == agent == ALL:
            yield Score(judge, name, agent, of)


def read_judgment(path: Path, judge: str) -> tuple[bool | None, Problem | None]:
    """The published scorer's reading of a judgment (None: neither accepted nor refused), and why it is no
    verdict, if so.
    """
    if not path.is_file():
        return None, Problem.MISSING
    try:
        judgment = json.loads(path.read_text(encoding="utf-8"))
        if judge == "functional" and judgment.get("judge") == "functional":
            return judgment["trajectory_info"]["summary_info"]["cum_reward"] > 0.5, None
        if not (judgment.get("response") or {}).get("choices"):
            return None, Problem.NO_REPLY
        reply = judgment["response"]["choices"][0]["message"]["content"]
        verdict = _verdict(reply, judge)
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError):
        return None, Problem.UNREADABLE
    if verdict is None or not verdict.strip():
        return False, Problem.NO_TAG
    if (label := _label(verdict)) in (*YES, *NO):
        return label in YES, None
    if (
        label.startswith("1.") or "complete failure" in label
    ):  # read as the lowest mark of another question, which is 1
        return True, Problem.UNKNOWN
    return None, Problem.MARK if label.startswith(MARKS) or any(
        words in label for words in MARK_WORDS
    ) else Problem.UNKNOWN


def _verdict(reply: str, judge: str) -> str | None:
    """The part of a reply that is its verdict, in the form that the benchmark's prompt for this judge
    demands.
    """
    if judge in ("aer", "aerv"):
        lines = [line for line in reply.split("\n") if line.startswith("Status:")]
        return lines[-1].removeprefix("Status:") if lines else None
    if judge == "nnetnav":  # a mark from 1 to 5
        mark = reply.partition("Reward:")[2].strip()
        return ("yes" if int(mark) >= 4 else "no") if mark.isdigit() else mark
    start, end = reply.find("<success>"), reply.find("</success>")
    return None if start < 0 or end < 0 else reply[start + len("<success>") : end]


def _label(text: Any) -> str:
    return str(text).strip().lower().replace("'", "").replace('"', "")


def write_votes(votes: pd.DataFrame, folder: Path) -> None:
    """Write the first vote of each judge of a run (`votes.find_votes`) to `folder`/judgments, the outcomes to
    annotations.csv.

    The application stands for the benchmark, the planner with the number of its attempt for the agent.  A
    reply of our judges is JSON; if it is a verdict, the benchmark's tag follows it.
    """
    first = votes[votes["vote"].eq(0) & votes["success"].notna()]
    rows = {}
    for row in first.itertuples():
        agent, task = safe_name(f"{row.planner}-{row.run}"), safe_name(row.task_id.replace("/", "."))
        rows[app := safe_name(row.app), task, agent] = (YES if row.success else NO)[0].capitalize()
        verdict = read_verdict(row.reply)
        tag = f"\n<success>{(YES if verdict.correct else NO)[0].capitalize()}</success>" if verdict else ""
        message = {"role": "assistant", "content": row.reply + tag}
        judgment = {
            "benchmark": row.app,
            "agent": agent,
            "judge": row.judge,
            "response": {"choices": [{"message": message}]},
        }
        write_json(folder / "judgments" / app / agent / safe_name(row.judge) / f"{task}.json", judgment)
    table = csv.writer(text := io.StringIO(), lineterminator="\n")
    table.writerow(("benchmark", "task_id", "model_name", "trajectory_success"))
    table.writerows((*key, label) for key, label in rows.items())
    write_text(folder / "annotations.csv", text.getvalue())


def percent(share: Estimate) -> str:
    """`61.5 [45.1, 75.8]`: a share in percent with its interval; 0.0 of none, as in the benchmark."""
    if np.isnan(share.value):
        return "0.0 (of none)"
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def record(scores: Scores) -> dict[str, Any]:
    """All figures as plain data; shares in percent, rounded as in the benchmark."""
    return {
        "scores": [_record(score, score.published, score.strict) for score in scores.scores],
        "unsure": scores.unsure, "repeated": scores.repeated, "unknown": scores.unknown,
    }  # fmt: skip


def _record(score: Score, published: JudgeScore, strict: JudgeScore) -> dict[str, Any]:
    shares = {
        "coverage": score.coverage,
        "strict_precision": strict.precision,
        "strict_recall": strict.recall,
    }
    return {
        "judge": score.judge, "benchmark": score.benchmark, "agent": score.agent, "trajectories": len(score.judged),
        "true_positive": published.true_positive, "false_positive": published.false_positive,
        "false_negative": published.successes - published.true_positive,
        "true_negative": published.trajectories - published.successes - published.false_positive,
        **score.published_figures(), **{name: round(100 * (share or 0.0), 1) for name, share in shares.items()},
        "no_verdict": score.problems,
    }  # fmt: skip
