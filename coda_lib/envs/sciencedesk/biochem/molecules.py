"""The molecules of Biochem: structures of ASE's own G2 data, turned so that all their atoms can be seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.neighborlist import natural_cutoffs, neighbor_list

MOLECULES = {  # everyday name: (name in ASE's G2 data, turns about x, y and z that show all its atoms, in degrees)
    "acetone": ("CH3COCH3", (90, 45, 0)), "ammonia": ("NH3", (165, 15, 165)), "benzene": ("C6H6", (0, 45, 90)),
    "ethanol": ("CH3CH2OH", (75, 0, 150)), "furan": ("C4H4O", (0, 60, 90)), "methane": ("CH4", (0, 0, 15)),
    "methanol": ("CH3OH", (60, 150, 15)), "water": ("H2O", (90, 90, 0)),
}  # fmt: skip


@dataclass(frozen=True)
class Structure:
    """A molecule with its atoms named by element and number (C1, H2, ...)."""

    atoms: Atoms
    names: tuple[str, ...]
    bonds: tuple[tuple[int, int], ...]
    formula: str
    mass: int  # in atomic mass units, rounded
    shares: tuple[tuple[str, float], ...]  # element, share of the mass

    def index(self, names: Iterable[str]) -> list[int]:
        return [self.names.index(name) for name in names]


@lru_cache(maxsize=16)
def structure(name: str) -> Structure:
    """One of the molecules, turned so that no atom hides another."""
    key, turns = MOLECULES[name]
    atoms = molecule(key)
    for axis, angle in zip("xyz", turns, strict=True):
        atoms.rotate(angle, axis)
    atoms.positions -= (atoms.positions.max(0) + atoms.positions.min(0)) / 2
    symbols = atoms.get_chemical_symbols()
    names = tuple(f"{symbol}{symbols[: i + 1].count(symbol)}" for i, symbol in enumerate(symbols))
    first, second = neighbor_list("ij", atoms, natural_cutoffs(atoms, mult=1.1))
    bonds = tuple((int(i), int(j)) for i, j in zip(first, second, strict=True) if i < j)
    masses = atoms.get_masses()
    shares = tuple((e, float(masses[[s == e for s in symbols]].sum() / masses.sum())) for e in sorted(set(symbols)))
    return Structure(atoms, names, bonds, atoms.get_chemical_formula(), round(float(masses.sum())), shares)


@lru_cache(maxsize=256)
def view(name: str, turn: int, width: int, height: int) -> tuple[np.ndarray, float]:
    """Points (n, 3) in px of the canvas, z towards the eye, of a turned molecule, and px per Angstrom."""
    points = structure(name).atoms.positions
    reach = np.hypot(points[:, 0], points[:, 2]).max()
    scale = min((width / 2 - 20) / reach, (height / 2 - 18) / max(0.1, np.abs(points[:, 1]).max()), 58)
    angle = np.radians(turn)
    x = points[:, 0] * np.cos(angle) + points[:, 2] * np.sin(angle)
    z = points[:, 2] * np.cos(angle) - points[:, 0] * np.sin(angle)
    return np.stack([width / 2 + scale * x, height / 2 + scale * points[:, 1], scale * z], axis=1), float(scale)
