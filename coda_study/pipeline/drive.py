"""Drive a run: Snakemake over the notebooks, one line of progress a stage, and a manifest at the end.

The stages themselves are in the Snakefile. Snakemake works in the run's folder and writes its own messages to
snakemake.log there; what a person sees comes from the records that the stages keep (`runner.run_stage`).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import psutil
from filelock import FileLock, Timeout
from rich.console import Console

from coda_lib.config import Profile, profile_text
from coda_lib.errors import StageError, UserError
from coda_lib.files import read_json, read_object, reading
from coda_lib.paths import NOTEBOOKS, REFERENCE, REPO, display
from coda_lib.processes import ended
from coda_study.evaluation.provenance import write_manifest
from coda_study.owned import belongs, claim, remove
from coda_study.pipeline.checks import check, check_explored, require_models
from coda_study.pipeline.dependencies import data_files
from coda_study.pipeline.progress import Lines, clock
from coda_study.pipeline.warm import warmed
from coda_study.run import Run

SNAKEFILE = REPO / "Snakefile"
RUNNER = "coda_study.pipeline.runner"  # runs one stage; called by the Snakefile
REPORTED = ("results", "ablations", "solutions", "everything")  # those after which the results are there
CHECKSUM_LIMIT = 200_000_000  # bytes: smaller inputs are compared by content, not by their time of change
LEAST_DISK = 2**20  # bytes: with less, no stage can be written down
PATIENCE_S = 60  # for processes that were told to end


@dataclass(frozen=True)
class Outcome:
    stages: int  # how many were run
    wall_s: float
    files: tuple[Path, ...]  # tables, figures and report of the run


def runs_of_seeds(name: str, profile: Profile, seeds: Sequence[int]) -> dict[Run, Profile]:
    """A run for each seed; others than the profile's own are NAME-seedN, and share its exploration."""
    runs = {Run(name if seed == profile.seed else f"{name.rstrip('/')}-seed{seed}"): seed for seed in seeds}
    first = next(iter(runs))
    shared = {run: {} if run == first else {"explored": first.folder.name} for run in runs}
    return {run: profile.model_copy(update={"seed": seed} | shared[run]) for run, seed in runs.items()}


def reproduce(
    run: Run,
    profile: Profile,
    cores: int,
    until: str = "results",
    fresh: bool = False,
    console: Console | None = None,
    notebooks: Path = NOTEBOOKS,
    cluster: Path | None = None,
) -> Outcome:
    """Bring a run up to date with its inputs, through stage `until`; what is up to date is not run again.

    Stages are run on `cores` cores of this machine, or as jobs of a cluster: a folder with a Snakemake
    profile. Raises StageError when a stage fails, UserError for what cannot be started. A run that was killed
    goes on where it was; a second one of the same name is refused while the first is alive. `fresh` removes
    what the kit put into the run's folder and nothing else.
    """
    console, start = console or Console(), time.time()
    check(run, profile, until, fresh, cluster)
    check_explored(run, profile, until)
    where = f"cluster {cluster.name}" if cluster else f"{cores} cores"
    where += f", with the exploration of run {profile.explored}" if profile.explored else ""
    what = f"run {run.folder.name}: profile {profile.name}, seed {profile.seed}"
    console.print(f"{what}, {where}", soft_wrap=True)
    claim(run.folder, "run")
    with _lock(run) as lock:
        if fresh:
            for path in filter(belongs, list(run.folder.iterdir())):
                if path != run.timings:
                    remove(path)
        run.store(profile)
        stages = preview(run, profile, until, notebooks, cluster=cluster)
        lines = Lines(run, stages, expected_seconds(run, profile), console, cores)
        total = lines.left()
        count = f"{len(stages)} stage{'s' * (len(stages) != 1)} to run"
        console.print(count + (f", about {clock(total)}" if total else ""))
        if stages and until != "base_models" and not cluster:
            require_models(profile)
        if stages:
            _drive(_command(run, profile, until, notebooks, cores, cluster), cluster, lock, lines)
        if stages or not run.manifest.exists():
            write_manifest(run, profile)
    folders = (run.tables, run.figures) if until == "results" else ()
    files = [path for folder in folders for path in data_files(folder)]
    pages = [page for page in (run.report, run.view) if files and page.exists()]
    return Outcome(len(stages), time.time() - start, (*files, *pages))


def preview(
    run: Run,
    profile: Profile,
    until: str,
    notebooks: Path = NOTEBOOKS,
    fresh: bool = False,
    cluster: Path | None = None,
) -> list[str]:
    """Return the stages that would be run, such as 'explore/base/gis', in an order in which they can be."""
    check(run, profile, until, fresh, cluster)
    with NamedTemporaryFile("w", suffix=".yaml") as file:  # the run's own profile.yaml stays as it is
        file.write(profile_text(profile))
        file.flush()
        command = [*_command(run, profile, until, notebooks, 1, cluster), f"profile_file={file.name}"]
        flags = ["--dry-run", "--printshellcmds", *(["--forceall"] if fresh else [])]
        result = subprocess.run([*command[:3], *flags, *command[3:]], capture_output=True, text=True)
    said = result.stdout + result.stderr
    if result.returncode:
        raise UserError(f"the run cannot be planned: {_last_words(said, run.folder)}")
    return _stages(said)


def _stages(preview: str) -> list[str]:
    """The stages in what Snakemake's dry run prints.  StageError if a job's command names no stage."""
    jobs = re.findall(r"^(?:local)?rule (?!until_)\w+:$", preview, re.MULTILINE)
    stages = re.findall(rf"-m {re.escape(RUNNER)} (\S+) ", preview)
    if len(stages) != len(jobs):
        calls = f"{len(stages)} of their commands call {RUNNER}"
        raise StageError(f"{len(jobs)} jobs are to run, but {calls}: see the Snakefile")
    return stages


def expected_seconds(run: Run, profile: Profile) -> dict[str, float]:
    """Seconds per stage: of this run's last time, else of the profile's committed reference run."""
    reference = REFERENCE / profile.name / "manifest.json"
    past = read_json(reference)["stages"] if reference.exists() else {}
    expected = {stage: entry["wall_s"] for stage, entry in past.items()}
    if os.path.lexists(run.timings):
        with reading(run.timings, "timings"):
            expected |= {stage: float(seconds) for stage, seconds in read_object(run.timings).items()}
    return expected


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _command(
    run: Run, profile: Profile, until: str, notebooks: Path, cores: int, cluster: Path | None
) -> list[str]:
    memory_mb = psutil.virtual_memory().total // 2**20
    local = ["--cores", cores, "--resources", f"mem_mb={memory_mb * 8 // 10}", "--workflow-profile", "none"]
    elsewhere = ["--workflow-profile", cluster and cluster.resolve()]
    command = [
        *(sys.executable, "-m", "coda_study.pipeline.scheduler", f"until_{until}"),
        *("--rerun-incomplete", "--nolock", "--nocolor"),  # our own lock cannot go stale
        *("--snakefile", SNAKEFILE, "--directory", run.folder, *(elsewhere if cluster else local)),
        *("--scheduler", "greedy", "--rerun-triggers", "mtime", "params", "input"),
        *("--max-checksum-file-size", CHECKSUM_LIMIT, "--profile", "none"),
        *("--config", f"run={run.name}", f"profile={profile.name}", f"notebooks={notebooks}"),  # stays last
        *([] if cluster else ["attached=1"]),
    ]
    return list(map(str, command))


@contextmanager
def _lock(run: Run) -> Iterator[int]:
    """Hold the run's lock, once the processes of a run that was killed have noticed it.

    Gives its descriptor: the system frees the lock when the last process that has it is gone.
    """
    path, descriptors = run.folder / ".lock", []

    def sign(descriptor: int) -> None:
        os.truncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        descriptors.append(descriptor)

    def owner() -> int:
        return int(path.read_text() or 0)

    lock = FileLock(path, PATIENCE_S, poll_interval=0.2, on_acquired=sign)
    try:
        held = lock.acquire(cancel_check=lambda: psutil.pid_exists(owner()))
    except Timeout:
        by = f"process {owner()}; wait for it or end it"
        raise UserError(f"{display(run.folder)} is being made by {by}") from None
    with held:
        yield descriptors[0]


def _drive(command: list[str], cluster: Path | None, lock: int, lines: Lines) -> None:
    """Run Snakemake to its end and report each stage; Snakemake and the stages end when this process does.

    The jobs of a cluster are ended by Snakemake; the programs that it calls may lie in the profile's folder.
    """
    path = os.environ.get("PATH", os.defpath)
    env = os.environ | {"PATH": f"{cluster.resolve()}{os.pathsep}{path}" if cluster else path}
    folder, started = lines.run.folder, time.time()
    log = folder / "snakemake.log"
    count = 0 if cluster else len(lines.stages)
    with log.open("w", encoding="utf-8") as output, warmed(folder, count, output) as address:
        command = [*command, *([f"warm={address}"] if address else [])]
        # its input closes when this process dies, and the stages watch it
        streams = {"stdin": subprocess.PIPE, "stdout": output, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, **streams, start_new_session=True, env=env, pass_fds=[lock])
        with ended(process, PATIENCE_S), lines.progress:
            while process.poll() is None:
                lines.update(started)
                time.sleep(0.2)
            lines.update(started)
    if lines.errors:
        raise StageError("\n".join(lines.errors))
    if process.returncode:
        raise StageError(_why_it_stopped(process.returncode, list(lines.bars), log))


def _why_it_stopped(code: int, stages: Sequence[str], log: Path) -> str:
    """Why a run ended though no stage says so: `code` is Snakemake's, `stages` are those under way."""
    if shutil.disk_usage(log.parent).free < LEAST_DISK:
        return f"the disk of {display(log.parent)} is full: free some space and run the same command again"
    again = "(by the system, where memory is used up); what is finished stays, and the same command goes on"
    if code < 0:
        return f"the scheduler of the run was killed by {signal.Signals(-code).name} {again}"
    if stages:
        silence = "ended without a word, which is what happens when it is killed"
        return f"stage {', '.join(stages)} {silence} {again}"
    words = _last_words(log.read_text(encoding="utf-8"), log.parent)
    return f"the run stopped: {words}; see {log.absolute()}"


def _last_words(log: str, folder: Path) -> str:
    """What is wrong, out of Snakemake's messages: files that it misses, or the end without commands."""
    if missed := re.search(r"affected files:\n((?: {8}.+\n?)+)", log):
        names = missed[1].splitlines()
        return f"not there: {', '.join(os.path.normpath(folder / name.strip()) for name in names)}"
    return " ".join([line.strip() for line in log.strip().splitlines() if len(line) < 300][-12:])
