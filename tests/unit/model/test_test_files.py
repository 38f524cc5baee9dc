"""Which files are tests, and what the tests of a change would be called."""

from __future__ import annotations

import pytest

from coterie.model.test_files import is_test, is_testable, suggested_tests


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/data.csv", True),
        ("shop/test_cart.py", True),
        ("cart_test.go", True),
        ("src/cart.spec.ts", True),
        ("CartTest.java", True),
        ("shop/cart.py", False),
        ("contest.py", False),
        ("latest/cart.py", False),
    ],
)
def test_a_test_is_known_by_its_name_or_folder(path: str, test: bool) -> None:
    assert is_test(path) == test


@pytest.mark.parametrize(
    ("changed", "known", "wanted"),
    [
        (["shop/cart.py"], ["tests/test_a.py"], ["tests/test_cart.py"]),
        (["shop/cart.py"], [], ["shop/test_cart.py"]),
        (["cart.go"], ["tests/x_test.go"], ["cart_test.go"]),
        (["src/main.rs"], [], ["tests/test_main.rs"]),
        (["src/main.rs"], ["test/a.rs"], ["test/test_main.rs"]),
        (["README.md", "tests/test_a.py", "Makefile"], ["tests/test_a.py"], []),
    ],
)
def test_tests_stand_where_the_project_has_its_tests(
    changed: list[str], known: list[str], wanted: list[str]
) -> None:
    assert suggested_tests(changed, known) == wanted
    assert all(is_test(one) for one in wanted)
    assert any(map(is_testable, changed)) == bool(wanted)
