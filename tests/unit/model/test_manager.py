"""Who manages a team, and who is left to do the work."""

from __future__ import annotations

import pytest

from coterie.model.team import Member, Mode, Permissions, Team


def team(*members: tuple[str, Mode, str]) -> Team:
    return Team(
        name="crew",
        members=tuple(
            Member(
                id=name,
                name=name,
                display_name=name,
                agent="claude",
                order=place,
                role=role,
                permissions=Permissions(mode=mode),
            )
            for place, (name, mode, role) in enumerate(members)
        ),
    )


@pytest.mark.parametrize(
    ("members", "manager"),
    [
        ([("ada", "ask", ""), ("bob", "ask", "")], "ada"),
        ([("ada", "ask", ""), ("bob", "ask", "Manager ")], "bob"),
        ([("ada", "ask", ""), ("rex", "read", "")], "rex"),
        ([("ada", "ask", "manager"), ("rex", "read", "")], "ada"),
        ([("ada", "full", ""), ("rex", "read", ""), ("sam", "read", "")], "rex"),
        ([("ada", "ask", ""), ("rex", "read", ""), ("bob", "ask", "")], "ada"),
        ([("rex", "read", ""), ("ada", "ask", "")], "rex"),
        ([("rex", "read", ""), ("sam", "read", "")], "rex"),
        ([("ada", "ask", "")], "ada"),
    ],
)
def test_somebody_is_left_who_can_do_the_work(
    members: list[tuple[str, Mode, str]], manager: str
) -> None:
    assert team(*members).manager.id == manager
