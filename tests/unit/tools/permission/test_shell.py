"""Parsing command lines: which commands, which files, and what is uncertain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.tools.permission.shell_parser import CommandLine, parse


def commands(line: CommandLine) -> list[list[str]]:
    return [list(command.texts) for command in line.commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  # nothing but words", []),
        ("npm test", [["npm", "test"]]),
        ("a;b&c&&d||e|f|&g\nh", [[name] for name in "abcdefgh"]),
        ("(a; b) | { c; d; }", [["a"], ["b"], ["c"], ["d"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a '' \"\"", [["a", "", ""]]),
        ("a b\\;c '|' \"&&\"", [["a", "b;c", "|", "&&"]]),
        ("a \"b'c\" 'd\"e'", [["a", "b'c", 'd"e']]),
        ('a "b\\"c\\$d\\x"', [["a", 'b"c$d\\x']]),
        ("a #b\nc#d", [["a"], ["c#d"]]),
        ("a \\\n b", [["a", "b"]]),
        ("a 2>&1 >/dev/null b", [["a", "b"]]),
        ("a 2 >x", [["a", "2"]]),
        ("a <<'EOF' b\nc; d\nEOF\ne", [["a", "b"], ["e"]]),
        ("a <<X <<Y; b\n1\nX\n2\nY\nc", [["a"], ["b"], ["c"]]),
        ("a <<-X\n\tb\n\tX\nc", [["a"], ["c"]]),
        ("a <<<b c", [["a", "c"]]),
        ("a {} {b}c @{1}", [["a", "{}", "{b}c", "@{1}"]]),
        ('grep "x$" a$', [["grep", "x$", "a$"]]),
        ("a } b", [["a", "}", "b"]]),
    ],
)
def test_a_clear_line(text: str, expected: list[list[str]]) -> None:
    line = parse(text)
    assert (commands(line), line.clear, line.understood) == (expected, True, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a $b", [["a", "$b"]]),
        ("a ${b:-c}", [["a", "${b:-c}"], ["b:-c"]]),
        ("a $(b $(c))", [["a", "$(b $(c))"], ["b", "$(c)"], ["c"]]),
        ('a "x $(b) y"', [["a", "x $(b) y"], ["b"]]),
        ("a `b \\`c\\``", [["a", "`b \\`c\\``"], ["b", "`c`"], ["c"]]),
        ("a <(b)", [["a", "<(b)"], ["b"]]),
        ("a ~ ~b c=~", [["a", "~", "~b", "c=~"]]),
        ("a {b,c} {1..3}", [["a", "{b,c}", "{1..3}"]]),
        ("a $'b\\x63\\n'", [["a", "bc\n"]]),
        ("a* b", [["a*", "b"]]),
        ("=ls", [["=ls"]]),
        ("a !b", [["a", "!b"]]),
        ("a\\\nb", [["ab"]]),
        ("a &&\\\n  b c", [["a"], ["b", "c"]]),
        ("\\\na;\\\n\\\n b", [["a"], ["b"]]),
        ("{\\\n a; }", [["a"]]),
        ("X\\\n=1 a", [["a"]]),
        ("a >\\\n b", [["a"]]),
        ("eval a", [["eval", "a"]]),
        ("if a; then b; fi", [["a"], ["b"]]),
        ("! a", [["a"]]),
        ("a > $b", [["a"]]),
        ("a > b*", [["a"]]),
        ("a {b}> c", [["a", "{b}"]]),
        ("x[0]=1 a", [["a"]]),
        ("a <<X\n$(b)\nX", [["a"], ["b"]]),
        ("a\u00a0b", [["a\u00a0b"]]),
    ],
)
def test_a_line_with_words_that_are_not_known(text: str, expected: list[list[str]]) -> None:
    line = parse(text)
    assert (commands(line), line.clear, line.understood) == (expected, False, True)


@pytest.mark.parametrize(
    "text",
    [
        "a 'b",
        'a "b',
        "a $(b",
        "a `b",
        "a ${b",
        "a (b)",
        "(a",
        "a)",
        "((a))",
        "a() { b; }",
        "function a { b; }",
        "case a in b) c;; esac",
        "a > ",
        "a <<X\nb",
        "a <<'X Y'\nb\nX Y",
        "a <<X 'b\nX\n'",
        "a\x00b",
        "a\x1bb",
        "a" * 1_000_001,
        "$(" * 30 + ")" * 30,
    ],
)
def test_a_line_of_which_nothing_is_sure(text: str) -> None:
    line = parse(text)
    assert (line.clear, line.understood) == (False, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a >b", [("write", "b")]),
        ("a >>b", [("write", "b")]),
        ("a >|b", [("write", "b")]),
        ("a &>b", [("write", "b")]),
        ("a &>>b", [("write", "b")]),
        ("a >&b", [("write", "b")]),
        ("a 3>b", [("write", "b")]),
        ("a <>b", [("read", "b"), ("write", "b")]),
        ("a <b", [("read", "b")]),
        ("a > 'b c'", [("write", "b c")]),
        (">b", [("write", "b")]),
        ("a 2>&1 <&- 2>&-", []),
        ("a >&3-", [("write", "3-")]),
        ("a >&1b", [("write", "1b")]),
        ("(a) >b", [("write", "b")]),
        ("a '>' b \\> c", []),
    ],
)
def test_files_that_the_shell_opens(text: str, expected: list[tuple[str, str]]) -> None:
    opened = [one for command in parse(text).commands for one in command.redirections]
    assert [(one.effect, one.target.text) for one in opened] == expected


def test_assignments_are_no_words() -> None:
    command = parse("A=1 B+='2 3' env C=4").commands[0]
    assert [word.raw for word in command.assignments] == ["A=1", "B+='2 3'"]
    assert command.texts == ("env", "C=4")
    assert parse('"A"=1 b').commands[0].texts == ("A=1", "b")


@given(st.text(max_size=60))
def test_any_text_can_be_taken_apart(text: str) -> None:
    assert parse(text).text == text
