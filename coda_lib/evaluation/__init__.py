"""From episodes to tables and claims: what a notebook needs, by name; `statistics` has the intervals behind it."""

import lazy_loader

PUBLIC = {  # module: names
    "paper": ["LABELS", "Provenance", "load_table1", "load_table2"],
    "tables": ["beside_paper", "by_seed", "comparisons", "judge_table", "load_episodes", "load_seeds", "siblings", "table1"],
    "results": ["save_results", "save_tables"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
