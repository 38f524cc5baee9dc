"""A member's workspace with real files, for testing its tools."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from coterie.model.workspace import Workspace
from coterie.tools.sandbox import Sandbox
from coterie.tools.standard import workspace_root_of
from coterie.tools.toolbox import AnyTool, PreparedCall, Toolbox, ToolOutcome
from coterie.tools.workspace_files import WorkspaceRoot


@dataclass
class Log:
    """A `ChildLog` that records its calls."""

    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    mark: str = ""

    async def starting(self, member: str, agent: str) -> str:
        self.calls.append(("starting", f"{member} {agent}"))
        return self.mark or uuid.uuid4().hex

    def started(self, mark: str, pid: int) -> None:
        self.calls.append(("started", mark))

    def ended(self, mark: str) -> None:
        self.calls.append(("ended", mark))


@dataclass(frozen=True)
class MemberProject:
    """A project, the folder of its member `ann`, and a folder outside of both."""

    project: Path
    outside: Path
    user_home: Path
    workspace: Workspace
    root: WorkspaceRoot

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file


def member_project(folder: Path, *, git: bool = False, **env: str) -> MemberProject:
    """Create a workspace the way Coterie does: `work` is a link to the project."""
    project, outside, user_home = folder / "project", folder / "outside", folder / "user"
    member = project / ".coterie" / "teams" / "review" / "ann"
    for made in (member / "home", member / "tmp", outside, user_home):
        made.mkdir(parents=True)
    (member / "work").symlink_to("../../../..")
    (project / ".coterie" / ".gitignore").write_text("*\n")
    (project / ".coterie" / "coterie.db").write_text("the database")
    (outside / "secret.txt").write_text("outside secret\n")
    (user_home / ".netrc").write_text("home secret\n")
    if git:
        subprocess.run(["git", "init", "--quiet", project], check=True)
    given = {
        "PATH": os.environ["PATH"],
        "HOME": str(member / "home"),
        "TMPDIR": str(member / "tmp"),
        "LANG": "C.UTF-8",
    }
    workspace = Workspace(
        folder=member,
        home=member / "home",
        tmp=member / "tmp",
        execution_dir=member / "work",
        env=given | env,
        user_home=user_home,
        model_variables=("ANTHROPIC_", "OPENAI_"),
    )
    return MemberProject(project, outside, user_home, workspace, workspace_root_of(workspace))


def toolbox(shop: MemberProject, *tools: AnyTool) -> Toolbox:
    return Toolbox(shop.root.path, Sandbox("none"), tools)


async def call(box: Toolbox, name: str, **arguments: object) -> ToolOutcome:
    """Make a tool call the way an agent does: checked, then run."""
    prepared = box.check(name, arguments)
    return await box.run(prepared) if isinstance(prepared, PreparedCall) else prepared


def without_digest(outcome: ToolOutcome) -> ToolOutcome:
    output: Mapping[str, object] = outcome.output
    return replace(outcome, output={k: v for k, v in output.items() if k != "digest"})
