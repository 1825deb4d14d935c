"""What is installed, what is pinned, and what the files around the library say."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib.metadata import requires, version

import pytest
import yaml
from packaging.markers import Marker

import coda_lib
from coda_lib.paths import REPO
from coda_study.pipeline.dependencies import PACKAGES

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11", "3.12", "3.13")
BUILD = tomllib.loads((REPO / "pyproject.toml").read_text())["build-system"]["requires"]
PINS = [
    *PROJECT["dependencies"],
    *(pin for pins in PROJECT["optional-dependencies"].values() for pin in pins),
]
APART = PROJECT["optional-dependencies"]["ocr"]  # neither locked nor installed with the rest
WITHOUT_GPU = [pin for pin in PINS if not pin.startswith("vllm") and pin not in APART]


def test_every_dependency_is_pinned_exactly():
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+==[0-9][0-9a-z.]*", pin) for pin in PINS)
    names = [pin.partition("==")[0].lower() for pin in PINS]
    assert len(set(names)) == len(names)


def locked() -> dict[str, list[tuple[str, str | None, int]]]:
    """The lines of requirements.lock by package: version, marker and number of hashes."""
    found: dict[str, list[tuple[str, str | None, int]]] = {}
    for line in (REPO / "requirements.lock").read_text().replace("\\\n", " ").splitlines():
        pin, *hashes = line.split(" --hash=sha256:")
        pin, _, marker = (part.strip() for part in pin.partition(";"))
        name, equals, number = pin.partition("==")
        assert equals and all(re.fullmatch("[0-9a-f]{64}", one.strip()) for one in hashes), line
        found.setdefault(name, []).append((number, marker or None, len(hashes)))
    return found


def test_the_lock_has_every_pin_and_a_hash_of_every_file():
    lines = locked()
    assert len(lines) > 200 and all(hashes for versions in lines.values() for *_, hashes in versions)
    for pin in [*WITHOUT_GPU, *BUILD]:
        name, _, number = pin.lower().partition("==")
        if name != "torch":
            assert [(version, marker) for version, marker, _ in lines[name]] == [(number, None)], pin


def test_the_lock_has_no_build_of_pytorch_and_all_that_each_build_needs():
    names = set(locked())
    assert not [name for name in names if re.match("torch$|nvidia|cuda|triton|vllm", name)]
    plain = [re.split("[^A-Za-z0-9_-]", one)[0].lower() for one in requires("torch") if ";" not in one]
    assert plain and set(plain) <= names


def test_the_lock_holds_for_the_pythons_that_are_promised():
    """Of a package with several lines at most one holds for each."""
    for number in PYTHONS:
        for name, versions in locked().items():
            here = {"python_version": number, "python_full_version": f"{number}.9"}
            holding = [one for one, marker, _ in versions if marker is None or Marker(marker).evaluate(here)]
            assert len(holding) <= 1, (name, number)
    makefile = (REPO / "Makefile").read_text()
    low, high = (tuple(map(int, number.split("."))) for number in (PYTHONS[0], PYTHONS[-1]))
    assert f"not {low} <= sys.version_info < {(high[0], high[1] + 1)}" in makefile
    for page in ("README.md", "docs/reproducibility.md", "Makefile"):
        assert "3.11, 3.12 or 3.13" in (REPO / page).read_text(), page


def test_what_is_installed_is_what_is_locked():
    everywhere = {name: versions[0][0] for name, versions in locked().items() if versions[0][1] is None}
    assert {name: version(name) for name in everywhere} == everywhere


def test_conda_has_the_same_pins_with_pytorch_for_cpus_and_a_gpu_as_an_option():
    text = (REPO / "environment.yml").read_text()
    for_gpus = re.sub(r"      # cpu\n(?:      - .*\n)+", "", text).replace("      # - ", "      - ")
    for gpu, variant in ((False, text), (True, for_gpus)):
        environment = yaml.safe_load(variant)["dependencies"]
        (pip,) = [entry["pip"] for entry in environment if isinstance(entry, dict)]
        (torch,) = (pin for pin in pip if pin.startswith("torch=="))
        assert torch.endswith("+cpu") is not gpu and ("--extra-index-url ${TORCH_INDEX}" in pip) is not gpu
        pins = {pin.removesuffix("+cpu") for pin in pip if not pin.startswith("--")}
        assert pins == {pin for pin in PINS if gpu or not pin.startswith("vllm")} - {*APART}
        assert "--editable ." in pip
    assert any(str(entry).startswith("python=3.1") for entry in environment)


@pytest.mark.parametrize("pin", WITHOUT_GPU)
def test_the_tests_run_with_what_is_pinned(pin):
    name, _, pinned = pin.partition("==")
    assert version(name).partition("+")[0] == pinned


def test_the_promised_versions():
    for pin in (
        "torch==2.13.0",
        "transformers==5.17.0",
        "trl==1.16.0",
        "datasets==5.2.0",
        "accelerate==1.15.0",
    ):
        assert pin in PROJECT["dependencies"]
    assert "vllm==0.31.0" in PROJECT["optional-dependencies"]["gpu"]
    assert PROJECT["requires-python"] == ">=3.11,<3.14"


def test_data_files_of_the_package_are_shipped():
    shipped = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package in PACKAGES:
        files = [
            path
            for path in (REPO / package).rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc") and path.name != "pyproject.toml"
        ]
        names, patterns = (
            [str(path.relative_to(REPO / package)) for path in files],
            shallow(shipped.get(package, [])),
        )
        assert not [name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)]


def shallow(patterns: list[str]) -> list[str]:
    return [pattern.replace("**/", "") for pattern in patterns]


def test_every_module_has_a_docstring_and_can_be_imported():
    folders = [importlib.import_module(package) for package in PACKAGES]
    for module in [
        found for folder in folders for found in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}.")
    ]:
        if (
            not module.name.endswith("grass_hook") and "adapters.openenv." not in module.name
        ):  # of GRASS's Python; of OpenEnv
            assert importlib.import_module(module.name).__doc__ or module.ispkg, module.name


def test_the_licence_is_the_whole_apache_licence():
    text = (REPO / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text


def test_make_lists_its_commands_and_refuses_an_old_python(tmp_path):
    listed = subprocess.run(["make"], cwd=REPO, capture_output=True, text=True, check=True).stdout
    commands = {"reproduce", "check", "test", "lab", "lint", "base-models", "smoke"}
    assert commands <= {line.split()[1] for line in listed.splitlines()}
    (tmp_path / "pyproject.toml").write_text('"torch==2.13.0"')
    (tmp_path / "requirements.lock").write_text("")
    makefile = ["make", "--file", str(REPO / "Makefile"), "reproduce", "PYTHON="]
    refused = subprocess.run(makefile, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "Python 3.11, 3.12 or 3.13 is needed" in refused.stdout


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("gpu", ["", "/dev/nvidiactl"])
def test_without_a_gpu_the_small_build_of_pytorch_is_taken_where_pip_finds_it(tmp_path, found, gpu):
    """A stand-in for Python that writes down what it is asked for."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    small = "0" if found else "1"
    python.write_text(f'#!/bin/sh\necho "$*" >> asked\ncase "$*" in *+cpu) exit {small};; esac\n')
    python.chmod(0o755)
    (tmp_path / "pyproject.toml").write_text('"torch==2.13.0"')
    (tmp_path / "requirements.lock").write_text("")
    makefile = [
        "make",
        "--file",
        str(REPO / "Makefile"),
        ".venv/installed",
        f"GPU={gpu}",
        "TORCH_INDEX=file:///x",
    ]
    done = subprocess.run(makefile, cwd=tmp_path, capture_output=True, text=True, check=True)
    torch = [line for line in (tmp_path / "asked").read_text().splitlines() if "torch==" in line]
    assert [line.endswith("+cpu") for line in torch] == [[True], [True, False], [False], [False]][
        2 * bool(gpu) + (not found)
    ]
    assert ("build for CPUs" in done.stdout) == (found and not gpu) and ("2.7 GB" in done.stdout) == (
        not found or bool(gpu)
    )
    assert all("--extra-index-url file:///x" in line for line in torch if line.endswith("+cpu"))


def test_missing_system_libraries_are_named(tmp_path):
    """A stand-in for Python that installs nothing and cannot load Qt."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        '#!/bin/sh\n[ "$1" = -m ] && exit 0\necho "ImportError: libEGL.so.1: cannot open" >&2\nexit 1\n'
    )
    python.chmod(0o755)
    (tmp_path / "pyproject.toml").write_text('"torch==2.13.0"')
    (tmp_path / "requirements.lock").write_text("")
    makefile = ["make", "--file", str(REPO / "Makefile"), "reproduce"]
    refused = subprocess.run(makefile, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "libEGL.so.1" in refused.stdout and "apt-get install libegl1 " in refused.stdout
    assert not (tmp_path / ".venv" / "installed").exists()


@pytest.mark.parametrize(("user", "arguments", "opened"), [(0, "", 0), (0, "--allow-root", 1), (1000, "", 1)])
def test_jupyterlab_as_root_says_what_to_do(tmp_path, user, arguments, opened):
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name, words in ((".venv/bin/python", f'echo "$@" >> {tmp_path / "asked"}'), ("id", f"echo {user}")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{words}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("pyproject.toml", "requirements.lock", ".venv/installed"):  # in this order
        (tmp_path / name).touch()
    command = ["make", "--file", str(REPO / "Makefile"), "lab", f"ARGS={arguments}"]
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | path, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) == ("make lab ARGS=--allow-root" not in done.stdout) == opened
    asked = (tmp_path / "asked").read_text() if opened else ""
    assert asked.strip() == (f"-m jupyter lab notebooks {arguments}".strip() if opened else "")


def test_ci_is_one_executable_that_tests():
    script = REPO / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in script.read_text()
    packages = re.search(r"QT_PACKAGES := (.*)", (REPO / "Makefile").read_text()).group(1)
    assert packages in script.read_text()


SYSTEM = re.compile(
    r"^(?:[ ]{8}|packages\+?=\")([a-z0-9. -]+?)(?:\"| \\)?$", re.MULTILINE
)  # in Containerfile and .ci/run
FOR_THE_IMAGE = {"ca-certificates", "git"}  # which a machine that has a clone of the kit has


def system_packages(name: str) -> set[str]:
    return {package for line in SYSTEM.findall((REPO / name).read_text()) for package in line.split()}


def test_the_container_file_has_the_system_packages_of_ci_and_of_the_readme():
    container, ci = system_packages("Containerfile"), system_packages(".ci/run")
    assert container == ci | FOR_THE_IMAGE and len(ci) > 20
    needed = re.search(r"apt-get install ([\w. -]+)`", (REPO / "README.md").read_text()).group(1).split()
    assert {*needed, "make", "python3-venv"} <= container


def test_the_container_file_is_well_formed():
    text = (REPO / "Containerfile").read_text()
    joined = re.sub(r"\\\n\s*", "", text)
    words = [line.split()[0] for line in joined.splitlines() if line and not line.startswith("#")]
    assert words[0] == "FROM" and set(words) <= {"FROM", "RUN", "WORKDIR", "COPY", "ENTRYPOINT", "CMD"}
    assert re.search(r"(?m)^FROM debian:12", text)  # as in .ci/run
    for line in (line for line in joined.splitlines() if line.startswith(("COPY", "ENTRYPOINT", "CMD"))):
        if line.startswith("COPY"):
            assert all((REPO / source).exists() for source in line.split()[1:-1]), line
        else:
            assert json.loads(line.partition(" ")[2])
    ignored = (REPO / ".containerignore").read_text().splitlines()
    assert ".venv/" in ignored and "!results/reference/" in ignored


def test_the_install_rule_of_the_container_file_finds_what_it_needs_among_the_copied_files(tmp_path):
    """Only these are there when it runs: the rule's prerequisites, and all that the package is built of."""
    before, rule, _ = (REPO / "Containerfile").read_text().partition("RUN make .venv/installed\n")
    assert rule
    for line in re.findall(r"(?m)^COPY (.+)$", before):
        *sources, target = line.split()
        for source in map(REPO.joinpath, sources):
            if source.is_dir():
                shutil.copytree(source, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, tmp_path / target)
    planned = subprocess.run(
        ["make", "-n", ".venv/installed", f"PYTHON={sys.executable}"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert planned.returncode == 0 and "--requirement requirements.lock" in planned.stdout, planned.stderr
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path / "wheel")]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(tmp_path)], check=True)
    assert list((tmp_path / "wheel").glob("*.whl"))


@pytest.mark.skipif(not shutil.which("apt-cache"), reason="Debian's package lists are not here")
def test_debian_has_every_package_of_the_container_file():
    listed = subprocess.run(
        ["apt-cache", "pkgnames"], capture_output=True, text=True, check=True
    ).stdout.split()
    if "kalgebra" not in listed:
        pytest.skip("the package lists were never fetched: apt-get update")
    assert system_packages("Containerfile") <= set(listed)


def test_citation_and_codemeta_agree_with_the_package():
    citation, meta = (
        yaml.safe_load((REPO / "CITATION.cff").read_text()),
        json.loads((REPO / "codemeta.json").read_text()),
    )
    assert citation["title"] == meta["name"]
    assert citation["version"] == meta["version"] == coda_lib.__version__
    assert citation["license"] == PROJECT["license"] == meta["license"].rpartition("/")[2]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in meta["author"]]
    assert citation["preferred-citation"]["url"] == meta["referencePublication"]
    assert (meta["identifier"], meta["description"]) == (PROJECT["name"], PROJECT["description"])
    assert meta["programmingLanguage"]["version"] == PROJECT["requires-python"]
