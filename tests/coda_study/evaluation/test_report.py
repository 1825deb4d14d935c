"""Tables, captions, files and figures from episodes whose outcomes are known."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from coda_lib.action import Action
from coda_lib.applications import APPS
from coda_lib.config import SYSTEMS, load_profile
from coda_lib.errors import UserError
from coda_lib.paths import REFERENCE
from coda_lib.trajectory import Step, StopReason, Trajectory, encode_image
from coda_study.evaluation import report, results, tables
from coda_study.evaluation.paper import OVERALL, Provenance
from coda_study.evaluation.statistics import EpisodesError
from coda_study.show import figures as plotting
from coda_study.show import pictures

SOLVED = {"base": 1, "executor": 0, "stage1": 2, "stage2": 3}  # of the four tasks of every application
RESAMPLES = 500


@pytest.fixture
def episodes() -> pd.DataFrame:
    """Four tasks per application and two runs; each system solves its first tasks in the first run only."""
    rows = [
        {"task_id": f"{app}/A-{task:02d}", "app": app, "run": run, "system": system, "stop": "DONE"}
        | {"success": task < SOLVED[system] and run == 0}
        for app in APPS
        for system in SYSTEMS
        for task in range(4)
        for run in range(2)
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def table(episodes) -> pd.DataFrame:
    return tables.table1(episodes)


# ------------------------------------------------------------------------------------------------------------


def test_a_caption_says_what_a_score_is_repeated_with():
    profile = load_profile("smoke", ("seed=9", "serving.planner=http://host:8000/v1")).model_dump(mode="json")
    told = report.made_with(profile, {"commit": "0123456789abcdef", "changed": True})
    assert told == (
        "Models: planner data/checkpoints/planner, served, executor data/checkpoints/executor. "
        "Made by revision 0123456789ab and changes: coda reproduce --profile smoke --set seed=9; "
        "all settings: profile.yaml of the run."
    )
    assert "an unknown revision:" in report.made_with(profile, {"commit": None, "changed": None})


def test_an_application_without_a_column_is_an_error(table):
    more = pd.concat([table, table[table["application"] == "gis"].assign(application="spectra")])
    with pytest.raises(UserError, match="no column for spectra"):
        report.grid(more)


def test_table1_has_the_shape_of_the_papers(table):
    assert list(table["metric"].unique()) == [
        "Average@2",
        "Pass@2",
    ]  # k is what was run, not what the paper ran
    assert list(table["system"].unique()) == list(SYSTEMS)
    assert list(table["application"].unique()) == [*APPS, OVERALL]
    assert len(table) == 2 * 4 * 5


@pytest.mark.parametrize("application", [*APPS, OVERALL])
def test_table1_counts(table, application):
    cells = table[table["application"] == application].set_index(["metric", "system"])["value"]
    for system, solved in SOLVED.items():
        assert cells["Average@2", system] == pytest.approx(100 * solved / 8)
        assert cells["Pass@2", system] == pytest.approx(100 * solved / 4)


def test_table1_says_what_each_figure_rests_on(table):
    assert (table["low"] <= table["value"] + 1e-9).all() and (table["value"] <= table["high"] + 1e-9).all()
    assert set(table["runs"]) == {2} and set(table["provenance"]) == {"measured"}
    assert set(table.loc[table["application"] == OVERALL, "tasks"]) == {16}
    per_application = table[(table["metric"] == "Pass@2") & (table["application"] != OVERALL)]
    assert set(per_application["interval"]) == {"Wilson"}


def test_a_cell_does_not_depend_on_the_others(episodes, table):
    alone = tables.table1(episodes, ["stage2"])
    same = table[table["system"] == "stage2"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, same)


def test_missing_episodes_refuse_the_table(episodes):
    fewer = episodes[(episodes["system"] != "stage1") | (episodes["task_id"] != "gis/A-02")]
    with pytest.raises(EpisodesError, match=r"system 'stage1': 2 of 32 episodes missing: gis/A-02 runs 0, 1"):
        tables.table1(fewer)
    with pytest.raises(EpisodesError, match="system 'stage2': no episodes"):
        tables.comparisons(episodes[episodes["system"] != "stage2"])


def test_unknown_and_absent_applications_are_named(episodes):
    with pytest.raises(EpisodesError, match="no column for: chess"):
        tables.table1(episodes.replace({"app": {"gis": "chess"}}))
    with pytest.raises(EpisodesError, match="no episodes of any system for gis"):
        tables.table1(episodes[episodes["app"] != "gis"])


def test_comparisons(episodes):
    compared = tables.comparisons(episodes, resamples=RESAMPLES)
    cells = compared.set_index(["metric", "first", "second", "application"])
    assert len(compared) == 2 * len(tables.PAIRS) * 5
    assert cells.loc[("Average@2", "base", "stage2", "gis"), "difference"] == pytest.approx(100 * (3 - 1) / 8)
    overall = cells.loc[("Pass@2", "base", "stage2", OVERALL)]
    assert overall["difference"] == pytest.approx(50) and 0 < overall["low"] < 50 < overall["high"]


def test_fewer_systems_and_applications(episodes):
    part = episodes[episodes["app"].isin(["gis", "astron"])]
    table = tables.table1(part, ["base", "stage1"], apps=["gis", "astron"])
    beside = tables.beside_paper(table).set_index(["metric", "system", "application"])
    assert beside.loc[("Pass@2", "stage1", "gis"), "paper_value"] == 23.53
    assert np.isnan(
        beside.loc[("Pass@2", "stage1", OVERALL), "paper_value"]
    )  # the paper's is over four applications
    compared = tables.comparisons(part, ["base", "stage1"], RESAMPLES, apps=["gis", "astron"])
    assert set(zip(compared["first"], compared["second"], strict=True)) == {("base", "stage1")}
    assert tables.comparisons(part, ["base"], apps=["gis", "astron"]).empty


def test_beside_paper_keeps_the_two_apart(table):
    layout = report.beside_grid(tables.beside_paper(table))
    assert list(layout["Source"].unique()) == ["ours, measured", "reported by the paper"]
    assert len(layout) == 2 * 2 * 4
    first, second = layout.iloc[0], layout.iloc[1]
    assert (first["Metric"], first["System"]) == ("Average@2", "Base planner → executor")
    assert (second["Metric"], second["Algebra"], second["Overall"]) == ("Average@8", "10.48", "7.57")
    note = report.beside_note(table)
    assert "another benchmark (ScienceDesk" in note and "shape only" in note
    real = table[table["application"] != "astron"].replace(
        {"application": {"algebra": "KAlgebra", "biochem": "PyMOL", "gis": "GrassGIS"}}
    )
    assert "tasks of our own in real applications; in the desktop profile" in report.beside_note(real)
    assert "four applications of ScienceBoard" in report.beside_note(real)
    ours, paper = (report.beside_grid(tables.beside_paper(real)).iloc[row] for row in (0, 1))
    assert (paper["KAlgebra"], paper["Overall"]) == ("–", "7.57") and ours["Overall"] != "7.57"


# ------------------------------------------------------------------------------------------------- captions a


def test_caption_says_run_tasks_runs_interval_and_provenance(episodes):
    text = report.caption(tables.table1(episodes, provenance=Provenance.SMOKE), "trial")
    for part in (
        "run trial, smoke",
        "16 tasks (Algebra 4,",
        "2 runs per task",
        "95 %, over tasks (Wilson)",
        "* Four",
    ):
        assert part in text
    assert report.SMOKE_NOTE in text
    assert "specialist" not in report.caption(tables.table1(episodes, ["base"]), "trial")
    one = episodes[episodes["app"] == "gis"]
    assert "* One specialist, each" in report.caption(tables.table1(one, apps=["gis"]), "trial")


def test_files_and_their_bytes(episodes, table, tmp_path):
    compared = tables.comparisons(episodes, resamples=RESAMPLES)
    files = report.write_tables(tmp_path / "a", table, compared, "trial")
    again = report.write_tables(tmp_path / "b", tables.table1(episodes), compared, "trial")
    assert {path.name for path in files} == {
        f"{name}.{kind}"
        for name in ("table1", "beside_paper", "comparisons")
        for kind in ("csv", "md", "tex")
    }
    assert [path.read_bytes() for path in files] == [path.read_bytes() for path in again]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "a" / "table1.csv"), table, atol=1e-3)
    markdown = (tmp_path / "a" / "table1.md").read_text(encoding="utf-8")
    assert "| Average@2 | Stage-1 specialists\\*" in markdown and "run trial, measured" in markdown
    latex = (tmp_path / "a" / "comparisons.tex").read_text(encoding="utf-8")
    assert "→" not in latex and "95 \\%" in latex and "\\toprule" in latex
    assert report.beside_note(table) in (tmp_path / "a" / "beside_paper.md").read_text(encoding="utf-8")


def test_cells_have_a_true_minus_and_no_minus_zero():
    row = {"metric": "Pass@2", "first": "base", "second": "stage1", "application": "gis"}
    layout = report.comparisons_grid(pd.DataFrame([row | {"difference": -0.01, "low": -3.26, "high": 3}]))
    assert layout.loc[0, "GIS"] == "+0.0 [−3.3, +3.0]"


def test_html_report_is_one_file(episodes, table, tmp_path):
    run = tmp_path / "trial"
    with pytest.raises(UserError, match="no tables/table1.csv"):
        results.html_report(run)
    report.write_tables(run / "tables", table, tables.comparisons(episodes, resamples=RESAMPLES), "trial")
    judge = (
        "planner,application,measure,value,provenance\n"
        "base,gis,precision,81.25,smoke\nbase,gis,recall,,smoke\n"
    )
    (run / "tables" / "judge.csv").write_text(judge)
    plotting.save(plotting.table1_bars(table), run / "figures" / "table1", report.caption(table, "trial"))
    page = results.html_report(run).read_text(encoding="utf-8")
    assert "this run has not ended" in page and "no stage of this run has ended" in page

    (run / "manifest.json").write_text(
        json.dumps(
            {
                "code": {"commit": "<abc>", "changed": False},
                "versions": {"numpy": "2"},
                "profile": load_profile("smoke").model_dump(mode="json"),
            }
        )
    )
    (run / "timings.json").write_text(json.dumps({"explore/base/gis": 12.25, "evaluate/base/gis": 3}))
    page = results.html_report(run).read_text(encoding="utf-8")
    assert (
        "<td>nan</td>" not in page and "<td>smoke</td>" not in page
    )  # empty; and the caption says the provenance
    assert page.count("<table>") == 6 and "81.25" in page and "&lt;abc&gt;" in page and "15.2" in page
    assert f"<figcaption>{report.caption(table, 'trial')}</figcaption>" in page
    assert all(
        source.startswith("data:image/svg+xml;base64,") for source in re.findall(r'src="([^"]*)"', page)
    )
    assert "http" not in re.sub(r'src="[^"]*"', "", page)
    assert page == results.html_report(run).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------

ACTIONS = (
    Action.click(0.8, 0.2),
    Action.double_click(0.8, 0.3),
    Action.right_click(0.1, 0.9),
    Action.hover(0.5, 0.5),
    Action.drag(0.1, 0.3, 0.5, 0.7),
    Action.scroll(0.4, 0.5, "left"),
    Action.type_text("x^2 + $y$\n"),
    Action.hotkey("ctrl c"),
    Action.wait(),
    Action.answer("42"),
    Action.done(),
    Action.fail(),
)


@pytest.fixture
def image() -> Image.Image:
    return Image.new("RGB", (336, 252), "#EEEEEE")


@pytest.fixture
def trajectory(image) -> Trajectory:
    png = encode_image(image)
    steps = tuple(Step(png, f"Plan {action.type} for $5", "reply", (action,)) for action in ACTIONS)
    steps += (Step(png, "Do it", "frob(1)", (), "no action in 'frob(1)'"),)
    return Trajectory(
        "gis/A-01", "gis", "Show the map", "base", 0, steps, png, StopReason.DONE, success=False
    )


def texts(figure) -> str:
    return "\n".join(artist.get_text() for artist in figure.findobj(matplotlib.text.Text))


def test_step_shows_plan_action_and_error(trajectory):
    assert "Plan click for $5" in texts(pictures.draw_step(trajectory.steps[0]))
    assert "click (269, 50)" in texts(pictures.draw_step(trajectory.steps[0]))
    assert "not an action: no action in 'frob(1)'" in texts(pictures.draw_step(trajectory.steps[-1]))
    several = replace(trajectory.steps[0], actions=ACTIONS[:2])
    assert "click (269, 50); double click (269, 76)" in texts(pictures.draw_step(several))


def test_step_draws_into_given_axes(trajectory):
    sheet = plotting.Sheet()
    axes = sheet.subplots(1, 2)
    assert pictures.draw_step(trajectory.steps[0], axes[1]) is sheet and axes[1].images and not axes[0].images


def test_strip_has_a_panel_per_step_and_the_end(trajectory):
    figure = pictures.strip(trajectory, columns=5)
    assert sum(bool(ax.images) for ax in figure.axes) == len(ACTIONS) + 2
    assert "Ended with DONE: no success" in texts(figure) and "gis/A-01, planner base, run 0" in texts(figure)


@pytest.mark.parametrize("same", [False, True])
def test_group_shows_every_plan(image, same):
    actions = [*ACTIONS, None]
    rewards = np.ones(13) if same else np.linspace(2, 0, 13)
    advantages = np.zeros(13) if same else (rewards - rewards.mean()) / rewards.std()
    figure = pictures.group_rewards(image, actions, rewards, advantages, target=ACTIONS[4])
    words = texts(figure)
    assert (
        "no action   13" in words and "drag (34, 76) → (168, 176)" in words and "labelled action a_T" in words
    )
    assert words.count("A = ") == 13


def test_curves_and_bars(table):
    log = pd.DataFrame({"step": [1, 2, 3], "reward": [0.5, None, 0.75], "kl": [0, 0.01, 0.02]})
    figure = plotting.learning_curves({"gis": log, "seed 2": log})
    assert "GIS" in texts(figure) and "seed 2" in texts(figure)
    scores = pd.DataFrame(
        [{"application": "gis", "measure": "precision", "value": 80.0, "low": 70.0, "high": 90.0}]
    )
    assert "run x, smoke" in texts(plotting.judge_bars(scores, "Judge; run x, smoke"))
    words = texts(plotting.table1_bars(table, report.caption(table, "trial")))
    assert "ScienceDesk (measured)" in words and "reported by the paper" in words and "run trial" in words


def test_figures_are_the_same_bytes_and_leave_no_trace(trajectory, table, tmp_path):
    settings = dict(matplotlib.rcParams)
    for draw, data in ((pictures.strip, trajectory), (plotting.table1_bars, table)):
        first = plotting.save(draw(data), tmp_path / "a" / draw.__name__, "Of run trial, measured")
        second = plotting.save(draw(data), tmp_path / "b" / draw.__name__, "Of run trial, measured")
        assert [path.suffix for path in first] == [".svg", ".png"]
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
        assert (
            b"<dc:date>" not in first[0].read_bytes() and b"Of run trial, measured" in first[0].read_bytes()
        )
        assert Image.open(first[1]).info["Description"] == "Of run trial, measured"
    assert dict(matplotlib.rcParams) == settings
    assert pictures.draw_step(trajectory.steps[0])._repr_png_()[0].startswith(b"\x89PNG")


def test_claims_are_laid_out_and_what_was_not_tested_is_empty():
    table = pd.DataFrame(
        {"claim": ["a", "b"], "metric": ["Average@8", None], "reported": [6.8, np.nan], "difference": [-4.84,
         np.nan],
         "low": [-8.5, np.nan], "high": [-1.6, np.nan], "verdict": ["contradicted", "not tested"]}
    )  # fmt: skip
    rows = report.claims_grid(table).to_numpy().tolist()
    assert rows == [
        ["a", "Average@8", "+6.8", "−4.8 [−8.5, −1.6]", "contradicted"],
        ["b", "", "", "", "not tested"],
    ]


def test_rules_are_laid_out_and_a_rule_that_accepts_nothing_has_no_precision():
    shares = {
        f"{name}{end}": [50.0, np.nan] for name in ("precision", "recall") for end in ("", "_low", "_high")
    }
    counts = dict.fromkeys(("accepted", "calls", "small", "labels", "wrong_labels"), [2, 0])
    layout = report.rules_grid(pd.DataFrame({"rule": ["single", "all"]} | counts | shares))
    assert layout["precision"].to_dict() == {"single": "50.0 [50.0, 50.0]", "all": ""}


def test_a_difference_has_its_own_interval_and_not_that_of_the_variant():
    rows = pd.DataFrame({
        "variant": ["a", "b"], "value": [50.0, 60.0], "low": [40.0, 50.0], "high": [60.0, 70.0],
        "difference": [-5.0, 5.0], "difference_low": [-8.0, 1.0], "difference_high": [-2.0, 9.0],
    })  # fmt: skip
    (ax,) = plotting.difference_bars(rows).axes
    (bars,) = ax.containers
    segments = [segment[:, 0].tolist() for segment in bars[2][0].get_segments()]
    assert segments == [[-8.0, -2.0], [1.0, 9.0]]


def test_a_report_without_the_page_of_episodes_links_to_nothing(episodes, table, tmp_path):
    compared = tables.comparisons(episodes, resamples=RESAMPLES)
    report.write_tables(tmp_path / "tables", table, compared, "trial")
    assert "view.html" in results.html_report(tmp_path).read_text()
    assert "view.html" not in results.html_report(tmp_path, linked=False).read_text()


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="no reference run is committed")
def test_committed_reports_link_only_to_what_is_there():
    for page in REFERENCE.glob("*/report.html"):
        links = re.findall(r'href="([^"#]+)', page.read_text())
        assert not [link for link in links if ":" not in link and not (page.parent / link).exists()], page
