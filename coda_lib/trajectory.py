"""What happened in an episode: steps, the reason it ended, and whether it succeeded."""

from __future__ import annotations

import hashlib
import io
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from coda_lib.action import Action
from coda_lib.errors import UserError
from coda_lib.files import atomic_path, reading

DIGEST = 16  # bytes of a screenshot's digest, where that alone is kept


class StopReason(StrEnum):
    """Why an episode ended (paper, section 2 and the released inference code)."""

    DONE = "DONE"  # the agent says that the task is finished
    FAIL = "FAIL"  # the agent gives up
    ANS = "ANS"  # the agent submits an answer to a question task
    STEP_LIMIT = "STEP_LIMIT"
    ENVIRONMENT_ERROR = "ENVIRONMENT_ERROR"  # the environment broke: never counted as a failed task


@dataclass(frozen=True)
class Step:
    """Step t: screenshot o_t, plan p_t, action a_t."""

    screenshot: bytes  # o_t as PNG, taken before the action
    plan: str  # p_t, the thought handed to the executor; the raw reply if it could not be parsed
    reply: str  # the executor's raw reply
    actions: tuple[Action, ...]  # parsed from the reply; empty if it could not be parsed
    error: str | None = None  # why the step failed (reply not parsable), else None

    @property
    def image(self) -> Image.Image:
        return decode_image(self.screenshot)


@dataclass(frozen=True)
class Trajectory:
    """One episode of one task: (o_1, p_1, a_1, …, o_T, p_T, a_T, o_{T+1})."""

    task_id: str
    app: str
    instruction: str
    planner: str  # name of the planner that was rolled out
    run: int  # which of the k independent runs of this task
    steps: tuple[Step, ...]
    final_screenshot: bytes  # o_{T+1} as PNG
    stop: StopReason
    answer: str | None = None  # what was submitted with ANS
    # the environment's own check; used for evaluation only, never for training labels
    success: bool | None = None
    verdicts: tuple[str, ...] = field(default=())  # the judge's raw replies, one a vote
    # in another project's log, if it is neither 0 nor 1; then `success` is whether it is 1 or more
    score: float | None = None

    @property
    def screenshots(self) -> list[bytes]:
        """Every screenshot in order; DONE, FAIL and ANS change nothing and add none."""
        screenshots = [step.screenshot for step in self.steps]
        ended = self.stop in (StopReason.DONE, StopReason.FAIL, StopReason.ANS)
        return screenshots if ended else [*screenshots, self.final_screenshot]


def encode_image(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def from_png(png: bytes) -> Image.Image:
    """The picture of a PNG, which stays with it for `screenshot_png`; pixels are read when they are used."""
    shown = Image.open(io.BytesIO(png))
    shown = shown if shown.mode == "RGB" else shown.convert("RGB")
    shown._png = png
    return shown


def screenshot_png(screenshot: Image.Image) -> bytes:
    """`encode_image`, computed once for equal pictures: most screenshots have been seen before.

    The picture must not change afterwards.
    """
    if not hasattr(screenshot, "_png"):
        key = digest(screenshot)
        screenshot._png = _PNGS.pop(key, None) or encode_image(screenshot)
        _PNGS[key] = screenshot._png
        while len(_PNGS) > _PICTURES:
            _PNGS.popitem(last=False)
    return screenshot._png


def digest(picture: Image.Image) -> bytes:
    """What tells pictures apart, computed once a picture, which must not change afterwards."""
    if not hasattr(picture, "_digest"):
        name = repr((picture.mode, picture.size)).encode()
        picture._digest = hashlib.blake2b(picture.tobytes(), key=name).digest()
    return picture._digest


_PICTURES = 256
_PNGS: OrderedDict[bytes, bytes] = OrderedDict()  # of the last pictures


@lru_cache(_PICTURES // 4)
def decode_image(png: bytes) -> Image.Image:
    """The picture of a PNG; the same object for the last PNGs, which nobody may change."""
    return Image.open(io.BytesIO(png)).convert("RGB")


_ACTION = pa.struct(
    [("type", pa.string()), ("x", pa.float64()), ("y", pa.float64()), ("x2", pa.float64()), ("y2",
     pa.float64()),
     ("text", pa.string()), ("direction", pa.string())]
)  # fmt: skip
_STEP = pa.struct(
    [("screenshot", pa.binary()), ("plan", pa.string()), ("reply", pa.string()), ("actions",
     pa.list_(_ACTION)),
     ("error", pa.string())]
)  # fmt: skip
_SCHEMA = pa.schema(
    [("task_id", pa.string()), ("app", pa.string()), ("instruction", pa.string()), ("planner", pa.string()),
     ("run", pa.int64()), ("steps", pa.list_(_STEP)), ("final_screenshot", pa.binary()), ("stop",
      pa.string()),
     ("answer", pa.string()), ("success", pa.bool_()), ("verdicts", pa.list_(pa.string()))]
)  # fmt: skip


# of logs of others; files of ours have no such column
_SCORED = _SCHEMA.append(pa.field("score", pa.float64()))


def save_trajectories(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write trajectories to one Parquet file, atomically; the same trajectories give the same bytes."""
    with atomic_path(path) as temporary:
        schema = _SCORED if any(t.score is not None for t in trajectories) else _SCHEMA
        table = pa.Table.from_pylist([asdict(t) for t in trajectories], schema)
        pq.write_table(table, temporary, compression="zstd")


def load_trajectories(path: Path, screens: bool = True) -> list[Trajectory]:
    """Read what `save_trajectories` wrote.

    UserError if the file is not there or is no such file, and if `screens` are wanted where their digests
    alone are kept.
    """
    rows = trajectory_rows(path)
    if screens and any(len(row["final_screenshot"] or b"") == DIGEST for row in rows):
        fault = f"{path} has no screenshots, but their digests"
        raise UserError(f"{fault}: look at its run, coda view RUN, which draws them again")
    with reading(path, "trajectory"):
        return [_trajectory(row) for row in rows]


def trajectory_rows(path: Path, columns: Sequence[str] | None = None) -> list[dict]:
    """The rows of such a file as plain data, all columns or these.  UserError as `load_trajectories`."""
    with reading(path, "Parquet"), pq.ParquetFile(path) as file:
        schema, names = file.schema_arrow, file.schema_arrow.names
        if names not in (_SCHEMA.names, _SCORED.names):
            raise UserError(f"{path} holds no trajectories, but another table: {', '.join(names)}")
        table = file.read(columns)
        if schema.equals(_SCORED if "score" in names else _SCHEMA):
            return table.to_pylist()
        # written again by something else, pandas for one: the same things in other types
        parts = [_converted(path, table[name], _SCORED.field(name)) for name in table.column_names]
        return pa.table(parts, table.column_names).to_pylist()


def _converted(path: Path, column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """A column in the type of a field.  UserError names it where a value does not fit."""
    try:
        return pa.array(column.to_pylist(), field.type)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: column {field.name} is {column.type}, not {field.type} ({error})"
        ) from error


def _trajectory(row: dict) -> Trajectory:
    actions = [tuple(Action(**action) for action in step["actions"]) for step in row["steps"]]
    steps = tuple(Step(**(step | {"actions": a})) for step, a in zip(row["steps"], actions, strict=True))
    made = {"steps": steps, "stop": StopReason(row["stop"]), "verdicts": tuple(row["verdicts"])}
    return Trajectory(**(row | made))
