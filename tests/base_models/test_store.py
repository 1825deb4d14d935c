"""What the recipes keep: the same objects come back, shared ones once, and a file can make nothing else."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import kit_files

from base_models import data
from base_models.accounts import told_attempts
from base_models.demonstrators import demonstrations
from base_models.hindsight import hindsights
from base_models.store import cached, read, write
from base_models.training_tasks import planner_tasks
from coda_lib.errors import UserError

PLAIN = [
    (),
    [1, -2.5, 1e300, float("inf"), True, None, "é\ud800\x00", b"\x89"],
    {"a": (1, [2]), 3: {}},
    ["row", 0],
    ["list"],
]


def test_everything_that_a_recipe_makes_comes_back_as_it_was(walks, tmp_path):
    app, walk = walks[0][0].app, walks[0]
    shown = demonstrations(app, planner_tasks(app), 2, 0.2, 0)
    made = [walks, shown, told_attempts(walk, 20, 0), hindsights(app, walk), PLAIN]
    write(tmp_path / "a.parquet", made)
    back = read(tmp_path / "a.parquet", data.KINDS)
    assert back == made and repr(back) == repr(made)  # repr tells 1 from True and a member from its text
    assert back[0][0][0].next_screen is back[0][0][1].screen
    assert any(t is back[0][0][0] for hindsight in back[3] for t in hindsight.history)


def test_it_is_made_once(tmp_path):
    calls = []
    for _ in range(2):
        assert cached(tmp_path / "a.parquet", lambda: calls.append(1) or [1], ()) == [1]
    assert len(calls) == 1


@dataclass
class Stranger:
    command: str


class _Opens:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_file_of_a_named_folder_runs_nothing(tmp_path):
    (tmp_path / "walks").mkdir()
    (tmp_path / "walks" / "gis.pickle").write_bytes(pickle.dumps(_Opens(tmp_path / "hacked")))
    (tmp_path / "walks" / "gis.parquet").write_bytes(pickle.dumps(_Opens(tmp_path / "hacked")))
    with pytest.raises(UserError, match="gis.parquet: cannot be read .*remove the file"):
        _ = data.Data(tmp_path, ["gis"], data.Recipe()).walks
    assert not (tmp_path / "hacked").exists()


def _rows(*rows):
    schema = pa.schema([("kind", pa.string()), ("fields", pa.string()), ("data", pa.binary())])
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": [1]}), _rows(), _rows(("Stranger", '["tuple", "id"]', None)),
        _rows(("os.system", '["tuple", "id"]', None)),
        _rows(("", '["row", 7]', None)), _rows(("", '["row", -1]', None)), _rows(("", '["row"]', None)),
        _rows(("", "[]", None)),
        _rows(("", '["call", "id"]', None)), _rows(("", "{", None)), _rows(("", None, None)), _rows(("",
        "[" * 99_999, None)),
        _rows(("", '["enum", "Stranger", "x"]', None)), _rows(("Action", '["tuple", "explode"]', None)),
        _rows(("Action", '["tuple", 1, 2, 3, 4, 5, 6, 7, 8, 9]', None)), _rows(("Element", "7", None)),
    ],
)  # fmt: skip
def test_a_foreign_file_is_one_clear_message(table, tmp_path):
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UserError, match="a.parquet: cannot be read"):
        read(tmp_path / "a.parquet", data.KINDS)


def test_what_is_not_known_is_not_written(tmp_path):
    for value in ({1, 2}, object(), print):
        with pytest.raises(TypeError, match="is not stored"):
            write(tmp_path / "a.parquet", [value])
    write(tmp_path / "b.parquet", Stranger("id"))
    with pytest.raises(UserError, match="Stranger"):
        read(tmp_path / "b.parquet", data.KINDS)


def test_no_module_of_the_kit_unpickles():
    """Of multiprocessing alone the kit takes pickles: those of its own children."""
    words = (
        "import pickle",
        "pickle.",
        "joblib",
        "marshal",
        "shelve",
        "weights_only=False",
        "allow_pickle",
        "yaml.load(",
    )
    safe = re.compile(r"yaml\.load\(.*, yaml\.CSafeLoader\)")
    texts = {path.name: safe.sub("", path.read_text()) for path in kit_files()}
    own = {("workers.py", "import pickle"), ("workers.py", "pickle.")}  # whose errors may not be picklable
    assert {(name, word) for name, text in texts.items() for word in words if word in text} == own
