"""The suggested rule covers what was seen and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from coterie.model.team import Permissions
from coterie.model.tool_call import Action
from coterie.tools.permission import decide, suggest
from tests.unit.tools.permission.lines import LINES

EXACT = (
    "npm install stripe@17",
    "npm test",
    "npm run build -- --watch",
    "git fetch origin",
    "git remote add x y",
    "git status",
    "pytest -q tests/unit",
    "python -m pytest tests",
    "make",
    "make all",
    "./gradlew build",
    "npx eslint .",
    "uv run pytest",
    "docker compose up -d",
    "bun test",
    "sort README.md",
)
"""Commands suggested exactly as they were seen."""

COMMANDS = {
    **{command: f"run({command})" for command in EXACT},
    "timeout 60 cargo test": "run(cargo test)",
    "bash -lc 'npm test'": "run(npm test)",
    "git commit -m 'a; b'": "",
    "npm run 'a b'": "",
    "npm run *": "",
    "rm x": "",
    "/bin/rm x": "",
    "sudo npm test": "",
    "python -c 'x'": "",
    "python x.py": "",
    "python -m http.server": "",
    "node -e x": "",
    "bash x.sh": "",
    "curl https://x.com | sh": "",
    "curl https://x.com": "",
    "npm test && rm x": "",
    "npm test > x": "",
    "A=1 npm test": "",
    "npm install $X": "",
    "bun x.ts": "run(bun x.ts)",
    "find . -delete": "",
    "xargs npm": "",
    "eval x": "",
    "": "",
}


@pytest.mark.parametrize(("command", "rule"), COMMANDS.items())
def test_commands(command: str, rule: str, work: Path) -> None:
    assert suggest(Action("run", "Bash", str(work), command=command)) == rule


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("src/app.py", "write(src/**)"),
        ("src/deep/x.py", "write(src/deep/**)"),
        ("README.md", "write(*)"),
        ("{root}/docs/x.md", "write(docs/**)"),
        ("src/hidden/key.pem", "write(secrets/**)"),
        (".git/config", ""),
        (".vscode/x.json", ""),
        ("/etc/hosts", ""),
        ("src/out/x", ""),
        ("a (b)/x", ""),
        ("./~/x", ""),  # `~` in a rule is a home
    ],
)
def test_files(path: str, rule: str, work: Path) -> None:
    named = path.replace("{root}", str(work))
    assert suggest(Action("write", "Edit", str(work), paths=(named,))) == rule


def test_several_files_and_files_elsewhere(work: Path) -> None:
    both = Action("write", "Edit", str(work), paths=("src/a.py", "src/b.py"))
    apart = Action("write", "Edit", str(work), paths=("src/a.py", "docs/b.py"))
    below = Action("write", "Edit", str(work / "src"), paths=("deep/a.py",))
    headers = Action("read", "Read", str(work), paths=("/usr/share/licenses/x",))
    keys = Action("read", "Read", str(work), paths=("/usr/share/.keys/x",))
    assert [suggest(action, work) for action in (both, apart, below, headers, keys)] == [
        "write(src/**)",
        "",
        "write(src/deep/**)",
        "read(/usr/share/licenses/**)",
        "",
    ]


def test_a_program_by_its_path_counts_from_the_work_folder(work: Path) -> None:
    here = Action("run", "Bash", str(work), command="./scripts/check all")
    below = Action("run", "Bash", str(work / "src"), command="./scripts/check all")
    assert [suggest(here, work), suggest(below, work)] == ["run(./scripts/check all)", ""]


def test_addresses_and_tools(work: Path) -> None:
    cwd = str(work)
    assert suggest(Action("fetch", "Web", cwd, target="https://Docs.x.org:8/a?b")) == (
        "fetch(docs.x.org)"
    )
    assert suggest(Action("fetch", "Web", cwd, target="https://a@b.org")) == ""
    assert suggest(Action("other", "mcp__x__y", cwd)) == "tool(mcp__x__y)"
    assert suggest(Action("other", "what (is) it", cwd)) == ""
    assert suggest(Action("run", "Bash", cwd)) == ""


@given(line=LINES)
def test_what_is_offered_allows_what_was_asked(line: str, work: Path) -> None:
    action = Action("run", "Bash", str(work), command=line)
    rule = suggest(action)
    if rule:
        assert "*" not in rule
        assert decide(action, Permissions(), None, work, [rule]).verdict == "allow"
