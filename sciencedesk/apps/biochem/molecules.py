"""The molecules of Biochem: structures of ASE's own G2 data, turned so that all their atoms can be seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.neighborlist import natural_cutoffs, neighbor_list

# everyday name: (name in ASE's G2 data, turns about x, y and z that show all its atoms, in degrees)
MOLECULES = {
    "acetone": ("CH3COCH3", (90, 45, 0)), "ammonia": ("NH3", (165, 15, 165)),
    "benzene": ("C6H6", (0, 45, 90)), "ethanol": ("CH3CH2OH", (75, 0, 150)), "furan": ("C4H4O", (0, 60, 90)),
    "methane": ("CH4", (0, 0, 15)), "methanol": ("CH3OH", (60, 150, 15)), "water": ("H2O", (90, 90, 0)),
    "DMSO": ("C2H6SO", (105, 0, 0)), "acetaldehyde": ("CH3CHO", (135, 165, 120)),
    "acetamide": ("CH3CONH2", (30, 45, 165)), "acetic acid": ("CH3COOH", (0, 45, 60)),
    "acetonitrile": ("CH3CN", (45, 165, 60)), "acetylene": ("C2H2", (165, 135, 165)),
    "acrylonitrile": ("H2CCHCN", (135, 45, 45)), "allene": ("C3H4_D2d", (75, 45, 90)),
    "aziridine": ("CH2NHCH2", (30, 165, 45)), "benzonitrile": ("C7NH5", (60, 0, 15)),
    "bicyclobutane": ("bicyclobutane", (90, 120, 0)), "butadiene": ("butadiene", (165, 135, 90)),
    "butane": ("trans-butane", (90, 60, 0)), "butyne": ("2-butyne", (150, 165, 120)),
    "carbon dioxide": ("CO2", (105, 90, 90)), "chloroethane": ("CH3CH2Cl", (135, 135, 15)),
    "chloroform": ("HCCl3", (90, 105, 165)), "chloromethane": ("CH3Cl", (150, 120, 120)),
    "chloropropane": ("C3H7Cl", (90, 150, 15)), "cyanogen": ("NCCN", (60, 0, 60)),
    "cyclobutane": ("cyclobutane", (90, 105, 0)), "cyclobutene": ("cyclobutene", (0, 30, 90)),
    "cyclopropane": ("C3H6_D3h", (90, 0, 0)), "cyclopropene": ("C3H4_C2v", (0, 165, 105)),
    "dimethyl ether": ("CH3OCH3", (105, 135, 30)), "dimethylamine": ("C2H6NH", (165, 135, 150)),
    "disilane": ("Si2H6", (45, 30, 75)), "ethane": ("C2H6", (30, 45, 15)),
    "ethanethiol": ("CH3CH2SH", (105, 30, 165)), "ethylamine": ("CH3CH2NH2", (90, 0, 0)),
    "ethylene": ("C2H4", (165, 30, 60)), "fluoroform": ("HCF3", (0, 135, 165)),
    "formaldehyde": ("H2CO", (15, 45, 0)), "formic acid": ("HCOOH", (0, 135, 45)),
    "glyoxal": ("OCHCHO", (120, 165, 30)), "hydrazine": ("N2H4", (105, 150, 165)),
    "isobutane": ("isobutane", (45, 15, 135)), "isobutene": ("isobutene", (105, 45, 105)),
    "isopropanol": ("C2H6CHOH", (60, 165, 165)), "ketene": ("H2CCO", (75, 60, 75)),
    "methanethiol": ("CH3SH", (30, 30, 90)), "methoxyethane": ("CH3CH2OCH3", (105, 120, 15)),
    "methyl formate": ("HCOOCH3", (0, 45, 165)), "methyl nitrite": ("CH3ONO", (150, 45, 135)),
    "methylamine": ("H3CNH2", (45, 30, 135)), "methylsilane": ("CH3SiH3", (30, 30, 75)),
    "nitromethane": ("CH3NO2", (45, 30, 105)), "nitrous oxide": ("N2O", (15, 60, 165)),
    "oxirane": ("CH2OCH2", (60, 15, 120)), "ozone": ("O3", (90, 75, 120)),
    "peroxide": ("H2O2", (165, 0, 105)), "phosphine": ("PH3", (90, 60, 105)),
    "propane": ("C3H8", (15, 0, 90)), "propene": ("C3H6_Cs", (120, 165, 0)),
    "propyne": ("C3H4_C3v", (135, 135, 135)), "pyridine": ("C5H5N", (150, 150, 75)),
    "pyrrole": ("C4H4NH", (90, 30, 90)), "silane": ("SiH4", (60, 75, 135)),
    "sulfane": ("SH2", (150, 90, 165)), "sulfur dioxide": ("SO2", (45, 105, 135)),
    "thiirane": ("CH2SCH2", (15, 150, 105)), "thiophene": ("C4H4S", (0, 150, 90)),
    "trimethylamine": ("C3H9N", (165, 135, 105)), "vinyl chloride": ("H2CCHCl", (165, 60, 45)),
    "vinyl fluoride": ("H2CCHF", (45, 30, 15)),
}  # fmt: skip
SHOWN = [*MOLECULES][:8]  # the molecules in the list, unless a setting names others

ELEMENTS = {
    "C": "Carbon", "H": "Hydrogen", "O": "Oxygen", "N": "Nitrogen", "S": "Sulfur", "F": "Fluorine",
    "Cl": "Chlorine", "Si": "Silicon", "P": "Phosphorus",
}  # fmt: skip


def element(name: str) -> str:
    """The element of an atom: Cl of Cl2."""
    return name.rstrip("0123456789")


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
    of_element = {e: masses[[symbol == e for symbol in symbols]].sum() for e in sorted(set(symbols))}
    shares = tuple((e, float(mass / masses.sum())) for e, mass in of_element.items())
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
    px = [width / 2 + scale * x, height / 2 + scale * points[:, 1], scale * z]
    return np.stack(px, axis=1), float(scale)
