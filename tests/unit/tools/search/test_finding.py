"""The twenty questions: how many find their file in the top five, compared with plain grep."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.tools.search.index import CodeIndex
from coterie.tools.workspace_files import WorkspaceRoot
from tests.unit.tools.search import plain_grep
from tests.unit.tools.search.package_questions import package, questions

FIRST, WANTED = 5, 15
OURS, ORACLE = "searchCode", "luckiest word"


def test_fifteen_of_twenty_questions_find_their_file_among_the_first_five(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = CodeIndex(tmp_path / "index.db", WorkspaceRoot.at(package()))
    index.refresh()
    texts = plain_grep.texts(package())
    rows: list[dict[str, int]] = []
    for question in questions():
        paths = [hit.path for hit in index.search(question.text, len(texts))]
        places = [place for place, path in enumerate(paths, 1) if path in question.files]
        greps = plain_grep.ranks(texts, question.text, question.files)
        rows.append({OURS: min(places, default=len(texts) + 1), **greps})
    found = {way: sum(row[way] <= FIRST for row in rows) for way in rows[0]}
    with capsys.disabled():
        print("\n" + " ".join(f"{way:>13}" for way in found) + "  rank of the right file")
        for row, question in zip(rows, questions(), strict=True):
            print(" ".join(f"{rank:13}" for rank in row.values()) + f"  {question.text}")
        print(" ".join(f"{count:13}" for count in found.values()) + f"  among the first {FIRST}")

    assert found[OURS] >= WANTED
    assert found[OURS] > max(count for way, count in found.items() if way not in (OURS, ORACLE))
