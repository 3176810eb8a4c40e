"""Tables in terminals of every width, and graphs: what is drawn fits, and words stay whole."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from itertools import pairwise

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.cli import render
from slipstream.cli.graphs import draw_bars
from slipstream.cli.render import Columns, Table, counted, wrapped
from slipstream.cli.stream.graph import ranges_of

NARROWER = """\
╭─────────────────────────────────────────╮
│                 Servers                 │
├──────────┬───────────┬─────────┬────────┤
│ Name     │  Messages │    Size │ Remark │
├──────────┼───────────┼─────────┼────────┤
│ server-1 │ 1,234,567 │ 161 MiB │ all    │
│          │           │         │ well   │
│          │           │         │ today  │
╰──────────┴───────────┴─────────┴────────╯
"""

TIGHT = """\
╭─────────────────────────────────╮
│             Servers             │
├────────┬─────────┬───────┬──────┤
│Name    │ Messages│   Size│Remark│
├────────┼─────────┼───────┼──────┤
│server-1│1,234,567│161 MiB│all   │
│        │         │       │well  │
│        │         │       │today │
╰────────┴─────────┴───────┴──────╯
"""

BLOCKS = """\
Servers

      Name: server-1
  Messages: 1,234,567
      Size: 161 MiB
    Remark: all well today
"""


def drawn(width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(render, "_WIDTH_UNLIMITED", width)
    table = Table("Servers", "Name", "Messages", "Cluster", "Size", "Remark")
    table.add("server-1", 1_234_567, "", "161 MiB", "all well today")
    table.print()
    return capsys.readouterr().out


@pytest.mark.parametrize(("width", "wanted"), [(43, NARROWER), (35, TIGHT), (34, BLOCKS)])
def test_narrow_tables(
    width: int, wanted: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drawn(width, capsys, monkeypatch) == wanted


@pytest.mark.parametrize("width", range(20, 80))
def test_no_line_is_longer_than_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = drawn(width, capsys, monkeypatch).splitlines()
    assert lines[0].startswith("Servers") or max(map(len, lines)) <= width
    assert len({len(line) for line in lines}) == 1 or lines[0] == "Servers"


@given(
    title=st.text("T é", max_size=12),
    headers=st.lists(st.sampled_from(["Name", "Size", "Value", "a longer header", "é"]), min_size=1, max_size=4),
    data=st.data(),
)
def test_without_a_terminal_rich_is_not_needed_for_the_same_table(
    title: str, headers: list[str], data: st.DataObject
) -> None:
    cell = st.sampled_from(
        ["", "7", "1,234", "3 / 100%", "161 MiB", "-", "words of users", " lead", "\x1b[1mbold\x1b[0m"]
    )
    rows = data.draw(st.lists(st.lists(cell, min_size=len(headers), max_size=len(headers)), max_size=4))
    drop_empty = data.draw(st.booleans())
    table = Table(title, *headers)
    for row in rows:
        table.add(*row)
    if rows and data.draw(st.booleans()):
        table.total(*rows[0])
    full = [index for index in range(len(headers)) if any(row[index] for row in rows)]
    if lines := table._plain_lines(full if drop_empty else list(range(len(headers)))):
        out = io.StringIO()
        with redirect_stdout(out), pytest.MonkeyPatch.context() as patch:
            patch.setattr(table, "_plain_lines", lambda _: [])
            table.print(drop_empty=drop_empty)
        assert "\n".join(lines) + "\n" == out.getvalue()


def test_columns_in_which_nothing_stands_go_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("T", "A", "B")
    table.add("1", "")
    table.print(drop_empty=True)
    table.print()
    short, long = capsys.readouterr().out.split("╯\n")[:2]
    assert "B" not in short and "B" in long


DATES = """\
╭──────────────────────────────────────────╮
│                 Streams                  │
├──────┬─────┬───────────────────┬─────────┤
│Name  │ Size│Created            │Remark   │
├──────┼─────┼───────────────────┼─────────┤
│ORDERS│  9 B│2026-11-15 08:42:15│kept for │
│      │     │                   │a year   │
│A     │1 KiB│2026-11-15 08:42:16│         │
╰──────┴─────┴───────────────────┴─────────╯
"""


def test_numbers_stand_flush_right_and_dates_stay_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "_WIDTH_UNLIMITED", 44)
    table = Table("Streams", "Name", "Size", "Created", "Remark")
    table.add("ORDERS", "9 B", "2026-11-15 08:42:15", "kept for a year")
    table.add("A", "1 KiB", "2026-11-15 08:42:16", "")
    table.print()
    assert capsys.readouterr().out == DATES


def test_what_users_wrote_stands_as_they_wrote_it(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("Keys", "Key", "Value", "Revision")
    table.add("a-rather-long-key", "1", "1")
    table.add("b", "12345", "10")
    table.print()
    assert "│ 1     │        1 │" in capsys.readouterr().out


def test_spare_columns_go_before_a_table_becomes_blocks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "_WIDTH_UNLIMITED", 20)
    table = Table("T", "Name", "Account", "Messages")
    table.add("server-1", "BILLING", "1,234")
    table.print(spare=("Account",))
    lines = capsys.readouterr().out.splitlines()
    assert "│Name    │Messages│" in lines and "│server-1│   1,234│" in lines


def test_columns_keep_their_room(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_WIDTH_UNLIMITED", 40)
    table = Table("T", "Code", "Constant", "Description")
    table.add("10013", "CONSUMER_NAME_EXIST", "name already in use")
    table.print(spare=("Constant",), room={"Description": 15})
    assert "│ 10013 │ name already in use │" in capsys.readouterr().out.splitlines()
    table.print(spare=("Constant",))
    assert "CONSUMER_NAME_EXIST" in capsys.readouterr().out


def test_texts_break_between_words_in_terminals_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"one {'two' * 9} three four"
    assert wrapped(text) == text
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "32")
    assert wrapped(text, indent=2) == f"one {'two' * 9}\n  three four"
    assert wrapped("short\n\nlines", indent=2) == "short\n\nlines"
    assert wrapped("x" * 40) == "x" * 40, "a word is never broken: it may be copied"
    columns = Columns()
    columns.row("Label", "some words which do not fit beside it")
    columns.print()
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert lines == ["  Label: some words which do not", "         fit beside it"]


LONG_VALUES = """\
  Record path: short
       Sha256:
    0123456789abcdef0123456789abcdef
         Path:
/srv/lake/orders/_erasures/0123456789abcdef
      Servers: a.example,
    nats://[0123:4567:89ab:cdef]:4222,
               b.example
    nats://[0123:4567:89ab:cdef]:4223
               c.example
"""


def test_values_without_room_beside_their_labels_stay_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    columns = Columns()
    columns.row("Record path", "short")
    columns.row("Sha256", "0123456789abcdef" * 2)
    columns.row("Path", "/srv/lake/orders/_erasures/0123456789abcdef")
    columns.row("Servers", ["a.example", "nats://[0123:4567:89ab:cdef]:4222", "b.example"])
    columns.row("", "nats://[0123:4567:89ab:cdef]:4223")
    columns.row("", "c.example")
    columns.print()
    assert click.unstyle(capsys.readouterr().out) == LONG_VALUES


def test_notes_keep_paths_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    render.note("wrote /srv/lake/orders/_erasures/01234")
    lines = click.unstyle(capsys.readouterr().err).splitlines()
    assert [len(lines[0]), lines[1]] == [len("00:00:00 wrote"), "    /srv/lake/orders/_erasures/01234"]


def test_dates_sizes_and_what_is_tied_stay_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    render.say("Information for Stream ORDERS created 2026-11-15 11:58:29", indent=2)
    render.say("PUT PICTURES > cats-and-others.png: 293 KiB in 3 chunks", indent=4)
    Columns("Object information for PICTURES > cat.png").print()
    columns = Columns()
    columns.row("Delivered", f"Stream sequence: 57 {render.tied('Last delivery: 1m12s ago')}")
    columns.print()
    assert click.unstyle(capsys.readouterr().out).splitlines() == [
        "Information for Stream ORDERS created",
        "  2026-11-15 11:58:29",
        "PUT PICTURES > cats-and-others.png:",
        "    293 KiB in 3 chunks",
        "Object information for PICTURES >",
        "cat.png",
        "",
        "  Delivered: Stream sequence: 57",
        "             Last delivery: 1m12s ago",
    ]
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    render.say(render.tied("Last delivery: 1m12s ago"))
    assert capsys.readouterr().out == "Last delivery: 1m12s ago\n"


def test_a_long_title_widens_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("A title that is longer than the rest", "A")
    table.add("1")
    table.print()
    lines = capsys.readouterr().out.splitlines()
    assert {len(line) for line in lines} == {len("A title that is longer than the rest") + 4}


def test_counted() -> None:
    assert [counted(number, "key") for number in (0, 1, 2000)] == ["0 keys", "1 key", "2,000 keys"]


def test_bars() -> None:
    assert draw_bars([0, 1, 2, 4], 10, 2) == ["         4 ┤   █", "         0 ┤ ▄██"]
    assert draw_bars([0, 0], 10, 2) == ["           ┤  ", "         0 ┤  "]
    assert draw_bars(range(100), 3, 1) == ["         0 ┤███"]


@given(st.lists(st.floats(min_value=0, max_value=1e12), max_size=50), st.integers(1, 40), st.integers(1, 9))
def test_bars_fit(values: list[float], width: int, height: int) -> None:
    lines = draw_bars(values, width, height)
    assert len(lines) == height
    assert {len(line.partition("┤")[2]) for line in lines} == {min(width, len(values))}


@given(st.sets(st.integers(1, 60)))
def test_ranges_hold_exactly_their_numbers(numbers: set[int]) -> None:
    ranges = list(ranges_of(sorted(numbers)))
    assert [number for first, last in ranges for number in range(first, last + 1)] == sorted(numbers)
    assert all(before[1] + 1 < after[0] for before, after in pairwise(ranges))
