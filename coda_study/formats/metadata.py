"""Metadata of an exported run: Croissant beside its data set, a Workflow Run RO-Crate of the whole folder.

Croissant 1.0 (MLCommons) names the files of a data set with their hashes, and the columns.  The crate, with
the profile Workflow Run 0.5, says which workflow, of which commit, made which files from which settings, as
the run's manifest has it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from datasets import Features, Image, List, Value

from coda_lib.errors import UserError
from coda_lib.files import sha256, write_json
from coda_lib.paths import REPO
from coda_study.run import Run

CROISSANT, CRATE = "croissant.json", "ro-crate-metadata.json"
LICENSE = "https://spdx.org/licenses/Apache-2.0"
PAPER, KIT = "https://arxiv.org/abs/2508.20096", "The CODA kit maintainers"
_RUNS = "https://w3id.org/ro/wfrun"
PROFILES = {f"{_RUNS}/process/0.5": "Process Run Crate", f"{_RUNS}/workflow/0.5": "Workflow Run Crate"}
SHOWN = (
    "manifest",
    "profile_file",
    "timings",
    "tables",
    "figures",
    "claims",
    "report",
)  # of a run, in the crate


def require_libraries() -> None:
    """UserError without the libraries that write the metadata."""
    try:
        import mlcroissant  # noqa: F401
        import rocrate  # noqa: F401
    except ImportError as error:
        needed = "mlcroissant and rocrate, which write the metadata of an export"
        raise UserError(f"{error.name} is missing, of {needed}: pip install --editable '.[hub]'") from error


def write_croissant(
    folder: Path, name: str, description: str, written: str, tables: dict[str, tuple[Features, Sequence[str]]]
) -> None:
    """Write croissant.json of a data set: of each table its columns, and its splits, data/SPLIT.parquet."""
    import mlcroissant as mlc

    files, sets = [], []
    for table, (features, splits) in tables.items():
        for split in splits:
            address = f"data/{split}.parquet"
            about = {"encoding_formats": ["application/x-parquet"], "sha256": sha256(folder / address)}
            size = f"{(folder / address).stat().st_size} B"
            files.append(
                mlc.FileObject(id=address, name=address, content_url=address, content_size=size, **about)
            )
            id_ = f"{table}/{split}"
            fields = [_field(f"{id_}/{column}", address, kind, column) for column, kind in features.items()]
            sets.append(mlc.RecordSet(id=id_, name=id_, fields=fields))
    metadata = mlc.Metadata(
        name=name, description=description, license=[LICENSE], url=PAPER, version="1.0.0",
        cite_as=PAPER, creators=[mlc.Organization(name=KIT)], date_published=datetime.fromisoformat(written),
        distribution=files, record_sets=sets,
    )  # fmt: skip
    write_json(folder / CROISSANT, metadata.to_json())


def _field(id_: str, file: str, kind: Any, column: str, path: str = "") -> Any:
    """The field of a column, or of a part of its values: lists are repeated, structures have fields."""
    import mlcroissant as mlc

    repeated = isinstance(kind, List)
    inner = kind.feature if repeated else kind
    how = {"repeated": True} if repeated else {}
    if isinstance(inner, dict):
        # mlcroissant 1.1 reads no picture that is in a list
        texts = {name: part for name, part in inner.items() if not (repeated and isinstance(part, Image))}
        parts = [_field(f"{id_}/{name}", file, part, column, name) for name, part in texts.items()]
        return mlc.Field(id=id_, name=id_, sub_fields=parts, **how)
    types = {"string": mlc.DataType.TEXT, "int64": mlc.DataType.INTEGER, "bool": mlc.DataType.BOOL}
    data_type = types[inner.dtype] if isinstance(inner, Value) else mlc.DataType.IMAGE_OBJECT
    steps = [path] if path else []
    steps += ["bytes"] if isinstance(inner, Image) else []
    source = mlc.Source(
        file_object=file,
        extract=mlc.Extract(column=column),
        transforms=[mlc.Transform(json_path=step) for step in steps],
    )
    return mlc.Field(id=id_, name=id_, data_types=[data_type], source=source, **how)


def write_crate(run: Run, folder: Path, manifest: dict[str, Any]) -> None:
    """Copy what the run shows of itself to folder/run, and describe all that is in `folder` as a crate."""
    from rocrate.model import ContextEntity
    from rocrate.rocrate import ROCrate

    crate, commit, versions = ROCrate(), manifest["code"]["commit"], manifest["versions"]

    def known(id_: str, kind: str, name: str, **more: str) -> ContextEntity:
        return crate.add(ContextEntity(crate, id_, {"@type": kind, "name": name} | more))

    shown = _copy_shown(run, folder / "run")
    crate.name, crate.license = f"Run {run.folder.name} of the CODA kit", LICENSE
    crate.description = f"Profile {manifest['profile']['name']}, seed {manifest['seed']}"
    crate.datePublished = datetime.fromisoformat(manifest["written"])
    profiles = [known(url, "CreativeWork", name, version=url[-3:]) for url, name in PROFILES.items()]
    crate.root_dataset["conformsTo"] = profiles
    workflow = crate.add_workflow(
        shown / "Snakefile", "run/Snakefile", main=True, lang="snakemake", lang_version=versions["snakemake"]
    )
    workflow["name"] = "The stages of a run"
    workflow["softwareRequirements"] = [
        known(f"#{name}", "SoftwareApplication", name, softwareVersion=number)
        for name, number in versions.items() if number
    ]  # fmt: skip
    if commit and not manifest["code"]["changed"]:
        workflow["identifier"], workflow["version"] = f"swh:1:rev:{commit}", commit
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != shown / "Snakefile"]
    names = [str(path.relative_to(folder)) for path in paths]
    files = {
        name: crate.add_file(path, name, properties={"sha256": sha256(path)})
        for name, path in zip(names, paths, strict=True)
    }
    settings = files.pop("run/profile.yaml")
    action = crate.add_action(workflow, "#run", object=[settings], result=list(files.values()))
    action["name"], action["endTime"] = crate.name, manifest["written"]
    action["description"] = ", ".join(
        f"{name} {value}" for name, value in manifest["hardware"].items() if value
    )
    action["agent"] = known("#kit", "Organization", KIT)
    action["actionStatus"] = "http://schema.org/CompletedActionStatus"
    crate.metadata.write(folder)


def _copy_shown(run: Run, target: Path) -> Path:
    target.mkdir()
    for path in (REPO / "Snakefile", *(getattr(run, name) for name in SHOWN)):
        if path.is_dir():
            shutil.copytree(path, target / path.name)
        elif path.is_file():
            shutil.copyfile(path, target / path.name)
    return target
