"""What is written and what is removed: whole files or none, plain files alone, safe names, and nothing of
anybody else.
"""

from __future__ import annotations

import inspect
import os
import re
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kit import kit_files

from coda_lib.errors import UserError
from coda_lib.files import (
    atomic_path,
    locked,
    read_json,
    require_folder,
    safe_name,
    sha256,
    socket_folder,
    whole_text,
    write_bytes,
    write_json,
    write_table,
    write_text,
)
from coda_lib.paths import REFERENCE, REPO
from coda_study import owned
from coda_study.owned import BELONGS, claim, kind_of, new_folder, remove, replaced_folder
from coda_study.run import Run


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    write_text(path, "old")
    with pytest.raises(OSError, match="disk full"), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise OSError("disk full")
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


@pytest.fixture
def obstacles(tmp_path) -> dict[str, Path]:
    """Give one of everything that is no plain file, by its name in a message."""
    there = {name: tmp_path / "there" / name for name in ("folder", "link", "lost link", "pipe", "socket")}
    there["folder"].mkdir(parents=True)
    (there["folder"] / "run").write_text("precious")
    (tmp_path / "file").write_text("precious")
    there["link"].symlink_to(tmp_path / "file")
    there["lost link"].symlink_to(tmp_path / "nowhere")
    os.mkfifo(there["pipe"])
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(there["socket"]))
    try:
        os.mknod(tmp_path / "there" / "device", 0o20600, os.makedev(1, 3))  # another /dev/null
        there["device"] = tmp_path / "there" / "device"
    except PermissionError:  # root alone may make and, without a check, replace one
        pass
    return there


def test_only_a_plain_file_is_written_over(obstacles, tmp_path):
    import pandas as pd

    before = {name: path.lstat() for name, path in obstacles.items()}
    for name, path in obstacles.items():
        for write in (
            lambda path: write_text(path, "x"), lambda path: write_bytes(path, b"x"),
            lambda path: write_json(path, 1),
            lambda path: write_table(path, pd.DataFrame({"a": [1]})),
        ):  # fmt: skip
            with pytest.raises(
                UserError, match=f"{path} is a {name.split()[-1]} and is not replaced by a file: name"
            ):
                write(path)
    assert {name: path.lstat().st_ino for name, path in obstacles.items()} == {
        n: s.st_ino for n, s in before.items()
    }
    assert (obstacles["folder"] / "run").read_text() == (tmp_path / "file").read_text() == "precious"
    assert {path.name for path in (tmp_path / "there").iterdir()} == set(
        obstacles
    )  # no temporary file either
    with pytest.raises(UserError, match=f"{tmp_path / 'file'} is no folder; name another place"):
        write_text(tmp_path / "file" / "x" / "y", "x")


def test_what_comes_into_the_way_meanwhile_is_not_replaced_either(tmp_path):
    with (
        pytest.raises(UserError, match="is a folder and is not replaced"),
        atomic_path(tmp_path / "a") as temporary,
    ):
        temporary.write_text("x")
        (tmp_path / "a").mkdir()
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_a_new_folder_is_whole_or_absent(obstacles, tmp_path):
    with pytest.raises(OSError, match="disk full"), new_folder(tmp_path / "new") as temporary:
        (temporary / "half").write_text("x")
        raise OSError("disk full")
    assert {path.name for path in tmp_path.iterdir()} == {"there", "file"}
    for path in (*obstacles.values(), tmp_path / "file"):
        with pytest.raises(UserError, match="is there already"), new_folder(path):
            pass
    for _ in "new", "empty":
        with new_folder(tmp_path / "new") as temporary:
            (temporary / "a").write_text("x")
        (tmp_path / "new" / "a").unlink()
    for name in set(obstacles) - {"folder", "link"}:
        with pytest.raises(UserError, match="no folder: name a folder"):
            require_folder(obstacles[name])


def test_a_lock_is_held_by_one(tmp_path):
    with locked(tmp_path / "deep" / ".lock", "wait"):
        with pytest.raises(UserError, match="wait"), locked(tmp_path / "deep" / ".lock", "wait"):
            pass
    with locked(tmp_path / "deep" / ".lock", "wait"):
        pass


# ---- names -----------------------------------------------------------------------------------------------

HOSTILE = (
    "/etc/passwd", "..", ".", "", "../../x", "a/../../b", "a\\b", "a\0b", "a\nb", "a" * 300, "ä" * 200, "%",
    "%2E%2E", "\ud800",
    "~", "-rf", "/" * 300, ".../..", "\x7f", "C:\\x",
)  # fmt: skip


@given(
    st.lists(
        st.one_of(st.text(st.characters(), max_size=300), st.sampled_from(HOSTILE)), unique=True, max_size=8
    )
)
@example(list(HOSTILE))
def test_any_text_becomes_a_name_of_its_own_that_stays_in_its_folder(texts):
    names = [safe_name(text) for text in texts]
    assert len(set(names)) == len(texts)
    for name in names:
        assert (
            name not in ("", ".", "..")
            and not re.search(r"[/\\\x00-\x1f\x7f]", name)
            and len(os.fsencode(name)) <= 150
        )
        assert Path("/a", name).resolve() == Path("/a", name)


def test_usual_names_stay_as_they_are():
    for name in ("A-01", "KAlgebra", "base-0", "gis.B-01", "UI-TARS 1.5 (7B)", "qwen2.5:7b", "Ångström"):
        assert safe_name(name) == name


def test_halves_of_characters_become_text_that_can_be_written():
    assert whole_text({"a\ud800": ["\udfff", "α", 1, None]}) == {"a\ufffd": ["\ufffd", "α", 1, None]}


# ---- removing --------------------------------------------------------------------------------------------


def test_only_what_the_kit_put_into_a_marked_folder_is_removed(tmp_path):
    run = tmp_path / "run"
    claim(run, "run")
    claim(run, "run")  # again is fine
    assert kind_of(run) == "run" and kind_of(tmp_path) is None
    for name in ("tables", "notes", "tables/.x"):
        (run / name).mkdir()
    (tmp_path / "tables").mkdir()
    (run / "figures").symlink_to(tmp_path / "tables")
    for path in (
        run / "notes",
        tmp_path / "tables",
        run,
        run / ".coda",
        run / "figures" / "..",
        tmp_path,
        Path("/"),
    ):
        with pytest.raises(UserError, match="is not removed: it is not in a folder that this kit marked"):
            remove(path)
    (tmp_path / "tables" / "tables").mkdir()
    with pytest.raises(UserError, match="is not removed"):
        remove(run / "figures" / "tables")  # through a link out of the run
    remove(run / "figures")
    remove(run / "tables")
    remove(run / "tables")  # nothing there is fine
    assert {path.name for path in run.iterdir()} == {".coda", "notes"} and (
        tmp_path / "tables" / "tables"
    ).is_dir()


def test_a_folder_of_somebody_else_is_not_claimed(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "profile.yaml").write_text("precious")
    with pytest.raises(UserError, match="holds something else and has no mark of this kit"):
        claim(tmp_path / "thesis", "run")
    (tmp_path / "begun").mkdir()
    (
        tmp_path / "begun" / "..coda.01234567.tmp"
    ).touch()  # of a process that was killed while it made the folder
    claim(tmp_path / "begun", "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".coda").write_text("of another tool")
    with pytest.raises(UserError, match="holds something else"):
        claim(tmp_path / "other", "run")
    claim(tmp_path / "fleet", "fleet")
    with pytest.raises(UserError, match="holds something else"):
        claim(tmp_path / "fleet", "run")


def test_a_folder_is_replaced_as_a_whole_where_it_is_the_kits(tmp_path):
    claim(tmp_path, "models")
    for content in ("one", "two"):
        with replaced_folder(tmp_path / "planner") as temporary:
            temporary.mkdir()
            (temporary / content).write_text(content)
    assert [path.name for path in (tmp_path / "planner").iterdir()] == ["two"]
    (tmp_path / "thesis").mkdir()
    with pytest.raises(UserError, match="is not removed"), replaced_folder(tmp_path / "thesis"):
        raise AssertionError("refused before it is written")
    assert {path.name for path in tmp_path.iterdir()} == {".coda", "planner", "thesis"}


def test_the_parts_of_a_run_are_those_of_its_layout():
    """Every file and folder that `Run` and the Snakefile name belongs to a run, so that --fresh starts over
    indeed.
    """
    run = Run("/nowhere/run")
    named = {value for name in dir(Run) if isinstance(getattr(Run, name), property)
             if isinstance(value := getattr(run, name), Path)} - {run.folder}  # fmt: skip
    calls = (
        run.rollouts,
        run.judged,
        run.judge_scores,
        run.evaluation,
        run.greedy,
        run.trajectories,
        run.variant,
    )
    named |= {call("specialist", "gis") for call in calls} | {run.fleet("explore", "specialist", "gis")}
    named |= {
        call("gis") for call in (run.judges, run.specialist, run.label_votes, run.ablation, run.transfer)
    }
    named |= {run.stage_record("explore/base/gis")}
    parts = {path.relative_to(run.folder).parts[0] for path in named}
    parts |= set(re.findall(r'self\.folder / "([^"]+)"', inspect.getsource(Run)))
    outputs = re.findall(r"(?ms)^    output:\n(.*?)^    \w", (REPO / "Snakefile").read_text())
    paths = [path for block in outputs for path in re.findall(r'"([^"]+)"', block)]
    parts |= {
        re.match(r"[\w.]+", path.replace("{trained}", name))[0]
        for path in paths
        for name in ("round1", "specialist")
    }
    assert len(parts) >= 20 and parts <= BELONGS["run"]


# the only modules that remove: the two of this test, and those that clean a temporary home or what they just
# wrote
ALLOWED = {
    "coda_lib/files.py", "coda_study/owned.py", "sciencedesk/real/grass_hook.py",
    "sciencedesk/real/grassgis.py",
    "sciencedesk/real/pymol.py", "coda_study/formats/judging.py",
    "sciencedesk/real/display_process.py",
    "coda_lib/trainer.py",
}  # fmt: skip


def test_nothing_else_in_the_library_removes_or_writes_directly():
    removing, writing = (
        re.compile(r"rmtree|\.unlink\(|os\.remove|\.rmdir\("),
        re.compile(r"\.write_(text|bytes)\("),
    )
    modules = {path.relative_to(REPO).as_posix(): path.read_text() for path in kit_files()}
    assert {name for name, text in modules.items() if removing.search(text)} <= ALLOWED
    written = {
        name for name, text in modules.items() if writing.search(text) and not name.startswith("sciencedesk/")
    }
    makers = "formats/logs", "formats/messages", "formats/agentrewardbench", "show/viewer/page"
    study = {f"coda_study/{name}.py" for name in makers}
    assert written <= {"coda_lib/files.py"} | study  # into new folders


def test_committed_results_are_kept(tmp_path, monkeypatch):
    assert REFERENCE.is_dir() and kind_of(REFERENCE) is None
    monkeypatch.setattr(owned, "REFERENCE", tmp_path)
    claim(tmp_path / "laptop", "run")
    (tmp_path / "laptop" / "tables").mkdir()
    with pytest.raises(UserError, match="is not removed"):
        remove(tmp_path / "laptop" / "tables")


def test_json_bytes_and_hashes(tmp_path):
    write_json(tmp_path / "a.json", {"β": 0.1, "a": None})
    assert read_json(tmp_path / "a.json") == {"β": 0.1, "a": None}
    assert "β" in (tmp_path / "a.json").read_text(encoding="utf-8")
    write_bytes(tmp_path / "b", b"abc")
    assert (
        sha256(tmp_path / "b") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )  # FIPS 180-2


def test_the_folder_of_sockets_is_short_whatever_tmpdir_is(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("t" * 90)))
    with socket_folder() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/{'s' * 40}")
    assert not Path(folder).exists()
