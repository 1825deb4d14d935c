"""ScienceBoard's editions, known by the sums of their files, and which of their keys are wrong."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections import Counter

import ephem
import numpy as np
import pytest
from board_files import each_edition, names

from coda_lib.applications import APPLICATIONS
from coda_lib.paths import DATA, REPO
from sciencedesk.board import keys
from sciencedesk.board.editions import EDITIONS, FOLDER, NONE, Files, files, sums
from sciencedesk.board.files import load_board_task

RELEASE, VERIFIED = (sums(edition) for edition in EDITIONS)


def of(edition: str, app: str) -> dict[str, str]:
    return {name: found for name, found in sums(edition).items() if name.startswith(f"{app}/")}


def test_the_release_has_the_papers_tasks_and_the_corrected_edition_all_but_one_of_them():
    counts = Counter(name.partition("/")[0] for name in RELEASE)
    assert counts == {app.board: app.test_tasks for app in APPLICATIONS if app.trained and app.board}
    assert RELEASE.keys() - VERIFIED.keys() == {"ChimeraX/D-03.json"} and VERIFIED.keys() < RELEASE.keys()
    changed = {name for name in VERIFIED if VERIFIED[name] != RELEASE[name]}
    assert len(changed) == 17
    said = {f"{task}.json" for task, key in keys.load_keys().items() if key.changed}
    assert said == changed | {"ChimeraX/D-03.json"}


def test_the_page_lists_every_changed_file_and_the_digests_of_both_editions():
    page = (REPO / "docs" / "scienceboard.md").read_text()
    rows = dict(re.findall(r"^\| (\w+/[A-D]-\d\d) \| (.*?) \|$", page, re.M))
    assert rows == {task: key.changed for task, key in keys.load_keys().items() if key.changed}
    for edition in EDITIONS:
        assert Files(sums(edition)).digest[:12] in page
    assert "127 of 127" in page and "125 of 126" in page


def test_a_digest_is_that_of_the_list_that_sha256sum_prints():
    for edition in EDITIONS:
        listed = (FOLDER / f"{edition}.sha256").read_bytes()
        assert Files(sums(edition)).digest == hashlib.sha256(listed).hexdigest()


@pytest.mark.parametrize("app", ["KAlgebra", "ChimeraX"])
def test_files_are_named_by_their_edition_and_by_what_differs_from_it(app):
    release, verified = of("release", app), of("verified", app)
    assert str(Files(release)) == f"release, {Files(release).digest[:12]}"
    assert str(Files(verified)).startswith("verified, ")
    alike = dict(release.items() & verified.items())
    assert str(Files(alike)).startswith(f"release and verified ({len(alike)} of {len(release)} files), ")
    name = next(iter(release))
    less = {other: found for other, found in release.items() if other != name}
    assert f"release ({len(less)} of {len(release)} files), " in str(Files(less))
    edited = Files(release | {name: "0" * 64})
    assert str(edited).startswith(f"{NONE} (1 of {len(release)} files are not of the release one), ")
    assert len({Files(part).digest for part in (release, verified, alike, less, edited.sums)}) == 5


def test_the_kits_own_tasks_are_of_no_edition_and_what_is_no_file_has_no_sum(tmp_path):
    ours = files((DATA / "tasks" / "apps" / "KAlgebra").glob("*.json"))
    assert str(ours) == f"{NONE}, {ours.digest[:12]}" and all(ours.sums.values())
    (tmp_path / "KAlgebra" / "A-01.json").mkdir(parents=True)
    assert files([tmp_path / "KAlgebra" / "A-01.json"]).sums == {"KAlgebra/A-01.json": ""}
    odd = tmp_path / os.fsdecode(b"\xff.json")
    odd.write_text("{}")
    assert str(files([odd])).startswith(NONE) and files([]).edition == NONE


# ---- keys ------------------------------------------------------------------------------------------------


def test_sympy_finds_three_keys_of_the_release_wrong_and_none_of_the_corrected_edition():
    found = {(edition, key.task): said for edition, key, said in keys.decided() if key.how == "SymPy"}
    assert found.keys() == {("release", f"KAlgebra/C-{number}") for number in ("07", "12", "14")}
    assert (
        "(3, -1.961) a point of what is asked for, whose sides there are 12.48 and 16"
        in found["release", "KAlgebra/C-12"]
    )
    assert "8 and 2" in found["release", "KAlgebra/C-14"]  # the squares of the radii 2.83 and 1.41


@pytest.mark.parametrize(
    ("name", "point", "on", "right"),
    [
        ("A-02", (math.e, 1), True, True), ("A-02", (math.e, 1.001), True, False),
        ("A-02", (-16, 3), False, True), ("C-08", (1, 0), True, True),
        ("C-13", (2, 6 * math.exp(-2) - 1), True, True),
        ("C-13", (2, 2 * math.exp(2) - 1), True, False), ("C-15", (0, 0, 3), False, False),
        ("C-16", (0, 0, -2), True, True), ("C-17", (1, 0, 0), True, True),
    ],
)  # fmt: skip
def test_a_point_of_a_key_is_compared_with_what_is_asked_for(name, point, on, right):
    assert (keys.point_fault(name, point, on) is None) is right


@each_edition("KAlgebra")
def test_all_points_and_numbers_of_kalgebras_keys_are_decided_by_sympy(edition, app, folder):
    listed = {key.task: key for which, key, _ in keys.decided() if which == edition and key.how == "SymPy"}
    wrong, decided = {}, set()
    for name in names(edition, app):
        board = load_board_task(folder / f"{name}.json")
        wrong[f"KAlgebra/{name}"] = list(keys.faults(name, board))
        decided |= {name} if name in keys.PLOTS.keys() | keys.NUMBERS.keys() else set()
    assert {task for task, said in wrong.items() if said} == listed.keys()
    for task, key in listed.items():  # the point that is committed is one of the key's
        assert key.fault(edition) in wrong[task]
    # the others: no such function, a constant, a plot to remove, a style
    assert names(edition, app) - decided == {"A-04", "B-02", "B-03"}


@each_edition("KAlgebra")
def test_a_number_that_is_wrong_is_found(edition, app, folder):
    for name in ("A-01", "C-01", "C-03", "D-03"):
        raw = json.loads((folder / f"{name}.json").read_text())
        (item,) = raw["evaluate"]
        board = load_board_task(folder / f"{name}.json")
        other = {"A-01": "1+i", "C-01": 1.5, "C-03": ["46367"], "D-03": ["2"]}[name]
        changed = board.evaluate[0].model_copy(update={"args" if item["type"] == "stop" else "value": other})
        assert not list(keys.faults(name, board))
        assert len(list(keys.faults(name, board.model_copy(update={"evaluate": [changed]})))) == 1


def test_what_is_said_of_celestias_keys_is_what_pyephem_and_the_catalogue_give():
    listed = keys.load_keys()
    magnitude = -12.67 + 5 * math.log10(65_230 / 32.6156)  # light years in 10 parsecs
    assert f"of magnitude {magnitude:.2f}" in listed["Celestia/C-09"].wrong["release"]

    def off(minute: int) -> tuple[float, float]:
        """Distance of the Moon from the axis of the Earth's shadow, and of the penumbra's rim, in degrees."""
        at = ephem.Date(ephem.Date("2056/12/21 22:00") + minute / 1440)
        sun, moon = ephem.Sun(at), ephem.Moon(at)
        apart = ephem.separation((sun.g_ra, sun.g_dec), (moon.g_ra, moon.g_dec))
        parallax = math.asin(6378.14 / (moon.earth_distance * ephem.meters_per_au / 1000))
        rim = 1.02 * 0.99834 * parallax + math.radians(8.794 / 3600) + sun.radius + moon.radius
        return math.degrees(math.pi - apart), math.degrees(rim)

    first = next(minute for minute in range(400) if off(minute)[0] < off(minute)[1])
    middle = min(range(400), key=lambda minute: off(minute)[0])
    assert 95 < first < 105 and middle == 227  # 23:35 to 23:45 on the 21st, 01:47 on the 22nd
    assert "(about 23:40 UTC)" in (said := listed["Celestia/D-02"].wrong["release"]) and "(01:47 UTC)" in said

    def vector(body: ephem.Body, distance: float) -> np.ndarray:
        """A place seen from the Sun; PyEphem gives the Earth's with the Sun."""
        flat = math.cos(body.hlat) * distance
        height = math.sin(body.hlat) * distance
        return np.array([flat * math.cos(body.hlong), flat * math.sin(body.hlong), height])

    apart, ascensions = [], []
    for hour in (0, 24):
        sun, mars = ephem.Sun(), ephem.Mars()
        for body in (sun, mars):
            body.compute(ephem.Date(ephem.Date("2150/5/28") + hour / 24), epoch="2000")
        from_mars = -vector(mars, mars.sun_distance)
        seen = [from_mars, from_mars + vector(sun, sun.earth_distance)]
        cosine = seen[0] @ seen[1] / np.linalg.norm(seen[0]) / np.linalg.norm(seen[1])
        apart.append(f"{math.degrees(math.acos(cosine)):.1f}")
        places = [(math.atan2(y, x), math.atan2(z, math.hypot(x, y))) for x, y, z in seen]
        of_sun, of_earth = (ephem.Equatorial(ephem.Ecliptic(*place)).ra for place in places)
        ascensions.append(f"{math.degrees(of_earth - of_sun) % 360:.1f}")
    assert " to ".join(apart) in (said := listed["Celestia/D-03"].wrong["release"])
    assert " to ".join(ascensions) in said


# ---- the command -----------------------------------------------------------------------------------------


@each_edition("GrassGIS")
def test_the_command_names_edition_refused_files_and_wrong_keys(coda, edition, app, folder, tmp_path):
    shutil.copytree(folder, tmp_path / app)
    code, shown, _ = coda("tasks", "check", str(tmp_path))
    assert f"{edition}, {Files(of(edition, app)).digest[:12]}" in shown
    assert f"{edition} GrassGIS/D-01: " in shown
    assert ("GrassGIS/B-09: " in shown) is (edition == "release")
    assert code == (edition == "verified") and ("B-12.json: field evaluate" in shown) is bool(code)
    assert f"{34 - code} of 34" in shown
