"""What notebooks draw: pictures of episodes, figures of results, small tables, and how far a stage is."""

import lazy_loader

PUBLIC = {  # module: names
    "pictures": ["draw_elements", "draw_step", "group_rewards", "idea", "screens", "strip"],
    "figures": [
        "CURVES", "difference_bars", "judge_bars", "learning_curves", "probability_bars", "save",
        "table1_bars", "task_curve",
    ],
    "live": ["markdown", "markdown_table", "progress", "training"],
    "examples": [
        "as_step", "by_stop", "conversation", "distinct_steps", "episode_table", "first_state",
        "judge_by_grade", "label_table", "scripted",
        "settings_table", "source", "success_by_grade", "vote_table",
    ],
    "grpo": [
        "favourite", "group_table", "most_varied", "paired_rewards", "plan_counts", "reward_examples",
        "spread_of", "state_table", "step_table", "steps_by_hand", "tiny_agent",
    ],
    "rounds": ["rounds_by_hand", "rounds_of", "rounds_table"],
    "desktop": [],
}  # fmt: skip
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=PUBLIC)
