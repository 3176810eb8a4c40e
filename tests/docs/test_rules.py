"""The table of admission rules in the documentation is the one of the code."""

from tools.gen_rules import PAGE, with_rules


def test_the_table_of_rules() -> None:
    assert PAGE.read_text() == with_rules(PAGE.read_text()), "run python tools/gen_rules.py"
