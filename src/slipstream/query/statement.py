"""The text of a query: one SELECT, the tables it names, and prefixes of subjects made visible to the scan.

DuckDB hands comparisons to a scan, and keeps `LIKE` to itself. So `subject LIKE 'orders.eu.%'` gets the two
comparisons that follow from it (`subject >= 'orders.eu.' AND subject < 'orders.eu/'`), from which the server is asked
for `orders.eu.>`. The syntax tree is DuckDB's own (`json_serialize_sql`), and so is the text that is made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from slipstream.query.conditions import successor
from slipstream.query.errors import StatementError

if TYPE_CHECKING:
    import duckdb

__all__ = ["Statement", "read_statement"]

_PREFIXES: Final = frozenset(("~~", "starts_with", "prefix", "^@"))
_NARROWING: Final = ("modifiers", "where_clause", "group_expressions", "group_sets", "having", "sample", "qualify")
_NOT_A_SELECT: Final = "not implemented"


class Statement:
    """One SELECT."""

    def __init__(self, text: str, tables: tuple[str, ...], own: frozenset[str], *, counts: bool) -> None:
        """Use `read_statement`."""
        self.text = text
        """For DuckDB: what was given, perhaps with more conditions."""
        self.tables = tables
        """Names that stand where a table stands, as they are written, each once."""
        self.own = own
        """Names, in lower case, that the query defines itself (`WITH`)."""
        self.counts = counts
        """It asks how many rows its only table has, and nothing else."""


def read_statement(connection: duckdb.DuckDBPyConnection, text: str) -> Statement:
    """Look at the text of a query.

    Raises:
        StatementError: it is not one SELECT.
    """
    tree = json.loads(_asked(connection, "SELECT json_serialize_sql(?)", text))
    if tree.get("error"):
        said = tree.get("error_message", "it cannot be read")
        raise StatementError("only SELECT is answered" if tree.get("error_type") == _NOT_A_SELECT else f"SQL: {said}")
    if len(tree["statements"]) != 1:
        raise StatementError(f"one SELECT is answered at a time, not {len(tree['statements'])}")
    nodes = list(_objects(tree))
    tables = dict.fromkeys(str(node["table_name"]) for node in nodes if _is_plain_table(node))
    own = {str(entry["key"]).lower() for node in nodes if "cte_map" in node for entry in node["cte_map"]["map"]}
    if _with_bounds(tree):
        text = _asked(connection, "SELECT json_deserialize_sql(?)", json.dumps(tree))
    return Statement(text, tuple(tables), frozenset(own), counts=_counts(tree["statements"][0]["node"]))


def _asked(connection: duckdb.DuckDBPyConnection, question: str, value: str) -> str:
    return str(connection.execute(question, [value]).fetchall()[0][0])


def _is_plain_table(node: dict[str, Any]) -> bool:
    return node.get("type") == "BASE_TABLE" and not node.get("schema_name") and not node.get("catalog_name")


def _counts(node: dict[str, Any]) -> bool:
    """Whether this is `SELECT count(*) FROM TABLE` and no word more, but for constants and names.

    What is not known to be harmless is looked at as any other query.
    """
    table = node.get("from_table") or {}
    if node["type"] != "SELECT_NODE" or any(node[name] for name in _NARROWING) or node["cte_map"]["map"]:
        return False
    if not _is_plain_table(table) or any(table[name] for name in ("sample", "column_name_alias", "at_clause")):
        return False
    return all(one["class"] == "CONSTANT" or _is_count(one) for one in node["select_list"])


def _is_count(one: dict[str, Any]) -> bool:
    return bool(one["class"] == "FUNCTION" and one["function_name"] == "count_star" and not one["filter"])


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a tree, parents first."""
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting.extend(reversed(one.values()))
        elif isinstance(one, list):
            waiting.extend(reversed(one))


def _with_bounds(tree: dict[str, Any]) -> bool:
    """Put bounds beside prefixes of subjects, in place; whether there were any."""
    found = [node for node in _objects(tree) if _prefix_of(node) is not None]
    for node in found:
        prefix = _prefix_of(node)
        above = successor(prefix) if prefix is not None else None
        if prefix is None or above is None:
            continue
        column = node["arguments"][0]["expression"]
        same = dict(node)
        node.clear()
        bounds = [
            _compared(column, "COMPARE_GREATERTHANOREQUALTO", prefix),
            _compared(column, "COMPARE_LESSTHAN", above),
        ]
        # What follows from the condition changes no row, also where it is negated: all three are null together.
        node |= {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": same["alias"], "query_location": 0}
        node |= {"query_location_length": 0, "children": [{**same, "alias": ""}, *bounds]}
    return bool(found)


def _prefix_of(node: dict[str, Any]) -> str | None:
    """What `subject` has to begin with by this condition; None if it is another one."""
    arguments = node.get("arguments")
    if node.get("class") != "FUNCTION" or node.get("function_name") not in _PREFIXES or len(arguments or ()) != 2:
        return None
    column, constant = (one["expression"] for one in node["arguments"])
    if column.get("class") != "COLUMN_REF" or column["column_names"][-1].lower() != "subject":
        return None
    literal = constant.get("literal") or {}
    if constant.get("class") != "CONSTANT" or literal.get("kind") != "STRING":
        return None
    text = str(literal["text"])
    if node["function_name"] == "~~":
        text = text.partition("%")[0].partition("_")[0]
    return text or None


def _compared(column: dict[str, Any], kind: str, text: str) -> dict[str, Any]:
    place = {"alias": "", "query_location": 0, "query_location_length": 0}
    constant = {"class": "CONSTANT", "type": "VALUE_CONSTANT", **place, "literal": {"kind": "STRING", "text": text}}
    return {"class": "COMPARISON", "type": kind, **place, "left": column, "right": constant}
