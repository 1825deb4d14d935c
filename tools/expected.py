"""The expected values of `coda check`: `python -m tools.expected` runs the tiny study and writes
results/reference/check.json.

`python -m tools.expected RUN` takes a finished run of the check instead, such as `check`, which the last
`coda check` left. To be run again when base models, tasks or training change; the difference of the file then
says what changed.
"""

from __future__ import annotations

import sys

from coda_lib.paths import display
from coda_study.cli.check import make
from coda_study.cli.console import run_of
from coda_study.evaluation.check import EXPECTED, write_expected

if __name__ == "__main__":
    write_expected(run_of(sys.argv[1]) if sys.argv[1:] else make(), EXPECTED)
    print(f"wrote {display(EXPECTED)}")
