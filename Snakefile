"""The stages of a run: one notebook each, and what flows between them. `coda reproduce` starts it.

Paths without a folder of their own are inside the run's folder, where Snakemake works. A stage is run again when a file
that it reads, a setting that it depends on, its notebook or library code behind the notebook has changed.
"""

import json
import os
import sys
from pathlib import Path

from coda_lib.applications import ALL_APPS, APPS, DESKTOP_APPS, NOVEL_APPS, SPACE_APPS
from coda_lib.config import EXPLORERS, SYSTEMS, load_profile, read_profile
from coda_study.pipeline.dependencies import DISPLAYS, checkpoint_files, code_files, data_files
from coda_study.pipeline.notebook import source_hash
from coda_lib.paths import DATA, NOTEBOOKS, PROFILES, REPO, TASKS
from coda_lib.prompts import BASIS
from coda_study.run import Run, explorers

RUN = Run(str(config["run"]))
P = read_profile(Path(config["profile_file"])) if "profile_file" in config else RUN.profile(config["profile"])
EXPLORER = RUN.explorer(P)
BOOKS = Path(config.get("notebooks", NOTEBOOKS))
ATTACHED = "--attached" if "attached" in config else ""
START = f"coda_study.pipeline.warm start {config['warm']}" if "warm" in config else "coda_study.pipeline.runner"
PYTHON = sys.executable


REAL = "sciencedesk.real"  # what no stage on ScienceDesk runs
UNUSED = () if P.models.generator else ("coda_study.stages.rounds", "coda_study.generator")


def relative(paths):
    """The clone can be moved without a stage being run again."""
    return [os.path.relpath(path, RUN.folder) for path in paths]


def book(name):
    """A notebook: whatever its time and outputs, a stage is run again when `source` has changed."""
    return ancient(relative([BOOKS / f"{name}.ipynb"]))


def source(name):
    path = BOOKS / f"{name}.ipynb"
    return source_hash(path) if path.exists() else ""


def code(name, without=(*DISPLAYS, REAL, *UNUSED)):
    """The library behind a notebook; where the stage is of one application, without the windows of the others."""

    def files(wildcards):
        if not (BOOKS / f"{name}.ipynb").exists():
            return []
        app = wildcards.get("app")
        others = [f"sciencedesk.apps.{other}" for other in ALL_APPS if app and other != app]
        unread = [module for module in without if app not in DESKTOP_APPS or module != REAL]
        return relative(code_files(BOOKS / f"{name}.ipynb", (*unread, *others)))

    return files


def prompts(*roles, sets=(P.prompts, *filter(None, [BASIS.get(P.prompts)]))):
    """The prompts of these roles, in the profile's set and in that which it rests on, or in others."""
    return relative([path for name in sets for path in data_files(REPO / "coda_lib" / "prompts" / name) if path.stem in roles])


def explored(pattern, *apps):
    """Files of the base planner's exploration: of this run, or of the one that explored; a preview may be ahead of them."""
    paths = expand(pattern, app=apps or P.apps)
    return relative([path for path in map(EXPLORER.folder.joinpath, paths) if path.exists()]) if P.explored else paths


def learned_from(wildcards):
    """The judged rollouts that a planner of a round or a specialist learns from, and the planner that it begins as."""
    app, (_, *before) = wildcards.app, explorers(P, wildcards.trained)
    begun = [f"{before[-1]}/{app}/done.json"] if before else []
    return [*explored("judged/base/{app}.parquet", app), *(f"judged/{name}/{app}.parquet" for name in before), *begun]


def settings(*fields):
    values = P.model_dump(mode="json")
    return json.dumps({"profile": P.name, "seed": P.seed} | {field: values[field] for field in fields})


def model(role):
    return relative(checkpoint_files(getattr(P.models, role)))


def planner_files(wildcards):
    """The files of the checkpoint behind a planner or a system of Table 1."""
    made = {name: f"{name}/{wildcards.app}/done.json" for name in EXPLORERS}
    made |= {"stage1": made["specialist"]}
    made |= {"generalist": "generalist/done.json", "stage2": "generalist/done.json", "executor": []}
    name = wildcards.get("planner", wildcards.get("system"))
    return model("planner") if name == "base" else made[name]


def tasks(wildcards):
    """The task files, but for those of other applications."""
    others = {*APPS, *DESKTOP_APPS} - {wildcards.app}
    return [path for path in TASK_FILES if not others.intersection(Path(path).with_suffix("").parts)]


def variant_votes(wildcards):
    """The votes behind the labels of an ablation, where they are not the run's own."""
    own = P.ablations[wildcards.variant].labels in ("voting", "truth")
    return [] if own else expand("ablations/votes/{app}.parquet", app=P.apps)


def variant_settings(wildcards):
    base = settings(*ACTING, *DRAWN, "apps", "judge", "judges", "specialize", "explore", "test_tasks", "evaluation_runs")
    return json.dumps(json.loads(base) | {"variant": P.ablations[wildcards.variant].model_dump()})


def kept_of_exploring(wildcards):
    """What survives when exploring is interrupted: the rounds of a generator, or what a fleet has played."""
    if GENERATING and wildcards.planner == "base":
        return f"--resumable generated/{wildcards.app}"
    return f"--resumable fleet/explore/{wildcards.planner}/{wildcards.app}" if P.fleet.workers else ""


TASK_FILES = relative(data_files(TASKS, without="apps"))
APP_FILES = relative([*data_files(TASKS / "apps"), *sorted((REPO / "sciencedesk").rglob("*.py"))])  # found by name, not by import
ALL_DATA = relative(data_files(DATA, without="checkpoints"))
MODEL_FILES = model("planner") + model("executor") + model("judge")
TINY = load_profile("smoke")  # whose models, prompts and settings the loop at the end of notebook 00 has
LOOP_FILES = (
    relative([PROFILES / "smoke.yaml", *(path for role in ("planner", "executor", "judge") for path in checkpoint_files(getattr(TINY.models, role)))])
    + prompts("planner", "executor", "judge", sets=(TINY.prompts,))
)
# what a draw of tasks depends on: whose it is, and which goals are kept from it
DRAWN = tuple(name for name in ("explored", "knowledge") if getattr(P, name))
GENERATING = ("generator", "judge") if P.models.generator else ()  # the judge says how the last tasks went
PERTURBED = ("perturb",) if P.perturb else ()  # how runs start
ACTING = ("models", "serving", "fleet", "prompts", "step_limit", "concurrency", "planner", "executor", "threads", *PERTURBED)
ASKED = relative(data_files(REPO / "coda_lib" / "prompts" / "generator")) + prompts("judge") if P.models.generator else []
CURVE = ("curve",) if P.curve else ()
STARTS = [path for name in P.curve.checkpoints.values() for path in relative(checkpoint_files(name))] if P.curve else []
FLEET = " --resumable fleet/{params.stage}" if P.fleet.workers else ""  # its finished episodes survive an interrupted stage
STAGE = (
    "{PYTHON} -m {START} {params.stage} {ATTACHED} --run {RUN.name:q} --notebook {input.notebook:q}"
    " --executed {output.executed:q} --set profile={P.name} run={RUN.name:q} {params.set} --settings {params.settings:q}"
    " --inputs {input:q} --outputs {output:q}"
)


wildcard_constraints:
    app="|".join(SPACE_APPS),
    variant="[a-z0-9-]+",
    planner="|".join(EXPLORERS),
    trained="|".join(EXPLORERS[1:]),
    system="|".join(SYSTEMS),


# ---- tutorials ----


rule quickstart:
    input:
        notebook=book("00_quickstart"),
        code=code("00_quickstart", without=()),
        data=ALL_DATA + MODEL_FILES,
        prompts=prompts("planner", "executor"),
        loop=LOOP_FILES,
    output:
        executed="notebooks/00_quickstart.ipynb",
    params:
        source=source("00_quickstart"),
        stage="quickstart",
        set="",
        settings=settings(*ACTING),
    shell:
        STAGE


rule sciencedesk:
    input:
        notebook=book("01_sciencedesk"),
        code=code("01_sciencedesk", without=()),
        data=TASK_FILES,
    output:
        executed="notebooks/01_sciencedesk.ipynb",
    params:
        source=source("01_sciencedesk"),
        stage="sciencedesk",
        set="",
        settings=settings(),
    shell:
        STAGE


rule planner_executor:
    input:
        notebook=book("02_planner_executor"),
        code=code("02_planner_executor", without=()),
        data=TASK_FILES + MODEL_FILES,
        prompts=prompts("planner", "executor", sets=("compact", "full")),
    output:
        executed="notebooks/02_planner_executor.ipynb",
    params:
        source=source("02_planner_executor"),
        stage="planner_executor",
        set="",
        settings=settings(*ACTING),
    shell:
        STAGE


rule reward:
    input:
        notebook=book("05_reward"),
        code=code("05_reward", without=()),
        data=model("planner") + model("executor"),
        judged=explored("judged/base/{app}.parquet", P.apps[0]),
        prompts=prompts("planner", "executor"),
    output:
        executed="notebooks/05_reward.ipynb",
    params:
        source=source("05_reward"),
        stage="reward",
        set=f"app={P.apps[0]}",
        settings=settings(*ACTING, "judge", "specialize"),
    shell:
        STAGE


# ---- exploration, judgement, training ----


rule explore:
    input:
        notebook=book("03_explore"),
        code=code("03_explore"),
        tasks=tasks,
        data=model("executor") + (model("judge") if GENERATING else []),
        planner=planner_files,
        prompts=prompts("planner", "executor") + ASKED,
    output:
        rollouts="rollouts/{planner}/{app}.parquet",
        executed="notebooks/03_explore-{planner}-{app}.ipynb",
    params:
        source=source("03_explore"),
        stage="explore/{planner}/{app}",
        kept=kept_of_exploring,
        set=f"planner={{planner}} app={{app}} threads={P.threads}",
        settings=lambda wildcards: json.dumps(
            json.loads(settings(*ACTING, *DRAWN, *GENERATING)) | {"explore": P.explore[wildcards.planner].model_dump(mode="json")}
        ),
    threads: P.threads
    priority: 10
    resources:
        mem_mb=3000,
    shell:
        STAGE + " {params.kept}"


rule judge:
    input:
        notebook=book("04_judge"),
        code=code("04_judge"),
        data=model("judge"),
        rollouts="rollouts/{planner}/{app}.parquet",
        prompts=prompts("judge"),
    output:
        judged="judged/{planner}/{app}.parquet",
        scores="judged/{planner}/{app}.json",
        executed="notebooks/04_judge-{planner}-{app}.ipynb",
    params:
        source=source("04_judge"),
        stage="judge/{planner}/{app}",
        set=f"planner={{planner}} app={{app}} threads={P.threads}",
        settings=settings("models", "serving", "prompts", "judge", "threads"),
    threads: P.threads
    priority: 10
    resources:
        mem_mb=3000,
    shell:
        STAGE


# The trainers' checkpoints are inside the folder of the model and no output, so that an interrupted training goes on.
rule specialize:
    input:
        notebook=book("06_specialize"),
        code=code("06_specialize"),
        data=model("planner") + model("executor"),
        judged=learned_from,
        prompts=prompts("planner", "executor"),
    output:
        done="{trained}/{app}/done.json",
        executed="notebooks/06_specialize-{trained}-{app}.ipynb",
    params:
        source=source("06_specialize"),
        stage="specialize/{trained}/{app}",
        set=f"planner={{trained}} app={{app}} threads={P.specialize.threads}",
        settings=settings("models", "serving", "prompts", "planner", "executor", "judge", "specialize"),
        folder="{trained}/{app}",
    threads: P.specialize.threads
    priority: 10
    resources:
        mem_mb=6000,
    shell:
        STAGE + " --resumable {params.folder}"


rule generalize:
    input:
        notebook=book("07_generalize"),
        code=code("07_generalize"),
        data=model("planner"),
        judged=expand("judged/{planner}/{app}.parquet", planner=explorers(P)[1:], app=P.apps),
        prompts=prompts("planner"),
    output:
        done="generalist/done.json",
        executed="notebooks/07_generalize.ipynb",
    params:
        source=source("07_generalize"),
        stage="generalize",
        set=f"threads={P.generalize.threads}",
        settings=settings("apps", "models", "prompts", "judge", "generalize"),
        folder="generalist",
    threads: P.generalize.threads
    priority: 10
    resources:
        mem_mb=6000,
    shell:
        STAGE + " --resumable {params.folder}"


# ---- evaluation and results ----


rule evaluate:
    input:
        notebook=book("08_evaluate"),
        code=code("08_evaluate"),
        tasks=tasks,
        data=model("executor"),
        planner=planner_files,
        prompts=lambda wildcards: prompts("solo") if wildcards.system == "executor" else prompts("planner", "executor"),
    output:
        episodes="evaluation/{system}/{app}.parquet",
        greedy="evaluation/{system}/{app}.greedy.parquet",
        sealed=["evaluation/{system}/{app}.sealed.parquet"] if P.sealed else [],
        executed="notebooks/08_evaluate-{system}-{app}.ipynb",
    params:
        source=source("08_evaluate"),
        stage="evaluate/{system}/{app}",
        set=f"system={{system}} app={{app}} threads={P.threads}",
        settings=settings(*ACTING, *DRAWN, "test_tasks", "evaluation_runs", "sealed"),
    threads: P.threads
    resources:
        mem_mb=3000,
    shell:
        STAGE + FLEET


rule baselines:
    input:
        notebook=book("19_baselines"),
        code=code("19_baselines"),
        tasks=tasks,
        data=model("planner") + model("executor"),
        episodes="evaluation/base/{app}.parquet",
        rollouts=lambda wildcards: explored("rollouts/base/{app}.parquet", wildcards.app),
        prompts=prompts("planner", "executor"),
    output:
        episodes="baselines/{app}.parquet",
        tried=["baselines/{app}.tried.parquet"] if P.baselines.temperatures else [],
        executed="notebooks/19_baselines-{app}.ipynb",
    params:
        source=source("19_baselines"),
        stage="baselines/{app}",
        set=f"app={{app}} threads={P.threads}",
        settings=settings(*ACTING, *DRAWN, "test_tasks", "evaluation_runs", "baselines"),
    threads: P.threads
    resources:
        mem_mb=3000,
    shell:
        STAGE + FLEET


rule judges:
    input:
        notebook=book("09_judges"),
        code=code("09_judges"),
        data=model("judge") + model("base_judge"),
        base=lambda wildcards: explored("rollouts/base/{app}.parquet", wildcards.app),
        specialist="rollouts/specialist/{app}.parquet",
        episodes="evaluation/stage2/{app}.parquet",
        prompts=prompts("judge"),
    output:
        votes="judges/{app}.parquet",
        executed="notebooks/09_judges-{app}.ipynb",
    params:
        source=source("09_judges"),
        stage="judges/{app}",
        set=f"app={{app}} threads={P.threads}",
        settings=settings("models", "serving", "prompts", "judge", "judges", "concurrency", "threads"),
    threads: P.threads
    resources:
        mem_mb=3000,
    shell:
        STAGE


rule how_sure:
    input:
        notebook=book("18_how_sure"),
        code=code("18_how_sure", without=()),
        data=ALL_DATA,
        episodes=expand("evaluation/{system}/{app}.parquet", system=P.systems, app=P.apps),
        greedy=expand("evaluation/{system}/{app}.greedy.parquet", system=P.systems, app=P.apps),
        sealed=expand("evaluation/{system}/{app}.sealed.parquet", system=P.systems, app=P.apps) if P.sealed else [],
        baselines=expand("baselines/{app}.parquet", app=P.apps),
        scores=explored("judged/base/{app}.json") + expand("judged/specialist/{app}.json", app=P.apps),
    output:
        greedy="tables/greedy.csv",
        judge="tables/judge.csv",
        votes="tables/votes.csv",
        passes="tables/passes.csv",
        executed="notebooks/18_how_sure.ipynb",
    params:
        source=source("18_how_sure"),
        stage="how_sure",
        set="",
        settings=json.dumps(P.model_dump(mode="json")),
    shell:
        STAGE


rule results:
    input:
        notebook=book("10_results"),
        code=code("10_results", without=()),
        template=relative([REPO / "coda_study" / "evaluation" / "report.html.j2", *data_files(REPO / "coda_study" / "show" / "viewer" / "web")]),
        data=ALL_DATA,
        episodes=expand("evaluation/{system}/{app}.parquet", system=P.systems, app=P.apps),
        greedy=expand("evaluation/{system}/{app}.greedy.parquet", system=P.systems, app=P.apps),
        sealed=expand("evaluation/{system}/{app}.sealed.parquet", system=P.systems, app=P.apps) if P.sealed else [],
        baselines=expand("baselines/{app}.parquet", app=P.apps),
        sure=["tables/greedy.csv", "tables/judge.csv", "tables/votes.csv", "tables/passes.csv"],  # in the report
        judges=expand("judges/{app}.parquet", app=P.apps),
        trained=expand("specialist/{app}/done.json", app=P.apps) + ["generalist/done.json"],
    output:
        table="tables/table1.csv",
        text="tables/table1.md",
        report="report.html",
        executed="notebooks/10_results.ipynb",
    params:
        source=source("10_results"),
        stage="results",
        set="",
        settings=json.dumps(P.model_dump(mode="json")),
    shell:
        STAGE


# ---- ablations, a target of their own ----


rule labels:
    input:
        notebook=book("11_labels"),
        code=code("11_labels"),
        data=model("judge") + model("base_judge"),
        judged=lambda wildcards: explored("judged/base/{app}.parquet", wildcards.app),
        prompts=prompts("judge"),
    output:
        votes="ablations/votes/{app}.parquet",
        executed="notebooks/11_labels-{app}.ipynb",
    params:
        source=source("11_labels"),
        stage="labels/{app}",
        set=f"app={{app}} threads={P.threads}",
        settings=settings("models", "serving", "prompts", "judge", "judges", "concurrency", "threads"),
    threads: P.threads
    resources:
        mem_mb=3000,
    shell:
        STAGE


rule variant:
    input:
        notebook=book("12_variant"),
        code=code("12_variant"),
        tasks=TASK_FILES,
        data=model("planner") + model("executor"),
        judged=explored("judged/base/{app}.parquet"),
        votes=variant_votes,
        prompts=prompts("planner", "executor"),
    output:
        episodes="ablations/{variant}.parquet",
        executed="notebooks/12_variant-{variant}.ipynb",
    params:
        source=source("12_variant"),
        stage="variant/{variant}",
        set=f"variant={{variant}} threads={P.specialize.threads}",
        settings=variant_settings,
        folder="ablations/{variant}",
    threads: P.specialize.threads
    resources:
        mem_mb=6000,
    shell:
        STAGE + " --resumable {params.folder}"


rule transfer:
    input:
        notebook=book("13_transfer"),
        code=code("13_transfer"),
        tasks=TASK_FILES,
        data=model("planner") + model("executor") + model("coder"),
        planner="generalist/done.json",
        prompts=prompts("planner", "executor", "solo", "coder"),
    output:
        episodes="ablations/transfer/{app}.parquet",
        executed="notebooks/13_transfer-{app}.ipynb",
    params:
        source=source("13_transfer"),
        stage="transfer/{app}",
        set=f"app={{app}} threads={P.threads}",
        settings=settings(*ACTING, *DRAWN, "apps", "test_tasks", "evaluation_runs"),
    threads: P.threads
    resources:
        mem_mb=3000,
    shell:
        STAGE


rule ablations:
    input:
        notebook=book("14_ablations"),
        code=code("14_ablations", without=UNUSED),
        episodes=expand("evaluation/{system}/{app}.parquet", system=P.systems, app=P.apps),
        judged=explored("judged/base/{app}.parquet"),
        trained=expand("specialist/{app}/done.json", app=P.apps),
        variants=expand("ablations/{variant}.parquet", variant=P.ablations),
        votes=expand("ablations/votes/{app}.parquet", app=P.apps),
        transfer=expand("ablations/transfer/{app}.parquet", app=(*P.apps, *NOVEL_APPS)),
    output:
        table="tables/ablations.csv",
        executed="notebooks/14_ablations.ipynb",
    params:
        source=source("14_ablations"),
        stage="ablations",
        set="",
        settings=json.dumps(P.model_dump(mode="json")),
    shell:
        STAGE


rule curve:
    input:
        notebook=book("17_how_many_tasks"),
        code=code("17_how_many_tasks", without=UNUSED),
        tasks=TASK_FILES,
        data=MODEL_FILES + STARTS,
        prompts=prompts("planner", "executor", "judge"),
    output:
        table="tables/curve.csv",
        executed="notebooks/17_how_many_tasks.ipynb",
    params:
        source=source("17_how_many_tasks"),
        stage="curve",
        set=f"threads={P.specialize.threads}",
        settings=settings(*ACTING, "judge", "specialize", "generalize", "explore", "test_tasks", "evaluation_runs", "curve"),
        folder="curve",
    threads: P.specialize.threads
    resources:
        mem_mb=6000,
    shell:
        STAGE + " --resumable {params.folder}"


# ---- appendix: the laptop's base models, a target of its own ----


rule base_models:
    input:
        notebook=book("A1_base_models"),
        code=code("A1_base_models"),
        data=TASK_FILES,
        prompts=prompts("planner", "executor", "judge", "solo"),
    output:
        done="base_models/done.json",
        executed="notebooks/A1_base_models.ipynb",
    params:
        source=source("A1_base_models"),
        stage="base_models",
        set=f"threads={P.base_models.threads}",
        settings=settings("apps", "base_models"),
        folder="base_models",
    threads: P.base_models.threads
    resources:
        mem_mb=6000,
    shell:
        STAGE + " --resumable {params.folder}"


# ---- real applications and virtual machines, targets of their own ----


rule real_apps:
    input:
        notebook=book("15_real_apps"),
        code=code("15_real_apps", without=()),
        data=APP_FILES,
        prompts=prompts("planner", "executor"),
    output:
        executed="notebooks/15_real_apps.ipynb",
    params:
        source=source("15_real_apps"),
        stage="real_apps",
        set="",
        settings=settings(),
    resources:
        mem_mb=3000,
    shell:
        STAGE


rule virtual_machines:
    input:
        notebook=book("16_virtual_machines"),
        code=code("16_virtual_machines", without=()),
        data=APP_FILES,
    output:
        executed="notebooks/16_virtual_machines.ipynb",
    params:
        source=source("16_virtual_machines"),
        stage="virtual_machines",
        set="",
        settings=settings(),
    shell:
        STAGE


# ---- answers to the questions of the notebooks, a target of their own ----


rule solution:
    input:
        notebook=lambda wildcards: book(f"solutions/{wildcards.book}"),
        code=lambda wildcards: code(f"solutions/{wildcards.book}", without=())(wildcards),
        tables=["tables/table1.md", "tables/ablations.csv", *(["tables/curve.csv"] if P.curve else [])],
    output:
        executed="notebooks/solutions-{book}.ipynb",
    params:
        source=lambda wildcards: source(f"solutions/{wildcards.book}"),
        stage="solution/{book}",
        set="",
        settings=settings(*ACTING, "judge", "specialize", "generalize"),
    resources:
        mem_mb=3000,
    shell:
        STAGE


# ---- targets: `coda reproduce --until STAGE` asks for until_STAGE ----

TARGETS = {
    "quickstart": ["notebooks/00_quickstart.ipynb"],
    "sciencedesk": ["notebooks/01_sciencedesk.ipynb"],
    "planner_executor": ["notebooks/02_planner_executor.ipynb"],
    "explore": explored("rollouts/base/{app}.parquet"),
    "judge": explored("judged/base/{app}.parquet"),
    "reward": ["notebooks/05_reward.ipynb"],
    "specialize": expand("specialist/{app}/done.json", app=P.apps),
    "explore_specialists": expand("rollouts/specialist/{app}.parquet", app=P.apps),
    "judge_specialists": expand("judged/specialist/{app}.parquet", app=P.apps),
    "generalize": ["generalist/done.json"],
    "evaluate": expand("evaluation/{system}/{app}.parquet", system=P.systems, app=P.apps),
    "baselines": expand("baselines/{app}.parquet", app=P.apps),
    "judges": expand("judges/{app}.parquet", app=P.apps),
    "results": ["tables/table1.md"],
}
TARGETS["results"] = sum(TARGETS.values(), [])  # the whole story, tutorials included
TARGETS["ablations"] = [*TARGETS["results"], "tables/ablations.csv"]
TARGETS["curve"] = ["tables/curve.csv"]
TARGETS["real_apps"] = ["notebooks/15_real_apps.ipynb"]
TARGETS["virtual_machines"] = ["notebooks/16_virtual_machines.ipynb"]
ANSWERED = sorted({path.stem for path in BOOKS.glob("solutions/*.ipynb")} - (set() if P.curve else {"17_how_many_tasks"}))
TARGETS["solutions"] = expand("notebooks/solutions-{book}.ipynb", book=ANSWERED)
TARGETS["everything"] = sum((TARGETS[name] for name in ("ablations", *CURVE, "real_apps", "virtual_machines", "solutions")), [])
TARGETS["base_models"] = ["base_models/done.json"]  # in no other target

for stage, files in TARGETS.items():

    rule:
        name:
            f"until_{stage}"
        input:
            files,
