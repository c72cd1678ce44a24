"""Which of our ops has which export rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .builder import Builder, Call
from .plan import Node, Plan, contents_needed

# Emits the nodes of a call and returns the names of its results, in order. The list may stop early:
# results that nobody reads may be left out.
Rule = Callable[[Builder, Call], str | list[str]]
# Whether a rule takes this very node; others go to the op's decomposition, or are refused.
Condition = Callable[[Node, Plan], bool]


class RefusedError(Exception):
    """What a rule raises for a call that ONNX cannot express; the text says what to do."""


class Entry(NamedTuple):
    """A rule, and when it holds."""

    rule: Rule
    when: Condition | None


NO_GRADIENTS = "gradients are not exported: export what comes before the backward pass"
RULES: dict[str, Entry] = {}


def exports(*kinds: str, when: Condition | None = None) -> Callable[[Rule], Rule]:
    """Makes a function the export rule of ops of these names.

    Args:
        kinds: names of ops of the core.
        when: which of their nodes the rule takes; all without.
    """

    def register(rule: Rule) -> Rule:
        for kind in kinds:
            assert kind not in RULES, kind
            RULES[kind] = Entry(rule, when)
        return rule

    return register


def has_rule(node: Node, plan: Plan) -> bool:
    """Whether a node is exported by a rule, rather than by what it is made of."""
    entry = RULES.get(node.kind)
    return entry is not None and (entry.when is None or entry.when(node, plan))


def why_not(node: Node) -> str:
    """Why a node without a rule cannot be exported, and what to do."""
    if "Backward" in node.kind or node.kind.endswith("Pick"):
        return NO_GRADIENTS
    if node.kind in ("OptimizerStep", "LAMBUpdate"):
        return "steps of optimizers are not exported: export what comes before them"
    if node.kind in ("Complex", "RealPart", "ImagPart", "ComplexElemwise"):
        return "ONNX has no complex numbers: compute with real and imaginary parts"
    if contents_needed(node):
        return "ONNX needs its positions and sizes as constants: pass numbers, not Tensors"
    return (
        "ONNX has no operator for it, and it is not made of others that it has: leave it out of "
        "the exported function, and pass its result as an input"
    )
