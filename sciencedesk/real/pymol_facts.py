"""What follows from PyMOL's state for the tasks of its task space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SETTINGS = {  # those that its task space is about: a menu's entry, or a number
    "seq_view": False, "internal_gui": True, "orthoscopic": False, "valence": True, "depth_cue": True,
    "line_smooth": True, "sphere_scale": 1.0, "stick_radius": 0.25, "line_width": 1.49, "ribbon_width": 3.0,
    "label_size": 14.0, "transparency": 0.0, "seq_view_format": 0, "seq_view_label_mode": 2,
    "mouse_selection_mode": 1,
}  # fmt: skip
LETTERS = {
    "ALA": "A", "CYS": "C", "ASP": "D", "GLU": "E", "PHE": "F", "GLY": "G", "HIS": "H", "ILE": "I",
    "LYS": "K", "LEU": "L", "MET": "M", "ASN": "N", "PRO": "P", "GLN": "Q", "ARG": "R", "SER": "S",
    "THR": "T", "VAL": "V", "TRP": "W", "TYR": "Y",
}  # fmt: skip
COLORS = {  # the colors of its task space by PyMOL's names
    "white": "#ffffff", "black": "#000000", "red": "#ff0000", "green": "#00ff00", "blue": "#0000ff",
    "yellow": "#ffff00", "magenta": "#ff00ff", "cyan": "#00ffff", "orange": "#ff8000", "grey": "#808080",
    "purple": "#bf00bf", "pink": "#ffa6d9", "salmon": "#ff9999", "slate": "#8080ff", "violet": "#ff80ff",
    "teal": "#00bfbf", "olive": "#c4b200", "wheat": "#fcd1a6", "marine": "#0080ff", "forest": "#339933",
    "firebrick": "#b22121", "chocolate": "#8e391c", "brown": "#a6522b", "hotpink": "#ff0080",
    "lime": "#80ff80", "limon": "#bfff40", "deepteal": "#1a9999", "deepblue": "#4040a6",
    "deeppurple": "#991a99", "deepolive": "#99991a", "density": "#1a1a99", "ruby": "#993333",
    "raspberry": "#b24d66", "sand": "#b88c4d", "skyblue": "#3380cc", "warmpink": "#d93380",
    "palegreen": "#a6e5a6", "aquamarine": "#80ffff", "lightblue": "#bfbfff", "limegreen": "#00ff80",
    "splitpea": "#85bf00", "smudge": "#8cb266", "brightorange": "#ffb233", "purpleblue": "#8000ff",
    "lightorange": "#ffcc80", "lightteal": "#66b2b2", "paleyellow": "#ffff80", "silver": "#c0c0c0",
}  # fmt: skip
NAMED = {tint: name for name, tint in COLORS.items()}


def facts_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a state: see `PyMOL.facts`."""
    kinds, molecules = (_grouped(state["atoms"], key) for key in ("resn", "object"))
    return {
        "ways": {kind: _ways(atoms) for kind, atoms in kinds.items()},
        "tints": {kind: _tint(atoms) for kind, atoms in kinds.items()},
        "chosen": {name: _kind(name, kinds) for name in state["selections"]},
        "molecules": {
            name: {"sequence": _sequence(atoms), "tint": _tint(atoms), "ways": _ways(atoms)}
            for name, atoms in molecules.items()
        },
        "objects": {name: about["enabled"] for name, about in state["objects"].items()},
        "background": NAMED.get(state["background"]), "scenes": state["scenes"],
        "settings": {name: state["settings"][name] for name in SETTINGS},
    }  # fmt: skip


def _grouped(atoms: Iterable[Mapping[str, Any]], key: str) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for atom in atoms:
        groups.setdefault(atom[key], []).append(atom)
    return groups


def _ways(atoms: Sequence[Mapping[str, Any]]) -> list[str]:
    """The representations in which all these atoms are shown."""
    return sorted(set.intersection(*(set(atom["shown"]) for atom in atoms)))


def _tint(atoms: Iterable[Mapping[str, Any]]) -> str | None:
    """The color that all these atoms have, if it is one of `COLORS`."""
    tints = {atom["color"] for atom in atoms}
    return NAMED.get(tints.pop()) if len(tints) == 1 else None


def _sequence(atoms: Iterable[Mapping[str, Any]]) -> str:
    return "".join(LETTERS.get(atom["resn"], "?") for atom in atoms if atom["name"] == "CA")


def _kind(selection: str, kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> str | None:
    """The kind of residue whose atoms make up a selection; None where it is another choice of atoms."""
    chosen = [kind for kind, atoms in kinds.items() if any(selection in atom["selections"] for atom in atoms)]
    whole = len(chosen) == 1 and all(selection in atom["selections"] for atom in kinds[chosen[0]])
    return chosen[0] if whole else None
