"""coda_lib and sciencedesk as distributions of their own: pins, wheels, and what a world loads of them."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

import coda_lib
from coda_lib.paths import REPO

PACKAGES = ("coda_lib", "sciencedesk")
HEAVY = ("torch", "transformers", "pandas", "trl")
INSIDE_OTHERS = ("grass_hook.py", "pymol_hook.py")  # run by the Python of GRASS and of PyMOL
SEPARATE = {"openenv"}  # installed by its own list: docs/ecosystem.md
OTHER_DISTRIBUTIONS = {  # required for a module that another distribution holds, or that is not installed
    "httpcore": ["httpx"], "shiboken6": ["PySide6-Essentials"], "peft": ["peft"], "coda_lib": ["coda-lib"],
    "rapidocr_onnxruntime": ["rapidocr-onnxruntime"],
}  # fmt: skip
SERVING = {"fastapi", "uvicorn"}  # of `transformers serve`, a process of its own
PLAY = f"""
import sys
import gymnasium
import sciencedesk
env = gymnasium.make("sciencedesk/Algebra-v0")
observation, info = env.reset(seed=1)
env.step(env.action_space.sample())
env.close()
assert info["task"].startswith("algebra/") and observation["instruction"]
assert not set({HEAVY}) & set(sys.modules)
print(sciencedesk.__file__)
"""


def settings(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text())


def requirements(folder: Path) -> set[str]:
    """The requirements of a pyproject.toml and of its extras, without those that are its own extras."""
    project = settings(folder)["project"]
    extras = [pin for pins in project["optional-dependencies"].values() for pin in pins]
    return {pin for pin in [*project["dependencies"], *extras] if not pin.startswith(f"{project['name']}[")}


def normalized(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_pins_and_the_version_are_those_of_the_kit(package):
    kit, part = settings(REPO), settings(REPO / package)
    assert part["project"]["version"] == coda_lib.__version__
    assert requirements(REPO / package) - {f"coda-lib=={coda_lib.__version__}"} <= requirements(REPO)
    assert part["build-system"] == kit["build-system"]
    for field in ("license", "requires-python"):
        assert part["project"][field] == kit["project"][field]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_imported_package_is_required_and_no_other(package):
    imported = set()
    paths = [path for path in (REPO / package).rglob("*.py") if path.name not in INSIDE_OTHERS]
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
    imported -= {*sys.stdlib_module_names, *SEPARATE, package}
    installed = packages_distributions() | OTHER_DISTRIBUTIONS
    wanted = {name: {normalized(distribution) for distribution in installed[name]} for name in imported}
    required = {normalized(pin.partition("==")[0]) for pin in requirements(REPO / package)}
    assert not [name for name, any_of in wanted.items() if not any_of & required]
    assert required - SERVING <= set.union(*wanted.values())


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """The wheels, built from copies of the folders without a network."""
    folder = tmp_path_factory.mktemp("wheels")
    for package in PACKAGES:
        shutil.copytree(REPO / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPO / "data" / "tasks", folder / "data" / "tasks")
    build = f"{sys.executable} -m pip wheel --quiet --no-deps --no-build-isolation --no-index".split()
    found = {}
    for package in PACKAGES:
        subprocess.run([*build, "--wheel-dir", folder, folder / package], check=True, capture_output=True)
        (found[package],) = folder.glob(f"{package}-*.whl")
        assert sorted(path.name for path in (folder / package).iterdir()) == sorted(
            path.name for path in (REPO / package).iterdir() if path.name != "__pycache__"
        )
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_a_wheel_has_all_modules_and_data_files_and_nothing_else(wheels, package):
    names = {name for name in ZipFile(wheels[package]).namelist() if ".dist-info/" not in name}
    files = [path for path in (REPO / package).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    wanted = {str(path.relative_to(REPO)) for path in files} - {f"{package}/pyproject.toml"}
    if package == "coda_lib":
        tasks = [path for path in (REPO / "data" / "tasks").rglob("*") if path.is_file()]
        wanted |= {f"coda_lib/{path.relative_to(REPO)}" for path in tasks}
    assert names == wanted
    assert (
        package != "sciencedesk"
        or {
            "sciencedesk/real/openbox.xml",
            "sciencedesk/adapters/openenv/openenv.yaml",
            "sciencedesk/adapters/openenv/requirements.txt",
        }
        <= names
    )


def test_an_installed_world_is_made_and_played_without_pytorch(wheels, tmp_path):
    for wheel in wheels.values():
        ZipFile(wheel).extractall(tmp_path / "site")
    environment = {"PYTHONPATH": str(tmp_path / "site"), "QT_QPA_PLATFORM": "offscreen"}
    played = subprocess.run(
        [sys.executable, "-c", PLAY],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    assert Path(played.stdout.strip()) == tmp_path / "site" / "sciencedesk" / "__init__.py"


def test_a_world_of_this_repository_is_made_and_played_without_pytorch():
    played = subprocess.run(
        [sys.executable, "-c", PLAY], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert played.returncode == 0, played.stderr
