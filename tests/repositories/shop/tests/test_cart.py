from __future__ import annotations

import unittest

from shop.cart import Cart


class CartTest(unittest.TestCase):
    def test_items_add_up(self) -> None:
        cart = Cart()
        cart.add("pen", 150)
        cart.add("pen", 150, 2)
        assert cart.total() == 450

    def test_a_discount_is_rounded(self) -> None:
        cart = Cart()
        cart.add("ink", 999)
        assert cart.total(0.15) == 849

    def test_nothing_is_not_added(self) -> None:
        try:
            Cart().add("pen", 150, 0)
        except ValueError:
            return
        self.fail("nothing was added")
