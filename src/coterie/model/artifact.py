"""The base of every pipeline artifact: validated data that can be encoded as UTF-8."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from coterie.model.phase_graph import Gate
from coterie.model.visible import encodable

_SEVERITIES = {
    "low": "minor",
    "nit": "info",
    "note": "info",
    "warning": "minor",
    "medium": "minor",
    "moderate": "minor",
    "error": "major",
    "high": "major",
    "severe": "critical",
    "blocker": "critical",
}


def _severity(value: object) -> object:
    """Map reviewers' synonyms to a severity; validation refuses unknown words."""
    word = value.strip().lower() if isinstance(value, str) else value
    return _SEVERITIES.get(word, word) if isinstance(word, str) else word


Severity = Annotated[Literal["info", "minor", "major", "critical"], BeforeValidator(_severity)]
FileOperation = Literal["create", "modify", "delete"]


def as_list(value: object) -> object:
    """Wrap a single text in a list: models often write one where a list is expected."""
    return [value] if isinstance(value, str) else value


def object_from_text(field: str) -> BeforeValidator:
    """Accept a plain text as an object that has this text in its main field."""

    def as_object(value: object) -> object:
        return {field: value} if isinstance(value, str) else value

    return BeforeValidator(as_object)


Lines = Annotated[tuple[str, ...], BeforeValidator(as_list)]
NonEmptyText = Annotated[str, Field(min_length=1)]


class ArtifactData(BaseModel):
    """A part of an artifact; undeclared fields are refused when writing and when reading."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    # File names and agent replies may contain bytes that are not text: escape them.
    _is_text = model_validator(mode="before")(encodable)

    def written(self, *, indent: int | None = 2) -> str:
        """Serialize to JSON as stored in its file, without the fields that are None."""
        return self.model_dump_json(by_alias=True, exclude_none=True, indent=indent) + "\n"


class GateDecision(ArtifactData):
    """Whether a gate passed, and for which tree."""

    gate: Gate = Field(description="Which gate.")
    passed: bool = Field(description="Whether the next phase may begin.")
    reasons: Lines = Field(default=(), description="Why it did not pass.")
    tree: str = Field(
        default="", description="The hash of the files it was decided for. Empty: not applicable."
    )


class MeetingMinutes(ArtifactData):
    """The chair's summary of what the others said."""

    consensus: Lines = Field(default=(), description="What all agree on.")
    disagreements: Lines = Field(default=(), description="Where they disagree, and who says what.")
    risks: Lines = Field(default=(), description="What could go wrong.")
    next_actions: Lines = Field(default=(), description="What to do next.")
