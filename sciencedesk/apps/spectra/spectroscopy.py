"""The spectra of Spectra: published lines of a few lamps and of the Sun, as a spectrometer would record them.

Lines are (air wavelength in nm, relative intensity).  Hydrogen, helium and sodium: NIST Handbook of Basic
Atomic Spectroscopic Data (SRD 108), of sodium those of at least 100; neon from 10000 and mercury from 400 up:
NIST Atomic Spectra Database (SRD 78).  Fine structure closer than 0.05 nm is one line, its intensities added.
The Sun: Fraunhofer lines with their equivalent widths in mA (Moore, Minnaert and Houtgast 1966, NBS Monograph
61).  Wavelengths are the tables'; intensities serve the picture alone and are not to be cited: NIST calls its
own a rough guide, and those of hydrogen, helium and the Sun were not compared with the tables again.  Traces
show their square root, so that faint lines are seen beside strong ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import grey_opening, uniform_filter1d
from scipy.signal import find_peaks, peak_widths, savgol_filter

LINES = {
    "Hydrogen": ((383.54, 5), (388.91, 6), (397.01, 8), (410.17, 15), (434.05, 30), (486.13, 80),
    (656.28, 300)), "Helium": ((388.86, 500), (396.47, 20), (402.62, 50), (412.08, 12), (438.79, 10),
    (447.15, 225), (471.31, 34),
               (492.19, 20), (501.57, 100), (504.77, 10), (587.56, 600), (667.82, 100), (706.52, 230),
               (728.13, 50)),
    "Sodium": ((568.26, 280), (568.82, 560), (588.995, 80000), (589.592, 40000), (615.42, 120),
    (616.07, 240)), "Neon": ((534.11, 10000), (540.06, 20000), (585.25, 20000), (588.19, 10000),
    (603.00, 10000), (607.43, 10000),
             (614.31, 10000), (616.36, 10000), (621.73, 10000), (626.65, 10000), (633.44, 10000),
             (638.30, 10000), (640.22, 20000), (650.65, 15000), (659.90, 10000), (692.95, 100000),
             (702.405, 34000), (703.24, 85000), (717.39, 77000), (724.52, 77000), (743.89, 60000),
             (748.89, 32000)),
    "Mercury": ((365.02, 9000), (365.48, 3000), (366.33, 2000), (404.66, 12000), (407.78, 1000),
    (435.83, 12000),
                (546.07, 6000), (567.58, 600), (576.96, 1000), (579.07, 900), (580.38, 400), (671.63, 600),
                (690.75, 1000), (708.19, 1000), (709.19, 800)),
    "Sun": ((393.37, 20253), (396.85, 15467), (410.17, 3133), (422.67, 1476), (434.05, 2855), (438.36, 1008),
            (486.13, 3680), (516.73, 935), (517.27, 1259), (518.36, 1584), (526.96, 478), (588.995, 752),
            (589.592, 564), (656.28, 4020)),
}  # fmt: skip
ELEMENTS = ("Hydrogen", "Helium", "Sodium", "Neon", "Mercury")
# what the application does not tell
SAMPLES = {"Sample A": "Helium", "Sample B": "Mercury", "Sample C": "Neon"}
LAMPS = (*ELEMENTS, "Sun", *SAMPLES)

LOW, HIGH = 350, 750  # nm, what the detector covers
GRID = np.linspace(LOW, HIGH, 4001)  # (4001,) wavelengths in nm, one for each of the detector's pixels
_NM_PER_UM = 0.04  # reciprocal linear dispersion: a slit of 25 um passes 1 nm
_OPENING = 401  # pixels: 40 nm, wider than any line and narrower than the background


class Peak(NamedTuple):
    wavelength: float  # nm, the middle of the peak at half its prominence
    height: float  # counts
    width: float  # nm, at half its prominence


def resolution(slit: int) -> float:
    """Full width at half maximum, in nm, of a sharp line behind a slit of so many um."""
    return slit * _NM_PER_UM


def strengths(source: str) -> tuple[tuple[float, float], ...]:
    """The lines of a source as (nm, strength from 0 to 1)."""
    most = max(intensity for _, intensity in LINES[source])
    return tuple((line, (intensity / most) ** 0.5) for line, intensity in LINES[source])


def dark(lamp: str) -> bool:
    """Whether the lines are dark ones, in a continuum."""
    return lamp == "Sun"


@lru_cache(maxsize=64)
def recorded(lamp: str, slit: int) -> np.ndarray:
    """Counts (4001,) on `GRID`: lines as wide as the slit, stray light, and noise that a wide slit lowers."""
    width, lines = resolution(slit), np.zeros_like(GRID)
    for line, strength in strengths(SAMPLES.get(lamp, lamp)):
        lines += strength * np.exp(-4 * np.log(2) * ((GRID - line) / width) ** 2)
    if dark(lamp):  # Planck's law at the Sun's temperature; 14388 um K is the second radiation constant
        planck = GRID**-5 / np.expm1(14388e3 / (GRID * 5772))
        counts = 1000 * planck / planck.max() * (1 - 0.8 * lines)
    else:
        counts = 1000 * lines + 120 + 180 * np.exp(-(((GRID - 560) / 130) ** 2))
    # this generator's stream is frozen
    noise = np.random.RandomState(LAMPS.index(lamp)).normal(size=GRID.size)
    return counts + 3 * (25 / slit) ** 0.5 * noise


@lru_cache(maxsize=256)
def processed(lamp: str, slit: int, window: int, inverted: bool, baseline: bool) -> np.ndarray:
    """The recorded counts (4001,), if so wanted smoothed (Savitzky-Golay), inverted, without baseline."""
    counts = recorded(lamp, slit)
    if window > 1:
        counts = savgol_filter(counts, window, 2)
    if inverted:
        counts = counts.max() - counts
    if baseline:
        counts = counts - uniform_filter1d(grey_opening(counts, _OPENING), _OPENING)
    return counts


def trace(v: Mapping[str, Any]) -> np.ndarray:
    """The counts (4001,) that the application's state shows."""
    return processed(v["lamp"], v["slit"], v["window"], v["inverted"], v["baseline"])


@lru_cache(maxsize=256)
def _peaks(
    lamp: str, slit: int, window: int, inverted: bool, baseline: bool, threshold: int
) -> dict[str, Peak]:
    counts = processed(lamp, slit, window, inverted, baseline)
    places, _ = find_peaks(counts, prominence=threshold / 100 * counts.max())
    widths, _, left, right = peak_widths(counts, places)
    step = GRID[1] - GRID[0]
    middles = GRID[0] + step * (left + right) / 2
    found = zip(middles, counts[places], step * widths, strict=True)
    return {f"{peak[0]:.1f}": Peak(*map(float, peak)) for peak in found}


def peaks(v: Mapping[str, Any]) -> dict[str, Peak]:
    """The peaks by their wavelength in nm, in its order; none before they have been looked for."""
    if not v["found"]:
        return {}
    return _peaks(v["lamp"], v["slit"], v["window"], v["inverted"], v["baseline"], v["threshold"])


def scores(v: Mapping[str, Any]) -> dict[str, float]:
    """How well the peaks fit each element (Dice): the share of peaks and lines that have a partner."""
    found = [peak.wavelength for peak in peaks(v).values()]
    near = max(resolution(v["slit"]), 0.5)
    result = {}
    for element in ELEMENTS:
        lines = [line for line, strength in strengths(element) if 100 * strength >= v["threshold"]]
        pairs = [(a, b) for a in found for b in lines if abs(a - b) <= near]
        paired = len({a for a, _ in pairs}) + len({b for _, b in pairs})
        result[element] = paired / max(1, len(found) + len(lines))
    return result
