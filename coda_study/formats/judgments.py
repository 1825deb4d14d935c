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
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coda_lib.errors import UserError
from coda_lib.files import reading
from coda_lib.judge import JudgeScore
from coda_study.evaluation.statistics import Estimate, precision_and_recall

COLUMNS = ("benchmark", "model_name", "task_id", "trajectory_success")
YES = ("successful", "yes", "success")
NO = ("unsuccessful", "no", "failure", "unsuccesful")  # the last is the benchmark's own spelling
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
    UNKNOWN = "unknown verdict"  # in words that are not the benchmark's; the published scorer stops there


class Annotation(NamedTuple):
    """The human label of a trajectory; `success` is None where it is "unsure"."""

    benchmark: str
    agent: str
    task_id: str
    success: bool | None

    @property
    def group(self) -> str:
        """The benchmark as the published tables name it: WorkArena's second level is WorkArena++."""
        second = self.benchmark == "workarena" and "l2" in self.task_id.lower()
        return "workarena++" if second else self.benchmark


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
    """A judge against the human labels of an agent's trajectories, or of all agents', without the unsure."""

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
    def read(self) -> list[Judged]:
        """The trajectories that the published scorer reads as accepted or refused."""
        return [j for j in self.judged if j.reading is not None]

    @property
    def published(self) -> JudgeScore:
        """As the published scorer counts."""
        return JudgeScore.of([bool(j.reading) for j in self.read], [j.success for j in self.read])

    @property
    def strict(self) -> JudgeScore:
        return JudgeScore.of([j.strict for j in self.judged], [j.success for j in self.judged])

    def published_figures(self) -> dict[str, float]:
        """A row of the published metrics_{split}.csv: total, and the rest in percent, rounded as there.

        `total` and accuracy count a trajectory that is read as neither accepted nor refused, as a wrong
        verdict; so does `tnr` (of the failures), but not `npv` (of the refused).
        """
        neither = (Problem.NO_REPLY, Problem.MARK)
        counted = [j for j in self.judged if j.reading is not None or j.problem in neither]
        pairs = Counter((j.success, j.reading) for j in counted)
        right, refused = pairs[True, True], pairs[False, False]
        shares = {  # name: part, whole
            "accuracy": (right + refused, len(counted)),
            "precision": (right, right + pairs[False, True]),
            "recall": (right, right + pairs[True, False]),
            "npv": (refused, refused + pairs[True, False]),
            "tnr": (refused, sum(not j.success for j in counted)),
        }
        exact = {name: part / whole if whole else 0.0 for name, (part, whole) in shares.items()}
        exact["accuracy"] = round(exact["accuracy"], 4)
        precision, recall = (round(exact[name], 4) for name in ("precision", "recall"))
        # F1 is that of rounded shares
        exact["f1"] = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        return {"total": len(counted)} | {name: round(100 * share, 1) for name, share in exact.items()}

    def shares(self) -> list[Estimate]:
        """Precision and recall, published and strict, with 95 % intervals as of `statistics.ratio`."""
        shares: list[Estimate] = []
        for judged, accepted in ((self.read, "reading"), (self.judged, "strict")):
            columns = ([getattr(j, name) for j in judged] for name in ("task_id", accepted, "success"))
            shares += precision_and_recall(*columns)
        return shares


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
        *key, given = (row[name] for name in COLUMNS)
        label = _label(given)
        if label not in (*YES, *NO, "unsure"):
            fault = f"trajectory_success is {given!r}, which is no label of the benchmark"
            raise UserError(f"{path}, line {line}: {fault}")
        first.setdefault(tuple(key), Annotation(*key, None if label == "unsure" else label in YES))
    return list(first.values()), len(rows) - len(first)


def load_split(path: Path, split: str) -> set[str]:
    """The task ids of a split (`test` or `dev`) in the benchmark's splits.csv (columns task_id, split)."""
    rows = [row for _, row in _read_csv(path, "splits", ("task_id", "split"))]
    if split not in (known := {row["split"] for row in rows}):
        raise UserError(f"{path}: no split {split!r}: choose one of {', '.join(sorted(known))}")
    return {row["task_id"] for row in rows if row["split"] == split}


def _read_csv(path: Path, option: str, columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """The rows of the benchmark's file, each with its line.  UserError names a missing file or column."""
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
    """Score every judge for each benchmark and agent, and over all benchmarks and agents together (`ALL`).

    `split` holds the task ids that count; None counts all.  UserError if there is no judgment at all.
    """
    paths = sorted(judgments.glob("*/*/*/*.json"), key=lambda path: path.parent.name)
    if not paths:
        layout = "{benchmark}/{agent}/{judge}/{task_id}.json"
        raise UserError(f"no judgments under {judgments}: expected {layout}")
    counted = list(annotations)
    if split is not None:
        counted = [a for a in annotations if re.sub(r"\.resized|\.improved", "", a.task_id) in split]
    sure = [a for a in counted if a.success is not None]
    judges = sorted({path.parent.name for path in paths})
    scores = [part for judge in judges for part in _score(judgments, judge, sure)]
    known = {a[:3] for a in annotations}
    unknown: Counter[str] = Counter()
    for path in paths:
        benchmark, agent, judge, _ = path.relative_to(judgments).parts
        task = path.stem.removesuffix("_error")  # the model refused
        unknown[judge] += (benchmark, agent, task) not in known
    return Scores(tuple(scores), len(counted) - len(sure), repeated, dict(+unknown))


def _score(judgments: Path, judge: str, annotations: Sequence[Annotation]) -> Iterator[Score]:
    judged = []
    for a in annotations:
        path = judgments / a.benchmark / a.agent / judge / f"{a.task_id}.json"
        judged.append((a.group, Judged(a.agent, a.task_id, bool(a.success), *read_judgment(path, judge))))
    groups, agents = sorted({group for group, _ in judged}), sorted({j.agent for _, j in judged})
    for name, agent in product((*groups, ALL), (*agents, ALL)):
        part = tuple(j for group, j in judged if name in (group, ALL) and agent in (j.agent, ALL))
        if part or name == agent == ALL:
            yield Score(judge, name, agent, part)


def read_judgment(path: Path, judge: str) -> tuple[bool | None, Problem | None]:
    """The published scorer's reading of a judgment (None: neither), and why it is no verdict, if so."""
    if not path.is_file():
        return None, Problem.MISSING
    try:
        judgment = json.loads(path.read_text(encoding="utf-8"))
        if judge == "functional" and judgment.get("judge") == "functional":
            return judgment["trajectory_info"]["summary_info"]["cum_reward"] > 0.5, None
        if not (judgment.get("response") or {}).get("choices"):
            return None, Problem.NO_REPLY
        verdict = _verdict(judgment["response"]["choices"][0]["message"]["content"], judge)
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError):
        return None, Problem.UNREADABLE
    if verdict is None or not verdict.strip():
        return False, Problem.NO_TAG
    if (label := _label(verdict)) in (*YES, *NO):
        return label in YES, None
    if label.startswith("1.") or "complete failure" in label:  # read as the mark 1 of another question
        return True, Problem.UNKNOWN
    marked = label.startswith(MARKS) or any(words in label for words in MARK_WORDS)
    return None, Problem.MARK if marked else Problem.UNKNOWN


def _verdict(reply: str, judge: str) -> str | None:
    """The part of a reply that is its verdict, in the form that the prompt for this judge demands."""
    if judge in ("aer", "aerv"):
        lines = [line for line in reply.split("\n") if line.startswith("Status:")]
        return lines[-1].removeprefix("Status:") if lines else None
    if judge == "nnetnav":  # a mark from 1 to 5
        mark = reply.partition("Reward:")[2].strip()
        return ("yes" if int(mark) >= 4 else "no") if mark.isdigit() else mark
    start, end = reply.find("<success>"), reply.find("</success>")
    return None if start < 0 or end < 0 else reply[start + len("<success>") : end]


def _label(text: str) -> str:
    return text.strip().lower().replace("'", "").replace('"', "")


def percent(share: Estimate) -> str:
    """`61.5 [45.1, 75.8]`: a share in percent with its interval; 0.0 of none, as in the benchmark."""
    if np.isnan(share.value):
        return "0.0 (of none)"
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def record(scores: Scores) -> dict[str, Any]:
    """All figures as plain data; shares in percent, rounded as in the benchmark."""
    return vars(scores) | {"scores": list(map(_record, scores.scores))}


def _record(score: Score) -> dict[str, Any]:
    published, strict = score.published, score.strict
    return {
        "judge": score.judge,
        "benchmark": score.benchmark,
        "agent": score.agent,
        "trajectories": len(score.judged),
        "true_positive": published.true_positive,
        "false_positive": published.false_positive,
        "false_negative": published.successes - published.true_positive,
        "true_negative": published.trajectories - published.successes - published.false_positive,
        **score.published_figures(),
        "coverage": round(100 * score.coverage, 1),
        "strict_precision": round(100 * (strict.precision or 0.0), 1),
        "strict_recall": round(100 * (strict.recall or 0.0), 1),
        "no_verdict": score.problems,
    }
