"""What every artifact of a pipeline is made of: checked data that can be written as UTF-8."""

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


def _severity(given: object) -> object:
    """Reviewers have other words for the same; one that is not known is refused."""
    word = given.strip().lower() if isinstance(given, str) else given
    return _SEVERITIES.get(word, word) if isinstance(word, str) else word


Severity = Annotated[Literal["info", "minor", "major", "critical"], BeforeValidator(_severity)]
FileOperation = Literal["create", "modify", "delete"]


def listed(given: object) -> object:
    """Models often write one text where a list is asked for; what they mean is plain."""
    return [given] if isinstance(given, str) else given


Lines = Annotated[tuple[str, ...], BeforeValidator(listed)]
Said = Annotated[str, Field(min_length=1)]


class ArtifactData(BaseModel):
    """A part of an artifact; what nobody declared is refused, on writing and on reading."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, given: object) -> object:
        """Replies of agents and names of files may hold what is no text; it is written out."""
        return encodable(given)

    def written(self, *, indent: int | None = 2) -> str:
        """It as JSON, as it stands in its file; what is left out is not there."""
        return self.model_dump_json(by_alias=True, exclude_none=True, indent=indent) + "\n"


class GateDecision(ArtifactData):
    """Whether a gate passed, and on which tree."""

    gate: Gate = Field(description="Which gate.")
    passed: bool = Field(description="Whether the next phase may begin.")
    reasons: Lines = Field(default=(), description="Why it did not pass.")
    tree: str = Field(
        default="", description="The hash of the files it was decided on. Empty: it needs none."
    )


class MeetingMinutes(ArtifactData):
    """What a chair makes of what the others said."""

    consensus: Lines = Field(default=(), description="What all agree on.")
    disagreements: Lines = Field(default=(), description="Where they do not, and who holds what.")
    risks: Lines = Field(default=(), description="What could go wrong.")
    next_actions: Lines = Field(default=(), description="What is to be done next.")
