"""`python -m coda_study.pipeline.scheduler …` is Snakemake without its limit on jobs a second.

To keep the limit, Snakemake 9 looks at all stages that wait once a second, and once a second more for each
that has ended: after twenty stages of a long run that takes a fifth of a core, which the stages could use.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from snakemake.cli import args_to_api, parse_args
from snakemake.exceptions import print_exception


def main(words: Sequence[str]) -> None:
    """As `snakemake.cli.main`: exits with 0 if all jobs were done."""
    try:
        parser, arguments = parse_args(words)
        arguments.max_jobs_per_timespan = None
        done = args_to_api(arguments, parser)
    except Exception as error:
        print_exception(error)
        sys.exit(1)
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
