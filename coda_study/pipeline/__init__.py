"""Running the notebooks: Snakemake over the stages, papermill in each."""

import sys

sys.modules["rfc3987_syntax"] = None  # takes jsonschema a second to import, for a format that no notebook has
