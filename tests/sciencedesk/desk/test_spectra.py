"""Spectra, the application that no model is trained on: its science, its rules and its layout."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtWidgets import QLabel, QPushButton

from coda_lib.task import Task
from sciencedesk.apps.spectra import spectroscopy as science
from sciencedesk.apps.spectra.app import Spectra
from sciencedesk.env import ScienceDesk
from sciencedesk.script import find, to_action

FOUND = {"baseline": True, "found": True}


@pytest.fixture(scope="module")
def window() -> ScienceDesk:
    return ScienceDesk("spectra")


@pytest.fixture
def do(window):
    """Give a function that starts with settings, does script steps and returns the state."""

    def act(settings: dict, *script: dict) -> dict:
        initialize = tuple({"func": "set", "key": key, "value": value} for key, value in settings.items())
        never = {"type": "state", "key": "tab", "value": "?"}
        window.reset(Task("spectra/x", "spectra", "A", "?", 9, initialize, (never,)))
        for step in script:
            window.step(to_action(window.desk, step))
        return window.desk.state()

    return act


def clicks(*names: str) -> list[dict]:
    return [{"click": name} for name in names]


def values(**change) -> dict:
    return dict(Spectra.defaults) | FOUND | change


# -- science -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slit", [5, 10, 25, 50, 100])
@pytest.mark.parametrize("lamp", [*science.ELEMENTS, "Sun"])
def test_every_peak_lies_at_a_published_line_within_the_resolution(lamp, slit):
    found = science.peaks(values(lamp=lamp, slit=slit, inverted=lamp == "Sun", threshold=10))
    lines = [line for line, _ in science.LINES[lamp]]
    assert found
    for peak in found.values():
        assert min(abs(peak.wavelength - line) for line in lines) <= max(science.resolution(slit), 0.1), peak


@pytest.mark.parametrize("lamp", science.ELEMENTS)
def test_every_line_that_is_strong_enough_and_apart_has_its_peak(lamp):
    found = [peak.wavelength for peak in science.peaks(values(lamp=lamp, slit=10, threshold=8)).values()]
    for line, strength in science.strengths(lamp):
        if strength > 0.12 and all(
            abs(line - other) > 1 for other, _ in science.LINES[lamp] if other != line
        ):
            assert min(abs(line - place) for place in found) < 0.1, line


@pytest.mark.parametrize("slit", [5, 10, 25, 50, 100])
def test_a_sharp_line_is_as_wide_as_the_slit_makes_it(slit):
    alone = science.peaks(values(slit=slit))
    strongest = max(alone.values(), key=lambda peak: peak.height)
    assert strongest.wavelength == pytest.approx(656.28, abs=0.05)
    assert strongest.width == pytest.approx(0.04 * slit, rel=0.1)
    assert strongest.height == pytest.approx(1000, rel=0.05)  # the baseline is gone


@pytest.mark.parametrize(("slit", "seen"), [(5, 2), (10, 2), (25, 1), (100, 1)])
def test_a_narrow_slit_resolves_the_sodium_doublet(slit, seen):
    found = science.peaks(values(lamp="Sodium", slit=slit, threshold=20))
    assert len([peak for peak in found.values() if 588 < peak.wavelength < 591]) == seen
    if seen == 2:
        assert list(found) == ["589.0", "589.6"]


def test_smoothing_takes_noise_away_and_keeps_the_lines():
    noisy, smooth = (science.trace(values(slit=25, window=window)) for window in (1, 9))
    quiet = (science.GRID > 520) & (science.GRID < 640)  # hydrogen has no line there
    assert np.std(np.diff(smooth[quiet])) < 0.5 * np.std(np.diff(noisy[quiet]))
    assert smooth.max() > 0.9 * noisy.max()
    many, few = (len(science.peaks(values(slit=5, threshold=2, window=window))) for window in (1, 9))
    assert few < many


def test_the_baseline_is_the_background():
    with_it, without = (science.trace(values(baseline=baseline)) for baseline in (False, True))
    quiet = (science.GRID > 500) & (science.GRID < 640)
    assert with_it[quiet].mean() > 200 and abs(without[quiet].mean()) < 15


def test_the_balmer_lines_follow_rydberg():
    """1 / lambda = R (1/4 - 1/n^2) in vacuum; in air they are shorter by 0.03 %."""
    for n, (line, _) in zip(range(9, 2, -1), science.LINES["Hydrogen"], strict=True):
        assert line == pytest.approx(1e7 / (109677.58 * (1 / 4 - 1 / n**2)), rel=4e-4)


@pytest.mark.parametrize("slit", [5, 25, 100])
@pytest.mark.parametrize("lamp", [*science.ELEMENTS, *science.SAMPLES])
def test_each_element_is_identified_by_its_own_peaks(lamp, slit):
    fits = science.scores(values(lamp=lamp, slit=slit))
    true = science.SAMPLES.get(lamp, lamp)
    assert max(fits, key=lambda element: fits[element]) == true and fits[true] > 0.9
    assert all(fit < 0.4 for element, fit in fits.items() if element != true)


def test_traces_are_the_same_every_time():
    before = science.recorded("Neon", 25).copy()
    science.recorded.cache_clear()
    assert np.array_equal(science.recorded("Neon", 25), before)


# -- rules that the interface does not spell out -----------------------------------------------------------


def test_peaks_are_found_only_once_the_baseline_is_subtracted(do, window):
    assert do({}, *clicks("Analysis", "Find peaks"))["found"] is False
    assert window.desk.status.text() == "The baseline is not subtracted"
    state = do({}, *clicks("Signal", "Subtract baseline", "Analysis", "Find peaks"))
    assert state["found"] is True and state["count"] == 7 and window.desk.status.text() == "Peaks: 7"
    assert do({"baseline": True}, {"press": "ctrl f"})["count"] == 7


def test_dark_lines_are_found_only_in_an_inverted_trace(do, window):
    sun = {"lamp": "Sun", "baseline": True}
    assert (
        do(sun, {"press": "ctrl f"})["found"] is False
        and window.desk.status.text() == "The lines point downwards"
    )
    assert do(sun | {"inverted": True}, {"press": "ctrl f"})["strongest"] == "393.4"
    assert do({"baseline": True, "inverted": True}, {"press": "ctrl f"})["found"] is False


@pytest.mark.parametrize(
    "change",
    [clicks("Signal", "Invert"), clicks("Signal", "Subtract baseline"), [{"drag": ["Slit", "50"]}],
     [*clicks("Signal", "Smoothing"), {"type": "9\n"}], [*clicks("Analysis", "Threshold"), {"type": "9\n"}],
     [{"click": "Lamps"}, {"double": "Neon"}]],
)  # fmt: skip
def test_what_changes_the_trace_forgets_its_peaks(do, change):
    known = FOUND | {"peak": "486.1", "measured": ["486.1", "656.3"], "matched": True}
    assert do(known)["gap"] == "170.2" and do(known)["element"] == "Hydrogen"
    state = do(known, *change)
    assert (state["found"], state["peak"], state["measured"], state["matched"]) == (False, "", [], False)
    assert (state["count"], state["gap"], state["element"]) == (0, "", "")


def test_only_a_selected_peak_is_marked(do, window):
    assert do(FOUND, *clicks("Analysis", "Mark"))["marks"] == []
    assert window.desk.status.text() == "No peak is selected"
    assert do(FOUND, {"click": "486.1"}, *clicks("Analysis", "Mark"))["marks"] == ["486.1"]
    assert do(FOUND, {"right": "656.3"}, {"click": "Mark"}, {"right": "656.3"}, {"click": "Mark"})[
        "marks"
    ] == ["656.3"]
    assert do(FOUND | {"marks": ["486.1"]}, *clicks("File", "Clear marks"))["marks"] == []


def test_lamp_and_slit_stay_while_the_trace_is_on_hold(do, window):
    held = {"held": True}
    assert (
        do(held, {"drag": ["Slit", "5"]})["slit"] == 25
        and window.desk.status.text() == "The trace is on hold"
    )
    assert do(held | {"tab": "Lamps"}, {"double": "Neon"})["lamp"] == "Hydrogen"
    assert do(held | {"tab": "Lamps"}, *clicks("Neon", "Load"))["lamp"] == "Hydrogen"
    assert do(held | {"tab": "Lamps"}, *clicks("Signal", "Hold", "Neon", "Load"))["lamp"] == "Neon"
    do({"tab": "Lamps"}, {"click": "Load"})
    assert window.desk.status.text() == "No lamp is chosen"


def test_another_lamp_has_no_marks(do):
    lamps = {"tab": "Lamps", "marks": ["486.1"]}
    assert do(lamps, {"double": "Helium"})["marks"] == []
    assert do(lamps, {"double": "Hydrogen"})["marks"] == ["486.1"]


@pytest.mark.parametrize(
    "change", [clicks("Range", "Middle"), [{"drag": ["Center", "450"]}], [{"double": "486.1"}],
               [*clicks("Range", "Limits"), {"type": "400"}, {"click": "To"}, {"type": "500\n"}]],
)  # fmt: skip
def test_a_locked_range_stays(do, window, change):
    state = do(FOUND | {"locked": True}, *change)
    assert (state["low"], state["high"]) == (350, 750) and window.desk.status.text() == "The range is locked"
    assert do(FOUND, *change)["high"] < 750


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [(("Signal", "Smoothing"), "8", "odd"), (("Signal", "Smoothing"), "3", "odd"),
    (("Signal", "Smoothing"), "x", "odd"),
     (("Analysis", "Threshold"), "0", "from 2 to 90"), (("Analysis", "Threshold"), "5.5", "from 2 to 90"),
     (("Range", "Limits"), "800", "At least 10 nm"), (("Range", "Limits"), "nan", "At least 10 nm"),
     (("Range", "Limits"), "red", "wavelengths")],
)  # fmt: skip
def test_dialogs_say_why_they_refuse(do, window, path, text, says):
    state = do({}, *clicks(*path), {"type": text + "\n"})
    assert says in window.desk.status.text() and window.desk.dialog is not None
    assert state == do({})


def test_the_nearest_peak(do, window):
    peaks = FOUND | {"tab": "Peaks"}
    assert do(peaks, {"click": "Nearest"}, {"type": "500\n"})["peak"] == "486.1"
    for text, says in {"900": "covers 350 to 750", "red": "wavelength", "nan": "covers"}.items():
        assert (
            do(peaks, {"click": "Nearest"}, {"type": text + "\n"})["peak"] == ""
            and says in window.desk.status.text()
        )
    assert do({"tab": "Peaks"}, {"click": "Nearest"}, {"type": "500\n"})["peak"] == ""
    assert window.desk.status.text() == "No peaks are found"


def test_an_element_is_identified_by_peaks(do, window):
    match = {"tab": "Match", "lamp": "Sample A", "baseline": True}
    assert (
        do(match, {"click": "Identify"})["element"] == ""
        and window.desk.status.text() == "No peaks are found"
    )
    assert do(match, {"press": "ctrl f"}, {"click": "Identify"})["element"] == "Helium"


def test_the_list_of_peaks_is_sorted_as_chosen(do, window):
    rows = {}
    for order in ("height", "position"):
        do(FOUND | {"tab": "Peaks"}, {"click": f"By {order}"})
        rows[order] = [element.name for element in window.desk.elements() if element.role == "row"]
    assert rows["height"][0] == "656.3" and rows["position"] == sorted(rows["height"], key=float)
    state = do(FOUND | {"tab": "Peaks"}, {"double": "486.1"})
    assert (state["tab"], state["low"], state["high"]) == ("Spectrum", 476, 496)


def test_peaks_that_the_plot_does_not_tell_apart_can_be_told_apart_closer_up(do, window):
    sodium = FOUND | {"lamp": "Sodium", "slit": 5}

    def shown(**range_) -> set[str]:
        do(sodium | range_)
        return {element.name for element in window.desk.elements() if "." in element.name}

    assert shown() & {"589.0", "589.6"} == {"589.0"}
    assert shown(low=584, high=594) == {"589.0", "589.6"}
    state = do(sodium | {"low": 584, "high": 594}, {"drag": ["589.6", "589.0"]})
    assert state["measured"] == ["589.0", "589.6"] and state["gap"] == "0.6"


# -- layout ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tab", ["Spectrum", "Peaks", "Lamps", "Match"])
def test_nothing_is_clipped_and_nothing_overlaps(do, window, tab):
    settings = {
        "tab": tab, "lamp": "Hydrogen", "slit": 100, "held": True, "locked": True, "low": 612.5,
        "high": 700.5, "peak": "656.3", "measured": ["410.2", "656.3"], "marks": ["656.3", "486.1"],
        "matched": True, "threshold": 90, "window": 51,
    }  # fmt: skip
    do(FOUND | settings)
    texts = [w for kind in (QLabel, QPushButton) for w in window.desk.findChildren(kind) if w.isVisible()]
    for widget in texts:
        room = widget.contentsRect().width() * (2 if isinstance(widget, QLabel) and widget.wordWrap() else 1)
        assert widget.fontMetrics().horizontalAdvance(widget.text()) <= room, widget.text()
    for widget in window.desk.pages[tab]:
        assert window.desk.rect().contains(widget.geometry())
        for other in window.desk.pages[tab]:
            assert other is widget or not widget.geometry().intersects(other.geometry())
    assert find(window.desk.elements(), "Status").text.startswith("Hydrogen, 100 um, on hold")
