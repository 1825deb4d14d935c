"""The committed reference run: `python -m coda_lib.reference RUN` keeps a finished run and shows it in the README."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from coda_lib.errors import UserError
from coda_lib.files import atomic_path, read_json, write_text
from coda_lib.paths import REFERENCE, REPO, Run
from coda_lib.votes import load_votes

KEPT = (
    "tables/*", "figures/*", "manifest.json", "profile.yaml", "timings.json", "claims.json", "report.html",
    "judged/*/*.json", "judged/votes.parquet", "raters/*.parquet", "specialist/*/metrics.jsonl", "generalist/metrics.jsonl",
    "evaluation/*/[a-z]*.parquet",
)  # fmt: skip
_SHOWN = re.compile(r"<!-- results -->.*<!-- /results -->", re.DOTALL)


def keep(run: Run) -> Path:
    """Copy the small files of a finished run to results/reference/<profile> (no trajectories, no weights).

    UserError if the run has no report yet.
    """
    if not run.report.exists():
        raise UserError(f"run {run.name} is not finished: {run.report} is missing; go on with coda reproduce --run {run.name}")
    load_votes(run).to_parquet(run.votes, index=False)
    target = REFERENCE / read_json(run.manifest)["profile"]["name"]
    with atomic_path(target) as temporary:
        for path in sorted({path for pattern in KEPT for path in run.folder.glob(pattern)}):
            if not path.name.endswith(".trajectories.parquet"):
                copy = temporary / path.relative_to(run.folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
    return target


def readme_section(folder: Path) -> str:
    """What the README shows of a reference run: its tables as they are, word for word."""
    tables = [(folder / "tables" / f"{name}.md").read_text().strip() for name in ("beside_paper", "comparisons")]
    picture = f"![Table 1 as a picture, ours beside the paper's]({(folder / 'figures' / 'table1.png').relative_to(REPO)})"
    return "\n\n".join(["<!-- results -->", tables[0], picture, tables[1], "<!-- /results -->"])


def show(folder: Path, readme: Path = REPO / "README.md") -> None:
    write_text(readme, _SHOWN.sub(lambda _: readme_section(folder), readme.read_text()))


if __name__ == "__main__":
    kept = keep(Run(sys.argv[1]))
    show(kept)
    print(f"kept in {kept}")
