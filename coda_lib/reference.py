"""The committed reference runs: `python -m coda_lib.reference RUN` keeps a finished run and renews what the README shows.

That is Table 1 over all kept runs of `SHOWN`'s study, which differ in their seeds alone.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from coda_lib.errors import UserError
from coda_lib.files import atomic_path, write_text
from coda_lib.paper import Provenance
from coda_lib.paths import REFERENCE, REPO, Run
from coda_lib.report import write_tables
from coda_lib.seeds import by_seed, load_seeds, siblings
from coda_lib.tables import comparisons, table1
from coda_lib.votes import load_votes

KEPT = (
    "tables/*", "figures/*", "manifest.json", "profile.yaml", "timings.json", "claims.json", "report.html",
    "judged/*/*.json", "judged/votes.parquet", "raters/*.parquet", "specialist/*/metrics.jsonl", "generalist/metrics.jsonl",
    "evaluation/*/[a-z]*.parquet",
)  # fmt: skip
SHOWN = "laptop"
_SECTION = re.compile(r"<!-- results -->.*<!-- /results -->", re.DOTALL)


def keep(run: Run) -> Path:
    """Copy the small files of a finished run to results/reference/RUN (no trajectories, no weights).

    UserError if the run has no report yet.
    """
    if not run.report.exists():
        raise UserError(f"run {run.name} is not finished: {run.report} is missing; go on with coda reproduce --run {run.name}")
    load_votes(run).to_parquet(run.votes, index=False)
    target = REFERENCE / run.folder.name
    with atomic_path(target) as temporary:
        for path in sorted({path for pattern in KEPT for path in run.folder.glob(pattern)}):
            if not path.name.endswith(".trajectories.parquet"):
                copy = temporary / path.relative_to(run.folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
    return target


def pool(folder: Path) -> Path:
    """Write the tables over all committed seeds of a reference run's study to its folder `seeds`."""
    episodes, profile = load_seeds(siblings(Run(str(folder)), [REFERENCE]))
    drawing = {"apps": profile.apps, "provenance": Provenance.MEASURED, "k": profile.evaluation_runs}
    table = table1(episodes, profile.systems, profile.bootstrap_resamples, **drawing)
    compared = comparisons(episodes, profile.systems, profile.bootstrap_resamples, **drawing)
    seeds = sorted(episodes["seed"].unique())
    write_tables(folder / "seeds", table, compared, f"{profile.name}, seeds {', '.join(map(str, seeds))}")
    write_text(folder / "seeds" / "by_seed.csv", by_seed(episodes).to_csv(float_format="%.6g"))
    return folder / "seeds"


def readme_section(folder: Path) -> str:
    """What the README shows of a reference run: its tables over all seeds as they are, word for word."""
    tables = [(folder / "seeds" / f"{name}.md").read_text().strip() for name in ("beside_paper", "comparisons")]
    picture = f"![Table 1 as a picture, ours beside the paper's]({(folder / 'figures' / 'table1.png').relative_to(REPO)})"
    return "\n\n".join(["<!-- results -->", tables[0], picture, tables[1], "<!-- /results -->"])


def show(folder: Path, readme: Path = REPO / "README.md") -> None:
    write_text(readme, _SECTION.sub(lambda _: readme_section(folder), readme.read_text()))


if __name__ == "__main__":
    kept = keep(Run(sys.argv[1]))
    pool(REFERENCE / SHOWN)
    show(REFERENCE / SHOWN)
    print(f"kept in {kept}")
