"""The client's side: `DeskClient(base_url=...).sync()` plays on a server."""

from __future__ import annotations

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import State

from sciencedesk.adapters.openenv.models import DeskAction, DeskObservation


class DeskClient(EnvClient[DeskAction, DeskObservation, State]):
    def _step_payload(self, action: DeskAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[DeskObservation]:
        fields = payload["observation"] | {name: payload.get(name) for name in ("done", "reward")}
        fields["metadata"] = payload.get("metadata") or fields.get("metadata") or {}
        observation = DeskObservation(**fields)
        return StepResult(observation=observation, reward=observation.reward, done=observation.done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)
