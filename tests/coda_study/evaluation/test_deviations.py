"""The deviation ledger: nothing that the paper leaves open goes unmentioned, and its figures are the
profile's.
"""

from __future__ import annotations

import re

import pytest
import yaml

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.paths import CHECKPOINTS, PROFILES
from coda_study.evaluation.paper import LEDGER, Deviation, ledger, load_deviations


def unpublished() -> set[str]:
    """Fields of the laptop profile that its comments call not published, and the models that stand for
    others.
    """
    fields, section = set(), ""
    for line in (PROFILES / "laptop.yaml").read_text().splitlines():
        name = re.match(r"( *)([a-z_]+):(.*)", line)
        if not name:
            continue
        indent, key, rest = name.groups()
        section = key if not indent else section
        if "not published" in line or "stands for" in line:
            inner = re.search(r"\{(.*)\}", rest)
            names = [part.split(":")[0].strip() for part in inner[1].split(",")] if inner else []
            fields |= {f"{key}.{n}" for n in names} or {f"{section}.{key}" if indent else key}
    return fields


def test_what_the_profile_calls_not_published_is_in_the_ledger():
    fields = unpublished()
    assert {
        "seed",
        "specialize.beta",
        "judge.max_new_tokens",
        "models.planner",
        "generalize.epochs",
    } <= fields
    assert not fields - {field for deviation in load_deviations() for field in deviation.fields}


def test_the_ledger_shows_the_values_of_the_run():
    profile = load_profile("laptop", ("specialize.beta=0.125", "explore.base.runs=5"))
    rows = ledger(profile).set_index("paper")["ours"]
    assert rows["β is not published"] == "β = 0.125"
    assert ", 5 times each" in " ".join(rows)
    assert not any("{" in text or "[" in text for text in rows)


def test_every_row_says_why_and_none_is_there_twice():
    rows = load_deviations()
    assert len({row.id for row in rows}) == len(rows) > 20
    assert all(len(row.why) > 10 for row in rows)


def test_the_cards_of_the_checkpoints_show_their_rows():
    rows = {row.id: row for row in load_deviations()}
    for role in ("planner", "executor", "judge"):
        row = rows[f"{role}-model"]
        assert f"| {row.paper} | {row.why} |" in (CHECKPOINTS / role / "README.md").read_text()


def test_a_bad_ledger_is_one_message(tmp_path):
    path = tmp_path / "deviations.yaml"
    path.write_text(
        yaml.safe_dump([{"id": "x", "about": "models", "paper": "p", "ours": "o", "because": "w"}])
    )
    with pytest.raises(UserError, match="0.why: Field required"):
        load_deviations(path)
    path.write_text("- {")
    with pytest.raises(UserError, match="is no YAML"):
        load_deviations(path)
    odd = Deviation(id="x", about="models", paper="p", ours="{specialize.gamma}", why="w")
    with pytest.raises(UserError, match=r"'x': the profile has no field specialize.gamma"):
        ledger(load_profile("laptop"), [odd])
    assert LEDGER.is_file()
