"""Writes the table of admission rules in docs/internals/streams.md: `python tools/gen_rules.py`."""

from __future__ import annotations

from pathlib import Path

from slipstream.jetstream.stream.admission.rule_table import ORDERS

PAGE = Path(__file__).parents[1] / "docs/internals/streams.md"
_BEGIN, _END = "<!-- rules -->\n", "<!-- end of rules -->\n"


def with_rules(page: str) -> str:
    """The page with the table as it has to be."""
    rules = dict.fromkeys(rule for order in ORDERS.values() for rule in order)
    lines = [f"| rule | {' | '.join(origin.name for origin in ORDERS)} |", "|---" * (len(ORDERS) + 1) + "|"]
    for rule in rules:
        places = (str(order.index(rule) + 1) if rule in order else "" for order in ORDERS.values())
        lines.append(f"| {rule.check.__doc__} `{rule.name}` | {' | '.join(places)} |")
    before, rest = page.split(_BEGIN)
    return before + _BEGIN + "\n".join(lines) + "\n" + _END + rest.split(_END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_rules(PAGE.read_text()))
