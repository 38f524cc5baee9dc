"""Fakes and contract suites that ship with Coterie; nothing in the product imports them."""
