"""Models in this process and behind servers, for the same stages; and what served models were asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.models.chat import ReplayModel
from coda_lib.models.endpoint import EndpointModel
from coda_lib.models.load import load_model
from coda_lib.models.local import LocalModel, load_network
from coda_lib.trajectory import load_trajectories
from coda_study.run import Run
from coda_study.stages import explore, judge
from coda_study.usage import note_usage, usage_table

ADDRESS = "http://127.0.0.1:9/v1"
LIKELIEST = tuple(
    f"{role}.top_p=1e-9" for role in ("planner", "executor", "judge")
)  # chance would be another elsewhere
SMALL = ("explore.base.tasks=3", "explore.base.runs=1", "step_limit=3", "apps=[gis]", *LIKELIEST)


def test_a_model_runs_where_the_profile_says():
    near, far = load_profile("smoke"), load_profile("smoke", (f"serving.planner={ADDRESS}",))
    planner = near.models.planner
    local, served = load_model(near, "planner", planner), load_model(far, "planner", planner)
    assert isinstance(local, LocalModel) and local.batch_size == near.concurrency
    assert isinstance(served, EndpointModel) and served.url == ADDRESS
    assert served.name == local.name and Path(served.name).is_dir()
    assert served.resize_rule == local.resize_rule
    assert isinstance(load_model(far, "executor", near.models.executor), LocalModel)


def test_several_threads_load_networks_at_once():
    """In transformers one load would break the others, and all later ones in the process."""
    path = load_profile("smoke").models.executor
    with ThreadPoolExecutor(3) as threads:
        networks = list(threads.map(lambda _: load_network(path, trainable=False, device="cpu"), range(3)))
    first, *others = (network.state_dict() for network in networks)
    assert all((weights == other[name]).all() for other in others for name, weights in first.items())


@pytest.mark.parametrize("where", ["remote", "http://", "ftp://x/v1", "http://a b/v1", ""])
def test_a_place_that_is_none_is_named(where):
    with pytest.raises(UserError, match=r"smoke.yaml with --set .*serving\.judge"):
        load_profile("smoke", (f"serving.judge={where!r}",))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    here = Run(str(tmp_path / "run"))
    here.store(load_profile("smoke", ("prices.planner=[2.0, 8.0]",)))
    return here


def test_what_served_models_were_asked_is_kept_and_priced(run, coda):
    assert usage_table(run).empty
    code, _, error = coda("usage", str(run.folder))
    assert code == 2 and "no model of" in error and "serving" in error
    planner, judge = EndpointModel(ADDRESS, "p"), EndpointModel(ADDRESS, "j")
    planner.usage.requests, planner.usage.prompt_tokens, planner.usage.completion_tokens = (
        3,
        2_000_000,
        500_000,
    )
    judge.usage.requests = 1
    note_usage(run, "explore/base/gis", planner=planner, executor=ReplayModel([]))
    note_usage(run, "judge/base/gis", judge=judge)
    note_usage(run, "explore/base/astron", planner=ReplayModel([]))
    rows = usage_table(run).astype(object).where(lambda known: known.notna(), None).to_dict("records")
    assert [(row["stage"], row["role"], row["requests"], row["cost"]) for row in rows] == [
        ("explore/base/gis", "planner", 3, 8.0), ("judge/base/gis", "judge", 1, None)
    ]  # fmt: skip
    code, shown, _ = coda("usage", str(run.folder))
    assert code == 0 and "2,000,000" in shown and "8.00" in shown and "together" in shown


@pytest.mark.slow
def test_stages_find_the_same_with_all_models_behind_servers_and_with_a_fleet(tmp_path):
    ray = pytest.importorskip("ray")
    served = [f"serving.{role}=started" for role in ("planner", "executor", "judge")]
    fleet = [*served, "fleet.workers=2", "fleet.side_by_side=2"]
    ways, found, asked = (
        {"local": (), "served": served, "fleet": fleet, "ray": [*fleet, "fleet.ray=local"]},
        {},
        {},
    )
    for way, changes in ways.items():
        run = Run(str(tmp_path / way))
        run.store(load_profile("smoke", (*SMALL, *changes)))
        explore.run(run, "base", "gis")
        judge.run(run, "base", "gis")
        found[way] = load_trajectories(run.judged("base", "gis"))
        assert not list(
            run.fleet("explore", "base", "gis").glob("episodes/*")
        )  # or the next rollout would take them for its own
        asked[way] = usage_table(run).groupby("role").requests.sum().to_dict()
    ray.shutdown()
    assert sum(len(one.steps) for one in found["local"]) > 3 and not asked["local"]
    assert asked["served"]["planner"] >= asked["served"]["executor"] > 0 and asked["served"]["judge"] == 3
    for way in ("served", "fleet", "ray"):
        assert found[way] == found["local"], way
        assert asked[way] == asked["served"], way
