"""The small shop of `coterie demo`: its files at first, its plan, and what each worker does.

Two tickets change a file that neither named, so the second of them has to resolve a conflict; one
is discussed before it is done; one forgets something, and is sent back for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from coterie.rehearsal.model_api import Client, CompletionRequest, ToolCall

StepKind = Literal["read", "create", "replace", "overwrite", "run"]


@dataclass(frozen=True)
class DemoStep:
    """One tool call of a worker, whichever agent it is."""

    kind: StepKind
    target: str
    """The file, or the command to run."""
    old: str = ""
    new: str = ""


GOAL = "Add coupons to the shop, with a receipt; make the failing test pass."
TESTS = "python3 -m unittest -q"
"""Run on the last ticket, and so on all that was merged: no test fails any more."""

_FOLDER = Path(__file__).with_name("demo") / "shop"
_INIT = "shop/__init__.py"
_CART = "from shop.cart import total as total\n"
_COUPONS = "from shop.coupons import percent_off as percent_off\n"
_RECEIPT = "from shop.receipt import receipt as receipt\n"
_WORDS = '"""A small shop.  Money is in cents."""\n\n'


def initial_files() -> Mapping[str, str]:
    """The files of the repository that the team starts with, by path; blocks."""
    begin = _FOLDER / "begin"
    paths = sorted(path for path in begin.rglob("*.txt"))
    return {str(path.relative_to(begin))[: -len(".txt")]: path.read_text() for path in paths}


def _solution(name: str) -> str:
    return (_FOLDER / "made" / f"{name}.txt").read_text()


@dataclass(frozen=True)
class DemoTicket:
    """One task of the plan, and the steps of its worker."""

    id: str
    description: str
    files: tuple[str, ...]
    check: str
    steps: tuple[DemoStep, ...]
    rework: tuple[DemoStep, ...] = ()
    """The steps after the manager has sent it back."""
    after: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    wanted: str = ""
    """What the manager looks for in the diff; where it is missing, `ask` is requested."""
    ask: str = ""

    @property
    def outputs(self) -> list[str]:
        """The files that are changed, including those that the plan did not name."""
        steps = (*self.steps, *self.rework)
        changed = (step.target for step in steps if step.kind not in ("read", "run"))
        return list(dict.fromkeys(changed))


RESOLVED = (
    DemoStep("read", _INIT),
    DemoStep("overwrite", _INIT, new=_WORDS + _CART + _COUPONS + _RECEIPT),
)
"""The steps of a worker whose change conflicts with another: both changes stay."""


def _module(name: str, description: str, export: str) -> DemoTicket:
    """The ticket of a new module with a test, which the package exports."""
    files = (f"shop/{name}.py", f"tests/test_{name}.py")
    created = (DemoStep("create", path, new=_solution(Path(path).name)) for path in files)
    exported = DemoStep("replace", _INIT, _CART, _CART + export)
    steps = (*created, DemoStep("read", _INIT), exported)
    return DemoTicket(name, description, files, f"{TESTS} tests.test_{name}", steps)


TICKETS = (
    _module("coupons", "Know the coupons TEN and HALF; refuse every other code", _COUPONS),
    _module(
        "receipt", "Print a receipt: every price, what was saved, what is to be paid", _RECEIPT
    ),
    DemoTicket(
        id="cart",
        description="Take a coupon's part off the total of the cart",
        files=("shop/cart.py",),
        check=f"{TESTS} tests.test_cart",
        steps=(
            DemoStep("read", "shop/cart.py"),
            DemoStep(
                "replace",
                "shop/cart.py",
                '"""What a cart costs."""\n',
                '"""What a cart costs."""\n\nfrom shop.coupons import percent_off\n',
            ),
            DemoStep(
                "replace",
                "shop/cart.py",
                "    return sum(prices)\n",
                "    percent = percent_off(coupon) if coupon else 0\n"
                "    # Rounded once, on the sum: rounding each price would lose cents.\n"
                "    return sum(prices) - sum(prices) * percent // 100\n",
            ),
            DemoStep("run", f"{TESTS} tests.test_cart"),
        ),
        after=("coupons",),
        risks=("rounding each price by itself would lose cents",),
    ),
    DemoTicket(
        id="checkout",
        description="Print the receipt of prices and a coupon by a command: python3 -m shop",
        files=("shop/__main__.py", "tests/test_checkout.py"),
        check=TESTS,
        steps=(DemoStep("create", "shop/__main__.py", new=_solution("checkout_at_first.py")),),
        rework=(
            DemoStep("read", "shop/__main__.py"),
            DemoStep(
                "replace",
                "shop/__main__.py",
                "from shop.cart import total\n",
                "from shop.cart import total\nfrom shop.coupons import UnknownCoupon\n",
            ),
            DemoStep(
                "replace",
                "shop/__main__.py",
                "    print(receipt(given.prices, total(given.prices, given.coupon)))\n",
                "    try:\n"
                "        to_pay = total(given.prices, given.coupon)\n"
                "    except UnknownCoupon as unknown:\n"
                '        parser.exit(2, f"There is no coupon {unknown}.\\n")\n'
                "    print(receipt(given.prices, to_pay))\n",
            ),
            DemoStep("create", "tests/test_checkout.py", new=_solution("test_checkout.py")),
            DemoStep("run", TESTS),
        ),
        after=("cart", "receipt"),
        wanted="except UnknownCoupon",
        ask="An unknown coupon ends in a traceback: say so in one line, exit with 2, and test it.",
    ),
)


# -- the tools of each agent -------------------------------------------------------------------

_TOOLS: Mapping[Client, Mapping[StepKind, tuple[str, Mapping[str, str]]]] = {
    "claude": {
        "read": ("Read", {"file_path": "{target}"}),
        "create": ("Write", {"file_path": "{target}", "content": "{new}"}),
        "replace": (
            "Edit",
            {"file_path": "{target}", "old_string": "{old}", "new_string": "{new}"},
        ),
        "run": ("Bash", {"command": "{target}"}),
    },
    "codex": {
        "read": ("exec_command", {"cmd": "cat {target}"}),
        "run": ("exec_command", {"cmd": "{target}"}),
    },
    "gemini": {
        "read": ("read_file", {"file_path": "{target}"}),
        "create": ("write_file", {"file_path": "{target}", "content": "{new}"}),
        "replace": (
            "replace",
            {
                "file_path": "{target}",
                "instruction": "Change {target}.",
                "old_string": "{old}",
                "new_string": "{new}",
            },
        ),
        "run": ("run_shell_command", {"command": "{target}", "description": "Run tests."}),
    },
    "builtin": {
        "read": ("readFile", {"path": "{target}"}),
        "create": ("editFile", {"path": "{target}", "oldStr": "", "newStr": "{new}"}),
        "replace": ("editFile", {"path": "{target}", "oldStr": "{old}", "newStr": "{new}"}),
        "run": ("runCommand", {"command": "{target}"}),
    },
}


def call_for(step: DemoStep, asked: CompletionRequest) -> ToolCall:
    """The call of the client's own tool that takes a step."""
    client = asked.client if asked.client in _TOOLS else "builtin"
    if client == "codex" and step.kind not in ("read", "run"):
        return ToolCall("apply_patch", _patch(step))
    if step.kind == "overwrite" and client == "builtin":
        # It has no tool for that, so all of the text that it just read is replaced.
        step = replace(step, kind="replace", old=_just_read(asked), new=step.new.rstrip("\n"))
    name, arguments = _TOOLS[client]["create" if step.kind == "overwrite" else step.kind]
    fields = {"target": step.target, "old": step.old, "new": step.new}
    return ToolCall(name, {key: value.format(**fields) for key, value in arguments.items()})


def _patch(step: DemoStep) -> str:
    added = "".join(f"+{line}\n" for line in step.new.splitlines())
    removed = "".join(f"-{line}\n" for line in step.old.splitlines())
    head = (
        f"Update File: {step.target}\n@@" if step.kind == "replace" else f"Add File: {step.target}"
    )
    return f"*** Begin Patch\n*** {head}\n{removed}{added}*** End Patch\n"


def _just_read(asked: CompletionRequest) -> str:
    """The text of the file that was just read: it comes after a few facts and an empty line."""
    return asked.results[-1].text.partition("\n\n")[2] if asked.results else ""
