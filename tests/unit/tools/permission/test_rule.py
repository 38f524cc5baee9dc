"""Parsing rules, and the messages for invalid ones."""

from __future__ import annotations

import pytest

from coterie.tools.permission import Rule, RuleError


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("npm test", "run"),
        ("run(npm test)", "run"),
        (" run( npm install * ) ", "run"),
        ("*", "run"),
        ("CI=1 npm test", "run"),
        ("write(src/**)", "write"),
        ("read(~/notes/*.md)", "read"),
        ("write(Program Files/x)", "write"),
        ("fetch(*.python.org)", "fetch"),
        ("fetch(https://x.com:8080/a/*)", "fetch"),
        ("fetch(localhost)", "fetch"),
        ("tool(mcp__github__*)", "tool"),
    ],
)
def test_a_rule(text: str, kind: str) -> None:
    rule = Rule.parse(text)
    assert (rule.kind, str(rule)) == (kind, text.strip())
    assert Rule.parse(str(rule)) == rule


FORMS = "run(COMMAND), write(PATH), read(PATH), fetch(HOST), tool(NAME) or a command"
PLAIN = "one plain command, with * as a wildcard, such as npm install *"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", FORMS),
        ("run()", FORMS),
        ("Bash(npm test)", FORMS),
        ("reed(x)", f"{FORMS} (did you mean read?)"),
        ("npm test; rm x", PLAIN),
        ("npm test && x", PLAIN),
        ("echo $HOME", PLAIN),
        ("echo 'a b'", PLAIN),
        ("run(a) b", PLAIN),
        ("ls > x", PLAIN),
        ("a\nb", PLAIN),
        ("A=1", "a program after the variable assignments"),
        ("write(src/**.py)", "** as a whole path segment, such as src/**/test_*.py"),
        ("write(a\x00b)", "a path"),
        ("fetch(a b)", "a host or an address, such as *.python.org or https://host/path/*"),
        ("tool(a b)", "the name of a tool, with * as a wildcard, such as mcp__github__*"),
    ],
)
def test_no_rule(text: str, expected: str) -> None:
    with pytest.raises(RuleError) as caught:
        Rule.parse(text)
    assert caught.value.expected == expected
    assert str(caught.value).endswith(f"; expected {expected}.")
