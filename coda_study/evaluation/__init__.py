"""From episodes to tables and claims: what a notebook needs, by name; `statistics` has the intervals."""

import lazy_loader

PUBLIC = {  # module: names
    "paper": ["LABELS", "Provenance", "ledger", "load_table1", "load_table2"],
    "tables": [
        "beside_paper", "by_seed", "comparisons", "load_episodes", "load_seeds", "reference_run", "siblings",
        "table1", "table_settings",
    ],
    "report": [
        "beside_grid", "beside_note", "caption", "claims_grid", "comparisons_grid", "endings_grid",
        "factors_grid", "grid", "kinds_grid", "passes_grid", "rules_grid", "temperatures_grid",
    ],
    "endings": ["ENDINGS", "ending_of", "endings"],
    "slices": ["blind", "factors", "kinds", "passes", "temperatures"],
    "votes": [
        "cast", "compare_rules", "judge_table", "load_table2_votes", "load_votes", "table2", "table2_rules",
        "voting_rules",
    ],
    "ablations": [
        "AGAINST", "changed", "committed_tables", "executors", "layout", "novel", "reward_logs", "variants",
    ],
    "audit": ["audit_paper", "findings"],
    "claims": ["decide_claims", "load_claims"],
    "results": ["save_results", "save_tables"],
}  # fmt: skip
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
