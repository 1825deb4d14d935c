"""The judge: did a trajectory do its task, and which of its actions may be learned from (paper, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from coda_lib.models.chat import ChatModel, Message, Sampling
from coda_lib.prompts import render
from coda_lib.trajectory import Trajectory, decode_image
from coda_lib.verdict import VerdictError, parse_verdict

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
