"""What goes over the wire: an action in words, and what is seen after it."""

from __future__ import annotations

from openenv.core.env_server.types import Action, Observation
from pydantic import Field


class DeskAction(Action):
    """A reply of a model in the grammar of UI-TARS, with points in pixels of the screenshot."""

    action: str = Field(
        description="For example click(start_box='(168,126)'), type(content='5'), or finished() at the end"
    )


class DeskObservation(Observation):
    """Task and screen; `done`, `reward` (1.0 in the last step if solved) and `metadata` are OpenEnv's."""

    instruction: str = Field(description="The task in words")
    screenshot: str = Field(description="The screen as PNG, in base64")
    width: int = Field(gt=0, description="Of the screenshot in pixels")
    height: int = Field(gt=0, description="Of the screenshot in pixels")
    error: str | None = Field(None, description="Why the reply was no action; then nothing was done")
