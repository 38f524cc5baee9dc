"""Names are split into words, passages begin at definitions, and synonyms match."""

from __future__ import annotations

import pytest

from coterie.tools.search.passages import (
    IndexedText,
    best_lines,
    groups,
    related,
    split_file,
    stems,
    subwords,
    terms,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("readFile", "read file readfile"),
        ("read_file", "read file readfile"),
        ("HTTPServer2", "http server httpserver"),
        ("utf16Decoder", "utf 16 decoder utf16decoder"),
        ("plain", "plain"),
        ("größe", "gr öß größ"),
        ("x", ""),
    ],
)
def test_a_name_comes_apart(name: str, expected: str) -> None:
    assert subwords(name) == expected


def test_a_question_is_what_it_is_about() -> None:
    assert terms("Where do we parse the configFile, and parse it again?") == [
        "parse",
        "config",
        "file",
        "configfile",
    ]
    assert terms("who is it") == ["who", "is", "it"]


def test_prose_is_distinguished_from_code_in_several_languages() -> None:
    python = 'def load():\n    """Read all of it."""\n    return "key"  # at once\n'
    script = "/* Reads\n   all */\nexport async function load() { return 'key' } // at once\n"

    assert split_file("reader.py", python).whole == IndexedText(
        "reader py", "load", "read all of it at once", "def load return key"
    )
    found = split_file("c.js", script).whole
    assert (found.names, found.prose) == ("load", "reads all at once")
    assert found.code == "export async function load return key"


def test_a_passage_begins_with_what_leads_in_to_a_definition() -> None:
    body = "".join(f"    step{number}()\n" for number in range(14))
    page = split_file("m.py", f"def one():\n{body}\n# Why two\n@cached\ndef two():\n{body}")

    assert [(passage.first, passage.last) for passage in page.passages] == [(1, 16), (17, 34)]
    assert page.outline.names == "one two"
    assert page.outline.prose == "why two"


def test_a_file_of_unclosed_quotes_is_read_at_once() -> None:
    assert split_file("q.txt.py", "\"\"\"a /* b ''' " * 20_000).passages


def test_words_stand_for_one_another_by_their_stems() -> None:
    assert stems(["directories", "directory"]) == {
        "directories": "directori",
        "directory": "directori",
    }
    assert "folder" in related("directori")
    assert related("nothinglikethis") == {}
    assert all(len(group) > 1 for group in groups())


def test_the_lines_shown_are_the_most_informative() -> None:
    lines = [f"line {number}" for number in range(30)]
    lines[20] = "the colours are converted here"

    assert "converted" in best_lines(lines, "Where are colours converted?")
    assert best_lines([], "anything") == ""
