"""What all files of settings share: sections that are checked, and rows of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from coda_lib.errors import UserError
from coda_lib.paths import display

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A part of a profile: cannot change, knows no other fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Row = TypeVar("Row", bound=Section)


def load_rows(path: Path, kind: type[Row]) -> list[Row]:
    """The rows of a YAML file, each checked.  UserError names file, row and field of what is missing or unknown."""
    try:
        return TypeAdapter(list[kind]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise UserError(f"{display(path)} is no YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{display(path)}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
