"""The small shop of `coterie demo`: its files at first, its plan, and what each worker does.

Two tickets change a file that neither named, so the second of them has to resolve a conflict; one
is discussed before it is done; one forgets something, and is sent back for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coterie.rehearsal.model_api import Client, CompletionRequest, ToolCall


@dataclass(frozen=True)
class Look:
    """Read a file; before it is changed, for some agents change nothing that they did not see."""

    path: str


@dataclass(frozen=True)
class Make:
    """Write a new file."""

    path: str
    text: str


@dataclass(frozen=True)
class Change:
    """Put one piece of a file in the place of another."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Settle:
    """Write a whole file anew that holds both sides of a conflict."""

    path: str
    text: str


@dataclass(frozen=True)
class Run:
    """Run a command."""

    command: str


Act = Look | Make | Change | Settle | Run


def call_for(act: Act, asked: CompletionRequest) -> ToolCall:
    """The call of the client's own tool that does it."""
    return _TOOLS.get(asked.client, _builtin)(act, asked)


def _claude(act: Act, asked: CompletionRequest) -> ToolCall:
    match act:
        case Look(path):
            return ToolCall("Read", {"file_path": path})
        case Make(path, content) | Settle(path, content):
            return ToolCall("Write", {"file_path": path, "content": content})
        case Change(path, old, new):
            return ToolCall("Edit", {"file_path": path, "old_string": old, "new_string": new})
        case Run(command):
            return ToolCall("Bash", {"command": command})


def _codex(act: Act, asked: CompletionRequest) -> ToolCall:
    match act:
        case Look(path):
            return ToolCall("exec_command", {"cmd": f"cat {path}"})
        case Make(path, content) | Settle(path, content):
            return _patch(f"Add File: {path}", _marked("+", content))
        case Change(path, old, new):
            return _patch(f"Update File: {path}\n@@", _marked("-", old) + _marked("+", new))
        case Run(command):
            return ToolCall("exec_command", {"cmd": command})


def _patch(what: str, lines: str) -> ToolCall:
    return ToolCall("apply_patch", f"*** Begin Patch\n*** {what}\n{lines}*** End Patch\n")


def _marked(mark: str, lines: str) -> str:
    return "".join(f"{mark}{line}\n" for line in lines.splitlines())


def _gemini(act: Act, asked: CompletionRequest) -> ToolCall:
    match act:
        case Look(path):
            return ToolCall("read_file", {"file_path": path})
        case Make(path, content) | Settle(path, content):
            return ToolCall("write_file", {"file_path": path, "content": content})
        case Change(path, old, new):
            said = {"instruction": f"Change {path}.", "old_string": old, "new_string": new}
            return ToolCall("replace", {"file_path": path, **said})
        case Run(command):
            return ToolCall("run_shell_command", {"command": command, "description": "Run tests."})


def _builtin(act: Act, asked: CompletionRequest) -> ToolCall:
    match act:
        case Look(path):
            return ToolCall("readFile", {"path": path})
        case Make(path, content):
            return ToolCall("editFile", {"path": path, "oldStr": "", "newStr": content})
        case Change(path, old, new):
            return ToolCall("editFile", {"path": path, "oldStr": old, "newStr": new})
        case Settle(path, content):
            # It cannot write a file anew, so all that it just read is put out.
            old, new = _seen(asked), content.rstrip("\n")
            return ToolCall("editFile", {"path": path, "oldStr": old, "newStr": new})
        case Run(command):
            return ToolCall("runCommand", {"command": command})


def _seen(asked: CompletionRequest) -> str:
    """The text of the file that was just read: it comes after a few facts and an empty line."""
    return asked.results[-1].text.partition("\n\n")[2] if asked.results else ""


_TOOLS: Mapping[Client, Callable[[Act, CompletionRequest], ToolCall]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "builtin": _builtin,
}


GOAL = "Add coupons to the shop, with a receipt; make the failing test pass."
TESTS = "python3 -m unittest -q"
"""Shows on the last ticket, and so on all that was merged, that nothing is red any more."""

_FOLDER = Path(__file__).with_name("demo") / "shop"
_INIT = "shop/__init__.py"
_CART = "from shop.cart import total as total\n"
_COUPONS = "from shop.coupons import percent_off as percent_off\n"
_RECEIPT = "from shop.receipt import receipt as receipt\n"
_WORDS = '"""A small shop.  Money is in cents."""\n\n'


def at_first() -> Mapping[str, str]:
    """The repository as the team finds it: by path, what is in each file.  Blocks."""
    begin = _FOLDER / "begin"
    paths = sorted(path for path in begin.rglob("*.txt"))
    return {str(path.relative_to(begin))[: -len(".txt")]: path.read_text() for path in paths}


def _made(name: str) -> str:
    return (_FOLDER / "made" / f"{name}.txt").read_text()


@dataclass(frozen=True)
class DemoTicket:
    """One task of the plan, and what its worker does about it."""

    id: str
    description: str
    files: tuple[str, ...]
    check: str
    acts: tuple[Act, ...]
    again: tuple[Act, ...] = ()
    """What is done where the manager asked for more."""
    after: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    wanted: str = ""
    """What must be in the work; where it is not, that is what the manager asks for."""
    ask: str = ""

    @property
    def outputs(self) -> list[str]:
        """The files that are changed, also those that nobody named before."""
        changed = (act.path for act in (*self.acts, *self.again) if not isinstance(act, Look | Run))
        return list(dict.fromkeys(changed))


SETTLED = (Look(_INIT), Settle(_INIT, _WORDS + _CART + _COUPONS + _RECEIPT))
"""What the author does whose work met that of another: both of it stays."""

PARTS = (
    DemoTicket(
        id="coupons",
        description="Know the coupons TEN and HALF; refuse every other code",
        files=("shop/coupons.py", "tests/test_coupons.py"),
        check=f"{TESTS} tests.test_coupons",
        acts=(
            Make("shop/coupons.py", _made("coupons.py")),
            Make("tests/test_coupons.py", _made("test_coupons.py")),
            Look(_INIT),
            Change(_INIT, _CART, _CART + _COUPONS),
        ),
    ),
    DemoTicket(
        id="receipt",
        description="Print a receipt: every price, what was saved, what is to be paid",
        files=("shop/receipt.py", "tests/test_receipt.py"),
        check=f"{TESTS} tests.test_receipt",
        acts=(
            Make("shop/receipt.py", _made("receipt.py")),
            Make("tests/test_receipt.py", _made("test_receipt.py")),
            Look(_INIT),
            Change(_INIT, _CART, _CART + _RECEIPT),
        ),
    ),
    DemoTicket(
        id="cart",
        description="Take a coupon's part off the total of the cart",
        files=("shop/cart.py",),
        check=f"{TESTS} tests.test_cart",
        acts=(
            Look("shop/cart.py"),
            Change(
                "shop/cart.py",
                '"""What a cart costs."""\n',
                '"""What a cart costs."""\n\nfrom shop.coupons import percent_off\n',
            ),
            Change(
                "shop/cart.py",
                "    return sum(prices)\n",
                "    percent = percent_off(coupon) if coupon else 0\n"
                "    # Rounded once, on the sum: rounding each price would lose cents.\n"
                "    return sum(prices) - sum(prices) * percent // 100\n",
            ),
            Run(f"{TESTS} tests.test_cart"),
        ),
        after=("coupons",),
        risks=("rounding each price by itself would lose cents",),
    ),
    DemoTicket(
        id="checkout",
        description="Print the receipt of prices and a coupon by a command: python3 -m shop",
        files=("shop/__main__.py", "tests/test_checkout.py"),
        check=TESTS,
        acts=(Make("shop/__main__.py", _made("checkout_at_first.py")),),
        again=(
            Look("shop/__main__.py"),
            Change(
                "shop/__main__.py",
                "from shop.cart import total\n",
                "from shop.cart import total\nfrom shop.coupons import UnknownCoupon\n",
            ),
            Change(
                "shop/__main__.py",
                "    print(receipt(given.prices, total(given.prices, given.coupon)))\n",
                "    try:\n"
                "        to_pay = total(given.prices, given.coupon)\n"
                "    except UnknownCoupon as unknown:\n"
                '        parser.exit(2, f"There is no coupon {unknown}.\\n")\n'
                "    print(receipt(given.prices, to_pay))\n",
            ),
            Make("tests/test_checkout.py", _made("test_checkout.py")),
            Run(TESTS),
        ),
        after=("cart", "receipt"),
        wanted="except UnknownCoupon",
        ask="An unknown coupon ends in a traceback: say so in one line, exit with 2, and test it.",
    ),
)
