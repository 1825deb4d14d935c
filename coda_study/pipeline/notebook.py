"""Run one notebook headlessly: checked parameters, an executed copy that is complete or absent, its cost.

The kernel is this interpreter, whatever kernels are installed, with one BLAS/OpenMP thread unless the
notebook sets more: stages run side by side, and two processes with default threading slow each other down
several times.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from coda_lib.errors import StageError, UserError
from coda_lib.files import read_json, socket_folder
from coda_lib.paths import display
from coda_lib.processes import meanwhile
from coda_study.notebooks import fault_of
from coda_study.owned import remove
from coda_study.pipeline.kernel import Fork, kernel_manager

ADDED_CELLS = {"injected-parameters", "papermill-error-cell-tag"}  # by papermill, to the executed copy


def declared_parameters(notebook: Path) -> dict[str, str]:
    """The parameters of the cell tagged `parameters`, each with its type as annotated, or 'None'."""
    import papermill

    if not notebook.exists():
        raise UserError(f"there is no notebook {display(notebook)}")
    with warnings.catch_warnings():  # that the cell is missing is said where a parameter is asked for
        warnings.simplefilter("ignore")
        inspected = papermill.inspect_notebook(str(notebook))
    return {name: entry["inferred_type_name"] for name, entry in inspected.items()}


def check_parameters(notebook: Path, given: Mapping[str, Any]) -> None:
    """UserError if the notebook does not declare a given parameter, or it cannot have that value."""
    declared = declared_parameters(notebook)
    for name, value in given.items():
        if name not in declared:
            known = ", ".join(declared) or "none: it has no cell tagged 'parameters'"
            raise UserError(f"{display(notebook)}: unknown parameter {name!r}; it declares {known}")
        if fault := fault_of(name, declared[name], value):
            raise UserError(f"{display(notebook)}: {fault}")


def read_parameters(notebook: Path, pairs: Sequence[str]) -> dict[str, Any]:
    """'name=value' pairs as values: text where the notebook declares text, else read as YAML."""
    declared = declared_parameters(notebook)
    named = [(name, text) for name, _, text in (pair.partition("=") for pair in pairs)]
    return {name: text if declared.get(name) == "str" else yaml.safe_load(text) for name, text in named}


def source_hash(notebook: Path) -> str:
    """SHA-256 of the cells of a notebook as they are written: outputs, counts and a viewer's marks differ."""
    cells = read_json(notebook)["cells"]
    parts = [(c["cell_type"], "".join(c["source"]), c["metadata"].get("tags", [])) for c in cells]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def execute(notebook: Path, copy: Path, parameters: Mapping[str, Any], kernel: Fork | None = None) -> float:
    """Run `notebook` in `kernel` or a new process; write the executed `copy`, which is complete or absent.

    Returns the largest memory of its kernel and all processes below it together, in MB.  UserError for an
    unknown notebook or parameter, StageError naming the cell and the exception when a cell fails; the partly
    executed one is then kept beside it as NAME.failed.ipynb.
    """
    check_parameters(notebook, parameters)
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    # written cell by cell; becomes one of the others at the end
    running, failed = (copy.with_name(f"{copy.stem}.{state}.ipynb") for state in ("running", "failed"))
    copy.parent.mkdir(parents=True, exist_ok=True)
    for path in (copy, failed, running):
        remove(path)
    fault, cause = None, None
    with _peak_memory() as peak, socket_folder() as sockets:
        how = {"kernel_name": "python3", "language": "python", "progress_bar": False, "cwd": notebook.parent}
        how["kernel_manager_class"] = kernel_manager(sockets, kernel)
        try:
            cells = papermill.execute_notebook(notebook, running, dict(parameters), **how).cells
            if any(cell.metadata.papermill.get("status") != "completed" for cell in cells):
                fault = "SystemExit", "the cell ended the notebook before its last one"
        except papermill.PapermillExecutionError as error:
            fault, cause = (error.ename, error.evalue), error
        except (DeadKernelError, CellTimeoutError) as error:
            reason = f"the notebook's process died ({error}); it may have run out of memory"
            fault, cause = (reason, f"largest size seen: {peak[0] / 2**20:.0f} MB"), error
        finally:
            if running.exists():
                os.replace(running, failed)
    if fault:
        raise StageError(_describe(notebook, failed, *fault)) from cause
    os.replace(failed, copy)
    # exact for any one child that has ended, where sampling may miss a short peak; kB but on macOS
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    return round(max(peak[0], largest) / 2**20, 1)


@contextmanager
def _peak_memory(interval_s: float = 1.0) -> Iterator[list[int]]:
    """Yield a list whose item grows to the most memory, in bytes, that all descendants used together."""
    peak, me = [0], psutil.Process()

    def watch() -> None:
        total = 0
        for child in me.children(recursive=True):
            with suppress(psutil.Error):  # the child ends between the two lines
                total += child.memory_info().rss
        peak[0] = max(peak[0], total)

    with meanwhile(watch, interval_s):
        yield peak


def _describe(notebook: Path, copy: Path, name: str, value: str) -> str:
    """Return one message: which notebook, which cell, what was raised, where to look."""
    import nbformat

    if not copy.exists():
        return f"{display(notebook)}: {name}: {value}"
    cells = nbformat.read(copy, as_version=4).cells
    written = [cell for cell in cells if not ADDED_CELLS.intersection(cell.metadata.get("tags", []))]
    where = "before its first cell"
    for number, cell in enumerate(written, 1):
        if cell.metadata.papermill.get("start_time"):
            first = next((line.strip() for line in cell.source.splitlines() if line.strip()), "")
            where = f"cell {number} (`{first}`)"
    return f"{display(notebook)}, {where}: {name}: {value}; see the partly executed copy {copy.absolute()}"
