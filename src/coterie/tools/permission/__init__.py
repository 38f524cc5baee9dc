"""Permission rules: what a member may do unasked, whatever its agent and tools."""

from coterie.tools.permission.allow import suggest
from coterie.tools.permission.decision import decide, decide_at_once
from coterie.tools.permission.rules import Rule, RuleError

__all__ = ["Rule", "RuleError", "decide", "decide_at_once", "suggest"]
