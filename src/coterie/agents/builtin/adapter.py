"""The adapter for the built-in agent: its model, tools and instructions, from registry and team."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio.to_thread

from coterie.agents.builtin.calls import AskUser, AssignSubtask
from coterie.agents.builtin.choice import ModelChoice, address, choose
from coterie.agents.builtin.conversation import Entry, ResultEntry, read
from coterie.agents.builtin.services import CONTEXT_TOKENS, PAUSES, TurnServices
from coterie.agents.builtin.thread import BuiltinThread
from coterie.agents.builtin.turn import BuiltinChannel
from coterie.agents.program import ProgramAdapter, RefusedChannel
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.ports import LeasedChildLog
from coterie.tools.search.index import CodeIndex, SearchCode
from coterie.tools.search.ranking import HttpEmbedder
from coterie.tools.standard import open_toolbox, workspace_root_of
from coterie.tools.toolbox import Toolbox, ToolSpec
from coterie.tools.workspace_files import FileVersions
from coterie.workspace import homes
from coterie.workspace.beneath import open_within

GUIDE = "AGENTS.md"
"""The project's own instructions for agents, used if the user trusts the project."""
_LONGEST_GUIDE = 40_000


def instructions(member: Member, workspace: Workspace, written: Sequence[ToolSpec] = ()) -> str:
    """Return the system prompt.  Blocks.  `written` are tools that are called in a reply's text."""
    return "\n\n".join(_parts(member, workspace, written))


def text_of(name: str) -> str:
    """Read one of the text files next to this module.  Blocks."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8").strip()


def _parts(member: Member, workspace: Workspace, tools: Sequence[ToolSpec]) -> Iterator[str]:
    yield text_of("instructions.md")
    if tools:
        yield "\n\n".join([text_of("calling_in_text.md"), *map(_described, tools)])
    if workspace.team_instruction.strip():
        yield f"# The team\n\n{workspace.team_instruction.strip()}"
    if member.system_instruction.strip():
        yield f"# Your role\n\n{member.system_instruction.strip()}"
    yield "\n".join(_where(member, workspace))
    guide = _guide(workspace.execution_dir) if workspace.trusted else ""
    if guide:
        yield f"# {GUIDE} of the project\n\n{guide}"


def _where(member: Member, workspace: Workspace) -> Iterator[str]:
    yield "# Where you are"
    yield ""
    yield f"Your id in the team: {member.id}"
    # The link's target: by its own name it would lie in a folder that is closed to tools.
    yield f"Working directory: {workspace.execution_dir.resolve()}"
    if workspace.others:
        yield "Other members, by id:"
    for other, role in workspace.others.items():
        yield f"- {other}: {role}" if role else f"- {other}"


def _guide(folder: Path) -> str:
    """Return the project's own instructions; a link out of the folder is not followed."""
    try:
        with open_within(folder, folder / GUIDE) as file:
            text = file.read(4 * _LONGEST_GUIDE).decode(errors="replace").strip()
    except OSError:
        return ""
    if len(text) <= _LONGEST_GUIDE:
        return text
    return f"{text[:_LONGEST_GUIDE]}\n… truncated; read {GUIDE} for the rest …"


def _described(tool: ToolSpec) -> str:
    schema = json.dumps(tool.parameters, ensure_ascii=False)
    return f"## {tool.name}\n\n{tool.description}\n\nArguments: {schema}"


if TYPE_CHECKING:
    from coterie.agents.builtin.model import LibraryModel

INSTALL = 'pip install "coterie[builtin]"'
INDEX = "code.db"
"""searchCode's index of the workspace, in the member's folder: commands can write to its home."""


async def _nothing(thread: str) -> list[str]:
    return []


@dataclass(frozen=True)
class BuiltinAdapter(ProgramAdapter):
    """Opens members' channels to models, with our own tools."""

    recall: Callable[[str], Awaitable[list[str]]] = _nothing
    """Reads the entries of a thread."""
    pauses: Sequence[float] = PAUSES

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> BuiltinChannel | RefusedChannel:
        """Open a channel on this thread, or on a new one if the thread is unknown."""
        capabilities = self.agent.capabilities
        if member.home_dir is None:  # a home that the user named is theirs
            workspace = await anyio.to_thread.run_sync(homes.home_of_commands, workspace)
        choice = choose(member.model or capabilities.model, workspace.env, workspace.rehearsal)
        if not isinstance(choice, ModelChoice):
            return RefusedChannel(choice)
        entries = [read(entry) for entry in await self.recall(thread)] if thread else []
        toolbox = await self.toolbox(member, workspace, _seen(entries))
        model = await self._connected(member, workspace, choice)
        services = await anyio.to_thread.run_sync(self._services, model, toolbox, member, workspace)
        known = thread if thread and entries else uuid4().hex
        return BuiltinChannel(services, BuiltinThread(known, entries))

    async def toolbox(
        self, member: Member, workspace: Workspace, versions: FileVersions
    ) -> Toolbox:
        """Open the member's tools; `versions` are the files it has read in earlier turns."""
        root = await anyio.to_thread.run_sync(workspace_root_of, workspace)
        search = SearchCode(CodeIndex(workspace.folder / INDEX, root), _embedder(workspace))
        more = (search, AskUser(), AssignSubtask())
        return await open_toolbox(member.id, workspace, self.children, more, versions)

    async def _connected(
        self, member: Member, workspace: Workspace, choice: ModelChoice
    ) -> LibraryModel:
        def connected() -> LibraryModel:
            from coterie.agents.builtin.providers import connect

            return connect(choice, workspace.env)

        try:
            return await anyio.to_thread.run_sync(connected)
        except ImportError as missing:
            problem = f"its model library is not installed ({missing})"
            raise self.missing(member, workspace, problem, INSTALL) from missing

    def _services(
        self, model: LibraryModel, toolbox: Toolbox, member: Member, workspace: Workspace
    ) -> TurnServices:
        capabilities, children = self.agent.capabilities, self.children
        written = toolbox.specs() if capabilities.tool_calls == "text" else ()
        return TurnServices(
            model=model,
            toolbox=toolbox,
            system=instructions(member, workspace, written),
            summing_up=text_of("summing_up.md"),
            tool_calls=capabilities.tool_calls,
            context_tokens=capabilities.context_tokens or CONTEXT_TOKENS,
            pauses=self.pauses,
            deadline=children.deadline if isinstance(children, LeasedChildLog) else None,
        )


def _embedder(workspace: Workspace) -> HttpEmbedder | None:
    """Return the user's own model for embeddings, if one is configured."""
    env = workspace.env
    model = env.get("OPENAI_EMBEDDING_MODEL")
    if not model or workspace.rehearsal is not None:
        return None
    return HttpEmbedder(address("openai", env), model, env.get("OPENAI_API_KEY", ""))


def _seen(entries: Iterable[Entry]) -> FileVersions:
    """Return the versions of files that the member has read, so that changes are noticed."""
    versions = FileVersions()
    for entry in entries:
        if isinstance(entry, ResultEntry) and not entry.is_error:
            path, digest = entry.output.get("path"), entry.output.get("digest")
            if isinstance(path, str) and isinstance(digest, str):
                versions.record(path, digest)
    return versions
