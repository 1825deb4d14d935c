"""The judge: did a trajectory do its task, and which of its actions may be learned from (paper, section 4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from coda_lib.config import Profile
from coda_lib.models.chat import ChatModel, Message, Sampling
from coda_lib.models.load import load_model
from coda_lib.prompts import render
from coda_lib.trajectory import Trajectory, decode_image


class VerdictError(ValueError):
    """A judge's reply that is no verdict: counted and reported, never taken as a 'no'."""


@dataclass(frozen=True)
class Verdict:
    """One judgment; step numbers count from 1."""

    correct: bool
    redundant: tuple[int, ...] = ()
    first_error_step: int | None = None
    optimized: str | None = None
    error_type: str | None = None
    correct_action: str | None = None

    @property
    def clean(self) -> bool:
        """Correct, nothing redundant, no error: then every action is a labelled positive action."""
        return self.correct and not self.redundant and self.first_error_step is None


def parse_verdict(reply: str) -> Verdict:
    """Read the JSON object of a reply (a Markdown fence around it is allowed).  VerdictError names what is wrong."""
    start, end = reply.find("{"), reply.rfind("}")
    if start < 0 or end < start:
        raise VerdictError(f"no JSON object in {reply[:80]!r}")
    try:
        raw = json.loads(reply[start : end + 1])
    except (ValueError, RecursionError) as error:  # ValueError also of a number with thousands of digits
        raise VerdictError(f"not JSON: {reply[:80]!r}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("Correctness"), bool):
        raise VerdictError(f"Correctness must be true or false in {reply[:80]!r}")
    if missing := {"Redundant", "First_Error_Step"} - raw.keys():
        raise VerdictError(f"no {' and no '.join(sorted(missing))} in {reply[:80]!r}")
    first = raw["First_Error_Step"]
    redundant = [] if raw["Redundant"] is None else raw["Redundant"]
    if not isinstance(redundant, list) or not all(_is_step(step) for step in redundant):
        raise VerdictError(f"Redundant must be a list of step numbers in {reply[:80]!r}")
    if first is not None and not _is_step(first):
        raise VerdictError(f"First_Error_Step must be a step number or null in {reply[:80]!r}")
    words = {key: _words(raw.get(key)) for key in ("Optimized", "Error_Type", "Correct_Action")}
    return Verdict(
        raw["Correctness"], tuple(redundant), first, words["Optimized"], words["Error_Type"], words["Correct_Action"]
    )


def format_verdict(verdict: Verdict, details: bool = True) -> str:
    """A verdict as the JSON that `parse_verdict` reads; without `details` only the three fields that decide."""
    raw: dict[str, Any] = {
        "Correctness": verdict.correct,
        "Redundant": list(verdict.redundant),
        "First_Error_Step": verdict.first_error_step,
    }
    if details:
        raw |= {"Optimized": verdict.optimized, "Error_Type": verdict.error_type, "Correct_Action": verdict.correct_action}
    return json.dumps(raw)


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _words(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


VOTES = 4  # independent runs that must agree (paper, section 4)
_PORTION = 128  # trajectories whose screenshots are held in memory at once
SAMPLING = Sampling(temperature=1.0, top_p=0.6, max_new_tokens=256)  # paper, section 4; the length is ours


def judge_messages(
    instruction: str, screenshots: Sequence[Any], answer: str | None, prompts: str, plans: Sequence[str] = ()
) -> list[Message]:
    """What a judge is asked: the instruction, all screenshots in order, and the answer of a question task.

    The tiny judge (`compact`) is also told the plan behind each screenshot's step; the paper's is not.
    """
    return render(
        prompts, "judge", instruction=instruction, screenshots=list(screenshots), answer=answer, plans=list(plans)
    )  # fmt: skip


class Judge:
    """A model that votes; with `stop_at_no` a trajectory that one run has refused is not asked about again.

    The unanimous verdict is the same then, and costs little more than one run where most trajectories fail.
    Screenshots are shown at `resolution` times their width and height.
    """

    def __init__(
        self, model: ChatModel, sampling: Sampling = SAMPLING, prompts: str = "compact", votes: int = VOTES,
        stop_at_no: bool = False, resolution: float = 1.0,
    ):  # fmt: skip
        self.model, self.sampling, self.prompts, self.votes = model, sampling, prompts, votes
        self.stop_at_no, self.resolution = stop_at_no, resolution

    @classmethod
    def load(cls, profile: Profile, checkpoint: str | None = None, **how: Any) -> Judge:
        """The judge of a profile, or its way of judging with another checkpoint; `how` are arguments to be other ones."""
        model = load_model(profile, "judge", checkpoint or profile.models.judge)
        how = {"votes": profile.judge.votes, "stop_at_no": True} | how
        return cls(model, Sampling.of(profile.judge), profile.prompts, **how)

    def vote(self, trajectories: Sequence[Trajectory], seed: int) -> list[Trajectory]:
        """The same trajectories with the raw replies of up to `votes` independent runs as their verdicts."""
        portions = range(0, len(trajectories), _PORTION)
        return [t for i in portions for t in self._vote(trajectories[i : i + _PORTION], seed + i)]

    def _vote(self, trajectories: Sequence[Trajectory], seed: int) -> list[Trajectory]:
        asked = [self._asked(trajectory) for trajectory in trajectories]
        verdicts: list[list[str]] = [[] for _ in asked]
        for vote in range(self.votes):
            open_ = [i for i, said in enumerate(verdicts) if not (self.stop_at_no and said and not unanimous(said).success)]
            replies = self.model.generate([asked[i] for i in open_], self.sampling, seed + 7919 * vote) if open_ else []
            for i, reply in zip(open_, replies, strict=True):
                verdicts[i].append(reply)
        return [replace(t, verdicts=tuple(said)) for t, said in zip(trajectories, verdicts, strict=True)]

    def _asked(self, t: Trajectory) -> list[Message]:
        pictures = [self._shown(decode_image(png)) for png in t.screenshots]
        return judge_messages(t.instruction, pictures, t.answer, self.prompts, [step.plan for step in t.steps])

    def _shown(self, screenshot: Image.Image) -> Image.Image:
        size = [round(side * self.resolution) for side in screenshot.size]
        return screenshot if self.resolution == 1 else screenshot.resize(size)


@dataclass(frozen=True)
class Opinion:
    """What a set of votes amounts to."""

    success: bool  # all votes say correct
    clean: bool  # all votes say clean
    invalid: int  # votes that were no verdict


def unanimous(replies: Sequence[str]) -> Opinion:
    """The voting rule of the paper: successful only if all votes agree that it is.

    A vote that is no verdict is counted in `invalid` and cannot be agreement.  ValueError if there is no vote at all.
    """
    if not replies:
        raise ValueError("a trajectory without a vote has no opinion")
    verdicts, invalid = [], 0
    for reply in replies:
        try:
            verdicts.append(parse_verdict(reply))
        except VerdictError:
            invalid += 1
    return Opinion(
        success=not invalid and all(v.correct for v in verdicts),
        clean=not invalid and all(v.clean for v in verdicts),
        invalid=invalid,
    )


def positive_steps(trajectory: Trajectory) -> tuple[int, ...]:
    """Indices (from 0) of the steps whose actions are labelled positive: all of a clean trajectory, none of another.

    A step whose reply could not be parsed has no action to learn from and makes the trajectory unclean.
    """
    broken = any(step.error for step in trajectory.steps)
    return tuple(range(len(trajectory.steps))) if unanimous(trajectory.verdicts).clean and not broken else ()


@dataclass(frozen=True)
class JudgeScore:
    """A judge against the environment's own check, which is used for nothing but this."""

    trajectories: int
    successes: int
    true_positive: int
    false_positive: int
    invalid_votes: int

    @property
    def precision(self) -> float | None:
        said = self.true_positive + self.false_positive
        return self.true_positive / said if said else None

    @property
    def recall(self) -> float | None:
        return self.true_positive / self.successes if self.successes else None


def score(trajectories: Sequence[Trajectory]) -> JudgeScore:
    """Precision and recall of the unanimous vote; None where nothing was said or nothing was there.

    Episodes that the environment broke have no truth to compare with and are left out.
    """
    checked = [t for t in trajectories if t.success is not None]
    opinions = [unanimous(t.verdicts) for t in checked]
    said = [(o.success, t.success) for o, t in zip(opinions, checked, strict=True)]
    return JudgeScore(
        trajectories=len(said),
        successes=sum(truth for _, truth in said),
        true_positive=sum(yes and truth for yes, truth in said),
        false_positive=sum(yes and not truth for yes, truth in said),
        invalid_votes=sum(o.invalid for o in opinions),
    )
