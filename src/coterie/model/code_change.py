"""The artifacts of codegen: the intent for each file, and the resulting change."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from coterie.model.artifact import ArtifactData, FileOperation, Lines, NonEmptyText
from coterie.model.planning import ProjectPath

Amount = Annotated[int, Field(ge=0)]


class FileIntent(ArtifactData):
    """The intended change to one file."""

    path: ProjectPath = Field(description="Relative to the project's folder.")
    operation: FileOperation = Field(default="modify", description="What is done with the file.")
    intent: NonEmptyText = Field(description="What will change in it.")
    edits: Lines = Field(default=(), description="The edits, in order.")


class CodegenPlan(ArtifactData):
    """`codegen.plan.json`: the coder's intent, before anything is changed."""

    summary: NonEmptyText = Field(description="The change, in a few sentences.")
    files: Annotated[tuple[FileIntent, ...], Field(min_length=1)] = Field(
        description="What is done with each file."
    )
    notes: Lines = Field(default=(), description="Anything else worth knowing.")


class FileStep(ArtifactData):
    """A file of the intent, with what the plan says about it and whether it exists."""

    path: ProjectPath = Field(description="Relative to the project's folder.")
    operation: FileOperation = Field(description="What is done with the file.")
    intent: NonEmptyText = Field(description="What will change in it.")
    edits: Lines = Field(default=(), description="The edits, in order.")
    purpose: str = Field(default="", description="Why the plan touches it.")
    is_planned: bool = Field(description="Whether the plan names it.")
    exists: bool = Field(description="Whether it exists before the change.")


class CodegenIr(ArtifactData):
    """`codegen.ir.json`: the intent, resolved against the plan and the files."""

    base: str = Field(default="", description="The hash of the tree that the change starts from.")
    files: tuple[FileStep, ...] = Field(default=(), description="Each file once.")


class FilePatch(ArtifactData):
    """The actual change to one file."""

    path: NonEmptyText = Field(description="Relative to the project's folder, as git has it.")
    operation: FileOperation = Field(description="What was done with it.")
    additions: Amount | None = Field(
        default=None, description="Lines added. Omitted for binary files."
    )
    deletions: Amount | None = Field(
        default=None, description="Lines removed. Omitted for binary files."
    )
    full: str | None = Field(
        default=None, description="The whole file as it is now, among the artifacts."
    )
    is_planned: bool = Field(default=True, description="Whether the plan names it.")


class DiffSummary(ArtifactData):
    """How large a change is."""

    files: Amount = Field(description="Files changed.")
    additions: Amount = Field(description="Lines added.")
    deletions: Amount = Field(description="Lines removed.")


class CodePatch(ArtifactData):
    """`patch.json`: the change as a whole."""

    base: str = Field(description="The commit that it starts from.")
    tree: str = Field(description="The hash of the tree with the change.")
    files: tuple[FilePatch, ...] = Field(default=(), description="Each file that differs.")
    summary: DiffSummary = Field(description="How large it is.")
