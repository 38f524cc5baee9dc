"""Team files: what may be omitted, what is refused, and the exact error messages."""

from __future__ import annotations

import json
import os
from textwrap import dedent

import pytest
from jsonschema import Draft202012Validator

from coterie.config.files import read_document
from coterie.config.registry import Registry
from coterie.config.schemas import FOLDER
from coterie.config.settings import Settings
from coterie.config.team_file import LoadedTeam, ReadContext, load_team
from coterie.errors import ConfigError, NotFound
from coterie.model.team import Member, Permissions, Team
from tests.conftest import IsolatedUser

Agents = Registry


def load(user: IsolatedUser, text: str, agents: Agents, name: str = "team.json") -> LoadedTeam:
    path = user.project / name
    path.write_text(dedent(text), encoding="utf-8")
    loaded = load_team(path, ReadContext(agents))
    # An editor must not flag a file that the reader accepts.
    schema = json.loads((FOLDER / "team.schema.json").read_text())
    Draft202012Validator(schema).validate(read_document(path).data)
    return loaded


def refused(user: IsolatedUser, text: str, agents: Agents, name: str = "team.json") -> str:
    with pytest.raises(ConfigError) as caught:
        load(user, text, agents, name)
    assert caught.value.exit_code == 2
    assert caught.value.where is not None
    assert str(user.project) in caught.value.where
    return str(caught.value)


# -- what is accepted --------------------------------------------------------------------------


def test_everything_but_id_and_agent_has_a_default(user: IsolatedUser, agents: Agents) -> None:
    text = """\
        {"members": [
          {"id": "ada", "agent": "claude", "prompt": "You write the code."},
          {"id": "rex", "agent": "codex",  "prompt": "You review. You never edit.",
           "permissions": "read"},
          {"id": "you"}]}
        """
    assert load(user, text, agents).team == Team(
        name="project",
        workflow="chat",
        members=(
            Member(
                id="ada",
                name="ada",
                display_name="Ada",
                type="ai",
                order=1,
                agent="claude",
                system_instruction="You write the code.",
                permissions=Permissions(mode="ask"),
            ),
            Member(
                id="rex",
                name="rex",
                display_name="Rex",
                type="ai",
                order=2,
                agent="codex",
                system_instruction="You review. You never edit.",
                permissions=Permissions(mode="read"),
            ),
            Member(id="you", name="you", display_name="You", type="human", order=3),
        ),
        context_message_count=20,
        context_characters=40_000,
    )


def test_a_folder_of_a_member_that_is_a_link_to_itself(user: IsolatedUser, agents: Agents) -> None:
    (user.project / "loop").symlink_to("loop")
    load(user, ONE.format('{"id": "a", "agent": "echo", "homeDir": "loop"}'), agents)


def test_the_design_s_example_is_accepted(user: IsolatedUser, agents: Agents) -> None:
    text = """\
        {"name": "review", "workflow": "chat",
         "members": [
          {"id": "alice", "name": "alice", "displayName": "Alice", "role": "security reviewer",
           "type": "ai", "order": 1, "agentConfigId": "claude",
           "systemInstruction": "You are Alice. You look at security only.",
           "workDir": "../../..", "additionalArgs": ["--model", "opus"], "env": {},
           "permissions": {"mode": "ask"}},
          {"id": "you", "name": "you", "displayName": "You", "role": "owner", "type": "human",
           "order": 3}]}
        """
    folder = user.project / ".coterie" / "teams" / "review"
    folder.mkdir(parents=True)
    (folder / "team.json").write_text(dedent(text))
    loaded = load_team(folder, ReadContext(agents, folder_is_name=True))
    assert loaded.stated_workflow == "chat"
    assert loaded.team.members[0] == Member(
        id="alice",
        name="alice",
        display_name="Alice",
        role="security reviewer",
        order=1,
        agent="claude",
        system_instruction="You are Alice. You look at security only.",
        execution_dir=str(user.project),
        additional_args=("--model", "opus"),
    )


def test_toml_reads_as_json_does(user: IsolatedUser, agents: Agents) -> None:
    toml = '''\
        # two of us
        name = "pair"
        contextMessageCount = 5

        [defaults]
        agent = "claude"
        permissions = "read"

        [[members]]
        id = "ada"
        prompt = """
        You write.
        id = "not a key"
        """

        [[members]]
        id = "rex"
        agent = "codex"
        env = {LEVEL = "3"}
        '''
    jsons = """\
        {"name": "pair", "contextMessageCount": 5,
         "defaults": {"agent": "claude", "permissions": "read"},
         "members": [{"id": "ada", "prompt": "You write.\\nid = \\"not a key\\"\\n"},
                     {"id": "rex", "agent": "codex", "env": {"LEVEL": "3"}}]}
        """
    assert load(user, toml, agents, "team.toml").team == load(user, jsons, agents).team


def test_defaults_lie_under_every_member(user: IsolatedUser, agents: Agents) -> None:
    text = """\
        {"defaults": {"agent": "claude", "prompt": "Be short.", "env": {"A": "1", "B": "1"},
                      "permissions": "read", "timeoutMs": 9000},
         "members": [{"id": "ada"},
                     {"id": "rex", "agentConfigId": "codex", "systemInstruction": "Be long.",
                      "env": {"B": "2"}, "permissions": {"mode": "ask", "allow": ["npm test"]}},
                     {"id": "you", "type": "human"}]}
        """
    ada, rex, you = load(user, text, agents).team.members
    assert (ada.agent, ada.system_instruction, dict(ada.env)) == (
        "claude",
        "Be short.",
        {"A": "1", "B": "1"},
    )
    assert (rex.agent, rex.system_instruction, dict(rex.env)) == (
        "codex",
        "Be long.",
        {"A": "1", "B": "2"},
    )
    assert rex.permissions == Permissions(mode="ask", allow=("npm test",))
    assert (you.type, you.agent, you.system_instruction, you.env) == ("human", None, "", {})


def test_long_names_of_one_thing_may_agree(user: IsolatedUser, agents: Agents) -> None:
    text = """\
        {"members": [{"id": "a", "agentName": "echo", "agentConfigId": "echo",
                      "workDir": ".", "executionDir": "./"}]}
        """
    (member,) = load(user, text, agents).team.members
    assert (member.agent, member.execution_dir) == ("echo", str(user.project))


def test_paths_are_relative_to_the_file(user: IsolatedUser, agents: Agents) -> None:
    (user.project / "lib").mkdir()
    (user.project / "roles").mkdir()
    (user.project / "roles" / "ada.md").write_text("You are Ada.")
    text = """\
        {"members": [{"id": "ada", "agent": "echo", "promptFile": "../roles/ada.md",
                      "workDir": "../lib", "workingDir": "ada", "homeDir": "~/agents/ada"}]}
        """
    (user.project / "teams").mkdir()
    loaded = load(user, text, agents, "teams/my-team.json")
    (ada,) = loaded.team.members
    assert loaded.team.name == "my-team"
    assert loaded.outside_prompts == (str(user.project / "roles" / "ada.md"),)
    assert (ada.system_instruction, ada.execution_dir, ada.working_dir, ada.home_dir) == (
        "You are Ada.",
        str(user.project / "lib"),
        str(user.project / "teams" / "ada"),
        str(user.home / "agents" / "ada"),
    )


def test_the_team_instruction_stands_in_the_file_or_beside_it(
    user: IsolatedUser, agents: Agents
) -> None:
    text = '{"teamInstruction": "Be kind.", "members": [{"id": "a", "agent": "echo"}]}'
    assert load(user, text, agents).team.team_instruction == "Be kind."
    (user.project / "team_instruction.md").write_text("Be kind.\n")
    assert load(user, text, agents).team.team_instruction == "Be kind.\n"
    (user.project / "team_instruction.md").write_text("Be quick.")
    assert refused(user, text, agents) == (
        "team.json:1 teamInstruction differs from team_instruction.md beside this file; keep "
        "one of them."
    )


def test_settings_fill_what_the_file_leaves_out(user: IsolatedUser, agents: Agents) -> None:
    path = user.project / "team.json"
    path.write_text('{"contextCharacters": 9, "members": [{"id": "a", "agent": "echo"}]}')
    settings = Settings(context_message_count=3, context_characters=4)
    team = load_team(path, ReadContext(agents, settings)).team
    assert (team.context_message_count, team.context_characters) == (3, 9)


def test_a_byte_order_mark_is_nothing(user: IsolatedUser, agents: Agents) -> None:
    assert load(user, '\ufeff{"members": [{"id": "a", "agent": "echo"}]}', agents).team.members


def test_order_and_place_say_who_follows(user: IsolatedUser, agents: Agents) -> None:
    text = """\
        {"members": [{"id": "c", "agent": "echo", "order": 9},
                     {"id": "a", "agent": "echo", "order": 1},
                     {"id": "b", "agent": "echo", "order": 1}, {"id": "you"}]}
        """
    team = load(user, text, agents).team
    assert [member.id for member in team.in_order] == ["a", "b", "you", "c"]
    assert [member.id for member in team.ai_members] == ["a", "b", "c"]


def test_a_workflow_that_is_only_the_default_is_not_stated(
    user: IsolatedUser, agents: Agents
) -> None:
    loaded = load(user, '{"members": [{"id": "a", "agent": "echo"}]}', agents)
    assert (loaded.team.workflow, loaded.stated_workflow) == ("chat", None)


# -- what is refused ---------------------------------------------------------------------------

ONE = '{{"members": [\n{}]}}'
"""A team of one member, whose entry is on line 2."""

MISTAKES = [
    # the member's entry, the message
    (
        '{"id": "a", "agent": "codx"}',
        'team.json:2 members[0].agent is "codx"; known: claude, codex, echo. Did you mean codex?',
    ),
    (
        '{"id": "a", "agentConfigId": "zzz"}',
        'team.json:2 members[0].agentConfigId is "zzz"; known: claude, codex, echo.',
    ),
    (
        '{"id": "a", "agent": "echo", "promt": "x"}',
        "team.json:2 members[0].promt is not a known key. Did you mean prompt?",
    ),
    (
        '{"id": "a", "agent": "echo", "xyzzy": 1}',
        "team.json:2 members[0].xyzzy is not a known key.",
    ),
    ('{"agent": "echo"}', 'team.json:2 members[0] has no "id".'),
    ("7", "team.json:2 members[0] is 7; expected an object."),
    (
        '{"id": "../up", "agent": "echo"}',
        'team.json:2 members[0].id is "../up"; expected letters, digits, . _ or -, at most 64, '
        "starting with a letter or digit.",
    ),
    (
        '{"id": "team.json", "agent": "echo"}',
        'team.json:2 members[0].id is "team.json", which is the name of a file beside it.',
    ),
    (
        '{"id": "a", "agent": "echo", "name": "two\\nlines"}',
        'team.json:2 members[0].name is "two\\nlines"; '
        "expected one line of at most 80 characters without [ or ].",
    ),
    (
        '{"id": "a", "agent": "echo", "type": "robot"}',
        'team.json:2 members[0].type is "robot"; expected ai or human.',
    ),
    (
        '{"id": "a", "type": "ai"}',
        'team.json:2 members[0].type is "ai", but it has no agent; known: claude, codex, echo.',
    ),
    (
        '{"id": "a", "agent": "echo", "type": "human"}',
        'team.json:2 members[0].agent is "echo", but its type is "human".',
    ),
    (
        '{"id": "a", "agent": "echo", "order": "1"}',
        'team.json:2 members[0].order is "1"; expected a whole number.',
    ),
    (
        '{"id": "a", "agent": "echo", "order": true}',
        "team.json:2 members[0].order is true; expected a whole number.",
    ),
    (
        '{"id": "a", "agent": "echo", "timeoutMs": 0}',
        "team.json:2 members[0].timeoutMs is 0; expected at least 1.",
    ),
    (
        '{"id": "a", "agent": null}',
        "team.json:2 members[0].agent is null; expected text.",
    ),
    (
        '{"id": "a", "agent": "echo", "agentConfigId": "echo"}',
        'team.json:2 members[0].agentConfigId means the same as "agent", which is also given; '
        "keep one.",
    ),
    (
        '{"id": "a", "agentName": "echo", "agentConfigId": "codex"}',
        'team.json:2 members[0].agentConfigId conflicts with "agentName", which means the '
        "same; keep one.",
    ),
    (
        '{"id": "a", "agent": "echo", "workDir": ".", "executionDir": ".."}',
        'team.json:2 members[0].executionDir conflicts with "workDir", which means the same; '
        "keep one.",
    ),
    (
        '{"id": "a", "agent": "echo", "prompt": "x", "systemInstruction": "x"}',
        'team.json:2 members[0].systemInstruction means the same as "prompt", which is also given; '
        "keep one.",
    ),
    (
        '{"id": "a", "agent": "echo", "permissions": "yes"}',
        'team.json:2 members[0].permissions is "yes"; expected read, ask, accept-edits or full.',
    ),
    (
        '{"id": "a", "agent": "echo", "permissions": {"mode": "fulll"}}',
        'team.json:2 members[0].permissions.mode is "fulll"; expected read, ask, '
        "accept-edits or full. "
        "Did you mean full?",
    ),
    (
        '{"id": "a", "agent": "echo", "permissions": {"alow": []}}',
        "team.json:2 members[0].permissions.alow is not a known key. Did you mean allow?",
    ),
    (
        '{"id": "a", "agent": "echo", "env": {"CODEX_HOME": "/x"}}',
        "team.json:2 members[0].env.CODEX_HOME is set by Coterie for each member; leave it out.",
    ),
    (
        '{"id": "a", "agent": "echo", "env": {"COTERIE_MARK": "x"}}',
        "team.json:2 members[0].env.COTERIE_MARK is set by Coterie for each member; leave it out.",
    ),
    (
        '{"id": "a", "agent": "echo", "env": {"A B": "x"}}',
        'team.json:2 members[0].env."A B" is "A B"; expected letters, digits and _, '
        "not starting with a digit.",
    ),
    (
        # The value may be an API key, so the message does not repeat it.
        '{"id": "a", "agent": "echo", "env": {"API_KEY": 12345}}',
        "team.json:2 members[0].env.API_KEY is a number; expected text.",
    ),
    (
        '{"id": "a", "agent": "echo", "additionalArgs": "--fast"}',
        "team.json:2 members[0].additionalArgs is text; expected a list.",
    ),
    (
        '{"id": "a", "agent": "claude", "additionalArgs": ["--dangerously-skip-permissions"]}',
        "team.json:2 members[0].additionalArgs has --dangerously-skip-permissions, "
        'which approves everything; that needs permissions "full".',
    ),
    (
        '{"id": "a", "agent": "claude", "additionalArgs": ["--append-system-prompt=x"]}',
        "team.json:2 members[0].additionalArgs has --append-system-prompt; the prompt "
        'belongs in "prompt".',
    ),
    (
        '{"id": "a", "agent": "echo", "model": "opus"}',
        'team.json:2 members[0].model is "opus"; echo has no modelFlag to pass it by.',
    ),
    (
        '{"id": "a", "agent": "claude", "model": "--yolo"}',
        'team.json:2 members[0].model is "--yolo"; '
        "expected a model name without spaces, not starting with -.",
    ),
    (
        '{"id": "a", "agent": "echo", "homeDir": "~"}',
        'team.json:2 members[0].homeDir is "{home}"; a member\'s own folder cannot be yours.',
    ),
    (
        '{"id": "a", "agent": "echo", "workDir": "no/where"}',
        'team.json:2 members[0].workDir is "{project}/no/where"; there is no such folder.',
    ),
    (
        '{"id": "a", "agent": "echo", "promptFile": "no.md"}',
        "team.json:2 members[0].promptFile cannot be used: no.md does not exist.",
    ),
    (
        '{"id": "a", "agent": "echo", "promptFile": "."}',
        "team.json:2 members[0].promptFile cannot be used: {project} is a folder; expected a file.",
    ),
    (
        f'{{"id": "a", "agent": "echo", "workDir": "/{"x" * 300}"}}',
        f'team.json:2 members[0].workDir is "/{"x" * 300}"; there is no such folder.',
    ),
    (
        '{"id": "a", "agent": "echo"}, {"id": "A", "agent": "echo"}',
        'team.json:2 members[1].id is "A", which is also the id of members[0].',
    ),
    (
        '{"id": "a", "agent": "echo"}, {"id": "b", "name": "a", "agent": "echo"}',
        'team.json:2 members[1].name is "a", which is also the id of members[0].',
    ),
    (
        '{"id": "a", "agent": "echo", "displayName": "Max"}, {"id": "max", "agent": "echo"}',
        'team.json:2 members[1].id is "max", which is also the displayName of members[0].',
    ),
    (
        '{"id": "a", "agent": "echo", "name": "Jos\u00e9"}, '
        '{"id": "b", "agent": "echo", "name": "Jose\u0301"}',
        'team.json:2 members[1].name is "Jose\u0301", which is also the name of members[0].',
    ),
    (
        '{"id": "a", "agent": "echo", "homeDir": "h"}, {"id": "b", "agent": "echo", '
        '"homeDir": "./h"}',
        'team.json:2 members[1].homeDir is "{project}/h", which is also the homeDir of members[0].',
    ),
]


@pytest.mark.parametrize(("entry", "said"), MISTAKES, ids=[entry for entry, _ in MISTAKES])
def test_a_mistake_is_named(user: IsolatedUser, agents: Agents, entry: str, said: str) -> None:
    words = said.replace("{project}", str(user.project)).replace("{home}", str(user.home))
    assert refused(user, ONE.format(entry), agents) == words


FILES = [
    # the whole file, the message
    ("[1, 2]", "team.json:1 is a list; expected an object."),
    ("{}", 'team.json:1 has no "members".'),
    ('{"members": []}', "team.json:1 members is empty; expected at least 1 entry."),
    ('{"members": 3}', "team.json:1 members is 3; expected a list."),
    (
        '{"members": [{"id": "a"}],\n "roles": []}',
        "team.json:2 roles is a list; expected an object.",
    ),
    (
        '{"members": [{"id": "a"}],\n "workflow": "chatt"}',
        'team.json:2 workflow is "chatt"; expected chat, tickets, solo or pipeline. '
        "Did you mean chat?",
    ),
    (
        '{"members": [{"id": "a"}],\n "name": "my team"}',
        'team.json:2 name is "my team"; expected letters, digits, . _ or -, at most 64, '
        "starting with a letter or digit.",
    ),
    (
        '{"members": [{"id": "a"}],\n "defaults": {"id": "x"}}',
        "team.json:2 defaults.id is not a known key.",
    ),
    (
        '{"members": [{"id": "a"}],\n "name": "a",\n "name": "b"}',
        "team.json:3 name appears twice.",
    ),
    (
        '{"members": [\n  {"id": "a"},\n]}',
        "team.json:2:14 is not valid JSON: trailing comma before end of array.",
    ),
    (
        '{"name": "a" ,\n }',
        "team.json:1:14 is not valid JSON: trailing comma before end of object.",
    ),
    ("[1,,2]", "team.json:1:4 is not valid JSON: expecting value."),
    ('{"members": NaN}', "team.json:1:1 is not valid JSON: a number cannot be NaN."),
    ("[" * 200_000, "team.json:1:1 is not valid JSON: it is nested too deeply."),
    ("", "team.json:1:1 is not valid JSON: expecting value."),
]


@pytest.mark.parametrize(("text", "said"), FILES, ids=[text[:40] for text, _ in FILES])
def test_a_file_that_is_no_team_is_refused(
    user: IsolatedUser, agents: Agents, text: str, said: str
) -> None:
    assert refused(user, text, agents) == said


def test_all_mistakes_are_reported_at_once_by_line(user: IsolatedUser, agents: Agents) -> None:
    text = """\
        {
          "members": [
            {"id": "ada", "agent": "claude", "timeoutMs": "3",
             "promt": "You write"},
            {"id": "rex", "agent": "codx",
             "permissions": "fulll",
             "env": {"HOME": "x", "KEY": 3}},
            {"id": "Ada",
             "agent": "codex", "additionalArgs": ["--yolo"]}
          ],
          "memberz": 3
        }
        """
    with pytest.raises(ConfigError) as caught:
        load(user, text, agents)
    assert str(caught.value).splitlines() == [
        'team.json:3 members[0].timeoutMs is "3"; expected a whole number.',
        "team.json:4 members[0].promt is not a known key. Did you mean prompt?",
        'team.json:5 members[1].agent is "codx"; known: claude, codex, echo. Did you mean codex?',
        'team.json:6 members[1].permissions is "fulll"; expected read, ask, accept-edits or full. '
        "Did you mean full?",
        "team.json:7 members[1].env.KEY is a number; expected text.",
        "team.json:7 members[1].env.HOME is set by Coterie for each member; leave it out.",
        'team.json:8 members[2].id is "Ada", which is also the id of members[0].',
        "team.json:9 members[2].additionalArgs has --yolo, which approves everything; "
        'that needs permissions "full".',
        "team.json:11 memberz is not a known key. Did you mean members?",
    ]
    assert caught.value.where == f"{user.project}/team.json:3 members[0].timeoutMs"


def test_many_mistakes_are_cut(user: IsolatedUser, agents: Agents) -> None:
    members = [{"id": f"m{number}", "agent": "nobody"} for number in range(50)]
    lines = refused(user, json.dumps({"members": members}), agents).splitlines()
    assert (len(lines), lines[-1]) == (21, "… and 30 more.")


def test_a_mistake_in_defaults_is_reported_once_and_there(
    user: IsolatedUser, agents: Agents
) -> None:
    text = """\
        {"members": [{"id": "a"}, {"id": "b"}],
         "defaults": {"agent": "codx"}}
        """
    assert refused(user, text, agents) == (
        'team.json:2 defaults.agent is "codx"; known: claude, codex, echo. Did you mean codex?'
    )


def test_mistakes_in_toml_have_lines_too(user: IsolatedUser, agents: Agents) -> None:
    text = '''\
        [defaults]
        agent = "codx"

        [[members]]
        id = "ada"
        prompt = """
        agent = "not this one"
        """

        [[members]]
        id = "rex"
        agent = 3

        [members.env]
        HOME = "x"
        '''
    assert refused(user, text, agents, "team.toml").splitlines() == [
        'team.toml:2 defaults.agent is "codx"; known: claude, codex, echo. Did you mean codex?',
        "team.toml:12 members[1].agent is 3; expected text.",
        "team.toml:15 members[1].env.HOME is set by Coterie for each member; leave it out.",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("members = [", "team.toml:1:1 is not valid TOML: invalid value."),
        ('name = "a"\nname = "b"\n\n', "is not valid TOML: cannot overwrite a value."),
        ("when = 2026-01-01", "team.toml:1 when is not a known key."),
    ],
)
def test_bad_toml(user: IsolatedUser, agents: Agents, text: str, said: str) -> None:
    assert said in refused(user, text, agents, "team.toml")


def test_a_prompt_that_no_command_line_could_carry(user: IsolatedUser, agents: Agents) -> None:
    text = ONE.format(json.dumps({"id": "a", "agent": "echo", "prompt": "é" * 60_000}))
    assert refused(user, text, agents) == (
        "team.json:2 members[0].prompt is 120,000 bytes long; expected at most 100,000."
    )


def test_no_registry_yet(user: IsolatedUser) -> None:
    with pytest.raises(ConfigError) as caught:
        load(user, ONE.format('{"id": "a", "agent": "claude"}'), Registry(user.project))
    assert str(caught.value) == 'team.json:2 members[0].agent is "claude"; known: none.'
    assert caught.value.hint == "coterie agents scan"


def test_a_team_of_the_project_is_called_as_its_folder(user: IsolatedUser, agents: Agents) -> None:
    folder = user.project / ".coterie" / "teams" / "review"
    folder.mkdir(parents=True)
    (folder / "team.json").write_text('{"name": "pair", "members": [{"id": "a"}]}')
    with pytest.raises(ConfigError) as caught:
        load_team(folder, ReadContext(agents, folder_is_name=True))
    assert str(caught.value) == (
        '.coterie/teams/review/team.json:1 name is "pair"; expected "review", the name of '
        "its folder."
    )


# -- missing and unusable files ----------------------------------------------------------------


def test_a_file_that_does_not_exist(user: IsolatedUser, agents: Agents) -> None:
    with pytest.raises(NotFound, match=r"nowhere\.json does not exist"):
        load_team(user.project / "nowhere.json", ReadContext(agents))


def test_a_folder_without_a_team(user: IsolatedUser, agents: Agents) -> None:
    with pytest.raises(NotFound, match=r"There is no team\.json in"):
        load_team(user.project, ReadContext(agents))


def test_a_folder_with_two_team_files(user: IsolatedUser, agents: Agents) -> None:
    (user.project / "team.json").touch()
    (user.project / "team.toml").touch()
    with pytest.raises(ConfigError, match=r"holds both team\.json and team\.toml"):
        load_team(user.project, ReadContext(agents))


def test_a_file_that_is_too_large(user: IsolatedUser, agents: Agents) -> None:
    assert refused(user, "{" + " " * (1 << 20) + "}", agents) == "team.json is larger than 1 MiB."


def test_a_file_that_is_not_utf_8(user: IsolatedUser, agents: Agents) -> None:
    path = user.project / "team.json"
    path.write_bytes('{"members":\n [{"id": "é"}]}'.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        load_team(path, ReadContext(agents))
    assert str(caught.value) == "team.json:2 is not UTF-8 text."


def test_a_pipe_is_not_waited_for(user: IsolatedUser, agents: Agents) -> None:
    os.mkfifo(user.project / "team.json")
    with pytest.raises(ConfigError) as caught:
        load_team(user.project / "team.json", ReadContext(agents))
    assert str(caught.value) == "team.json is not a regular file; expected a file."


def test_text_that_is_no_unicode(user: IsolatedUser, agents: Agents) -> None:
    text = ONE.format('{"id": "a", "agent": "\\ud800"}')
    assert (
        refused(user, text, agents) == "team.json:2:23 is not valid JSON: half of a surrogate pair."
    )
    assert load(user, '{"members": [{"id": "a", "role": "\\ud83d\\ude00"}]}', agents)
