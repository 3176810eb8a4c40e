"""What commands print: tables and columns in the look of `nats`, JSON, notes with the time of day.

Results go to standard output, remarks to standard error. Colour only where a terminal shows it, which click sees to;
boxes are as wide as they need to be when no terminal limits them, so that other programs read whole lines.

rich is imported when a table is printed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import click

from slipstream.cli.human import format_number, visible_in_colour

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

__all__ = [
    "Columns",
    "Table",
    "console",
    "counted",
    "json_text",
    "note",
    "print_json",
    "print_names",
    "say",
    "tied",
    "wrapped",
]

# A table without a terminal is as wide as it needs to be; rich wants a number.
_WIDTH_UNLIMITED: Final = 100_000
_CELL_KEPT_MAX: Final = 9  # cells up to this are not wrapped: `161 MiB`, `3 / 100%`
_WORD_MAX: Final = 24  # longer words are broken where a table has to be narrow
_LONG_WORD_INDENT: Final = 4  # of a word in a line of its own
_VALUE_ROOM_MIN: Final = 20  # with less room beside a label, its value is left to the terminal
# Cells whose columns stand flush right: numbers, sizes, shares, and `9,970 / 99%`.
_TIE: Final = "\ue000"  # stands for a blank at which no line is broken; a character that nobody uses
_TOGETHER: Final = re.compile(r"(?<=\d) (?=(?:[KMGTPE]i)?B\b|\d\d:\d\d:\d\d)")  # in `293 KiB` and `2026-11-15 08:42:15`
_QUANTITY: Final = re.compile(r"-?[\d,]+(\.\d+)?( ?(%|B|[KMGTPE]iB)| / \d+%)?")
_FIGURES: Final = re.compile(r"[\d\s:/.,%-]{1,19}")  # a date with its time, `9,970 / 99%`: not to be broken lightly


def counted(number: int, noun: str) -> str:
    """`1 key`, `2,000 keys`."""
    return f"{format_number(number)} {noun}{'' if number == 1 else 's'}"


def say(text: str, *, indent: int = 0, err: bool = False) -> None:
    """A sentence, or a few; lines break between words."""
    click.echo(wrapped(text, indent=indent, err=err), err=err)


def note(text: str) -> None:
    """A remark on standard error, with the time of day."""
    clock = datetime.now().strftime("%H:%M:%S")
    line = wrapped(f"{clock} {text}", indent=len(clock) + 1, err=True)
    click.echo(f"{click.style(clock, dim=True)}{line[len(clock) :]}", err=True)


def wrapped(text: str, *, indent: int = 0, err: bool = False) -> str:
    """A text whose lines break between words where a terminal would break them inside one; as it is elsewhere.

    A word that has no room behind the blanks, such as a path or a hash, stands in a line of its own with fewer of them.

    Args:
        text: one line, or several.
        indent: blanks in front of the lines that are added.
        err: it goes to standard error.
    """
    width = shutil.get_terminal_size().columns
    if not (sys.stderr if err else sys.stdout).isatty() or width - indent < _VALUE_ROOM_MIN:
        return text.replace(_TIE, " ")
    lines = _TOGETHER.sub(_TIE, text).split("\n")
    return "\n".join(part for line in lines for part in _wrapped_line(line, width, indent)).replace(_TIE, " ")


def tied(text: str) -> str:
    """Words that `wrapped` keeps in one line."""
    return text.replace(" ", _TIE)


def _wrapped_line(line: str, width: int, indent: int) -> list[str]:
    if len(click.unstyle(line)) <= width:
        return [line]
    words = line.lstrip(" ")
    parts = textwrap.wrap(
        words,
        width,
        initial_indent=" " * (len(line) - len(words)),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return [_moved_left(part, width) for part in parts]


def _moved_left(line: str, width: int) -> str:
    """A line that has no room for its blanks and its only word, with fewer blanks."""
    if len(click.unstyle(line)) <= width:
        return line
    word = line.lstrip(" ")
    return f"{' ' * min(_LONG_WORD_INDENT, max(width - len(click.unstyle(word)), 0))}{word}"


def print_json(value: object) -> None:
    """Print a value as JSON that people can read."""
    click.echo(json_text(value))


def json_text(value: object) -> str:
    """A value as JSON that people can read."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def print_names(names: Iterable[str]) -> None:
    """A name a line."""
    for name in names:
        click.echo(name)


def console() -> Console:
    """The terminal for tables, progress and live views."""
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        width=None if is_terminal else _WIDTH_UNLIMITED,
        no_color=None if is_terminal else True,
        highlight=False,
        emoji=False,
        markup=False,
    )


class Table:
    """A table in a rounded box, with its title inside."""

    def __init__(self, title: str, *headers: str) -> None:
        """An empty table."""
        self._title = title
        self._headers = headers
        self._rows: list[list[str]] = []
        self._has_totals = False

    def add(self, *cells: object) -> None:
        """Add a row; numbers get separators of thousands."""
        assert len(cells) == len(self._headers)
        self._rows.append([_text(cell) for cell in cells])

    def total(self, *cells: object) -> None:
        """The last row: what all others come to, below a line."""
        self.add(*cells)
        self._has_totals = True

    def print(
        self, *, drop_empty: bool = False, spare: Sequence[str] = (), room: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Print it; with `drop_empty` without columns in which nothing stands, which narrow terminals never show.

        Where there is no room, cells are wrapped between words, but for dates; then the blanks beside them are left
        out; then the columns with the headers `spare` go, one by one. If that is not enough, all this is tried with
        long words broken, then with dates wrapped too. At last every row becomes a block of lines. A column that is
        wrapped keeps the width that `room` has for its header, if it needs as much.
        """
        full = [index for index in range(len(self._headers)) if any(row[index] for row in self._rows)]
        everything = list(range(len(self._headers)))
        if not sys.stdout.isatty() and (lines := self._plain_lines(full if drop_empty else everything)):
            click.echo("\n".join(lines))
            return
        from rich.text import Text

        screen = console()
        border = _border_colour()
        fewer = [
            [index for index in full if self._headers[index] not in spare[:count]] for count in range(len(spare) + 1)
        ]
        for columns, padding, wrap in (
            (full if drop_empty else everything, 1, None),
            (full, 1, None),
            *(
                (columns, padding, wrap)
                for wrap in (_least_with_words, _least_with_figures, _least)
                for columns in fewer
                for padding in (1, 0)
            ),
        ):
            widths = self._widths(columns, screen.width - len(columns) * (1 + 2 * padding) - 1, wrap, room)
            if widths:
                break
        else:
            self._print_blocks(full)
            return
        width = max(sum(widths) + len(columns) * (1 + 2 * padding) + 1, min(len(self._title) + 4, screen.width))
        title = self._title[: width - 4].center(width - 2)
        screen.print(Text(f"╭{'─' * (width - 2)}╮", style=border), soft_wrap=True)
        line = Text.assemble(("│", border), (title, "bold"), ("│", border))
        screen.print(line, soft_wrap=True)
        screen.print(self._built(columns, widths, padding, width, border))

    def _plain_lines(self, columns: Sequence[int]) -> list[str]:
        """What rich makes of a table that has all the room it needs; none unless that is plain.

        Importing rich takes longer than most commands that other programs call.
        """
        cells = [[self._headers[index], *(row[index] for row in self._rows)] for index in columns]
        plain = all(text.isascii() and text.isprintable() for column in cells for text in column)
        widths = [max(map(len, column)) for column in cells]
        width = sum(widths) + 3 * len(widths) + 1
        if not (plain and self._rows and len(self._title) + 4 <= width <= _WIDTH_UNLIMITED):
            return []
        sides = [str.rjust if self._holds_quantities(index) else str.ljust for index in columns]
        bars = ["─" * (room + 2) for room in widths]
        lines = [
            " │ ".join(side(text, room) for side, text, room in zip(sides, row, widths, strict=True))
            for row in zip(*cells, strict=True)
        ]
        head, *rows = (f"│ {line} │" for line in lines)
        across = f"├{'┼'.join(bars)}┤"
        if self._has_totals:
            rows.insert(len(rows) - 1, across)
        above = [f"╭{'─' * (width - 2)}╮", f"│{self._title.center(width - 2)}│", f"├{'┬'.join(bars)}┤"]
        return [*above, head, across, *rows, f"╰{'┴'.join(bars)}╯"]

    def _widths(
        self,
        columns: Sequence[int],
        room: int,
        wrap: Callable[[Sequence[str]], int] | None,
        wanted: Mapping[str, int],
    ) -> list[int]:
        """How wide each column is so that all fit, no narrower than `wrap` and `wanted` say; none if they do not."""
        cells = [[self._headers[index], *(row[index] for row in self._rows)] for index in columns]
        natural = [max(map(_width, column), default=0) for column in cells]
        if sum(natural) <= room or wrap is None:
            return natural if sum(natural) <= room else []
        least = [
            max(wrap(column), min(width, wanted.get(column[0], 0)))
            for column, width in zip(cells, natural, strict=True)
        ]
        if sum(least) > room:
            return []
        widths = natural
        for cap in range(max(natural), 0, -1):  # the widest columns give first
            widths = [max(low, min(high, cap)) for low, high in zip(least, natural, strict=True)]
            if sum(widths) <= room:
                break
        return widths

    def _built(self, columns: Sequence[int], widths: Sequence[int], padding: int, width: int, border: str) -> RichTable:
        from rich.box import Box
        from rich.table import Table as RichTable
        from rich.text import Text

        box = Box("├─┬┤\n│ ││\n├─┼┤\n│ ││\n├─┼┤\n├─┼┤\n│ ││\n╰─┴╯\n")
        # A long title makes columns wider than they need to be, which rich sees to.
        fixed = sum(widths) + len(widths) * (1 + 2 * padding) + 1 == width
        table = RichTable(box=box, border_style=border, header_style="bold", min_width=width, padding=(0, padding))
        for index, room in zip(columns, widths, strict=True):
            side: Literal["left", "right"] = "right" if self._holds_quantities(index) else "left"
            table.add_column(self._headers[index], overflow="fold", width=room if fixed else None, justify=side)
        for number, row in enumerate(self._rows, 1):
            if self._has_totals and number == len(self._rows):
                table.add_section()
            table.add_row(*(Text(row[index]) for index in columns))
        return table

    def _holds_quantities(self, index: int) -> bool:
        """Nothing but numbers stand in a column; not those of users, nor the first, which says what a row is about."""
        cells = [row[index] for row in self._rows if row[index]]
        counts = index > 0 and self._headers[index] != "Value"
        return counts and bool(cells) and all(map(_QUANTITY.fullmatch, cells))

    def _print_blocks(self, columns: Sequence[int]) -> None:
        click.echo(click.style(self._title, bold=True))
        for row in self._rows:
            click.echo()
            block = Columns()
            for index in columns:
                block.row(self._headers[index], row[index])
            block.print()


def _least(column: Sequence[str]) -> int:
    """The narrowest a column can be: as its longest word, or cell of a few letters such as a size."""
    words = [word for cell in column[1:] for word in ([cell] if len(cell) <= _CELL_KEPT_MAX else cell.split())]
    return max((min(_width(word), _WORD_MAX) for word in [*column[0].split(), *words]), default=1)


def _least_with_figures(column: Sequence[str]) -> int:
    """The same, with dates and other cells of a few figures kept whole."""
    return max(_least(column), *(len(cell) for cell in column if _FIGURES.fullmatch(cell)), 0)


def _least_with_words(column: Sequence[str]) -> int:
    """The same, with long words kept whole as well: names are read and copied."""
    return max(_least_with_figures(column), *(_width(word) for cell in column for word in cell.split()), 0)


def _width(text: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")))


class Columns:
    """Lines `Label: value` with the labels flush right, in titled sections."""

    def __init__(self, heading: str = "") -> None:
        """Nothing but the heading."""
        self._heading = heading
        self._lines: list[tuple[str, str] | str] = []  # a row, or the title of a section

    def row(self, label: str, value: object, *, when: object = True) -> None:
        """Add a row if `when` is true; an empty label continues the row above."""
        if when:
            self._lines.append((label, _text(value)))

    def limit(self, label: str, value: int, text: str = "") -> None:
        """Add a limit: `unlimited`, the text for it, or the number."""
        self.row(label, "unlimited" if value <= 0 else text or value)

    def section(self, title: str) -> None:
        """Begin a section."""
        self._lines.append(title)

    def print(self) -> None:
        """Print it."""
        longest = max((len(line[0]) for line in self._lines if isinstance(line, tuple)), default=0)
        if self._heading:
            say(f"{self._heading}\n")
        colon = click.style(":", fg=_border_colour())
        for number, line in enumerate(self._lines):
            if isinstance(line, str):
                click.echo(f"{'' if number == 0 else chr(10)}{click.style(line, bold=True)}:\n")
                continue
            label, value = line
            lead = f"{label:>{longest + 2}}{':' if label else ' '} "
            text = wrapped(f"{lead}{value}", indent=len(lead))
            # Behind the colon stands a blank, or the end of the line if the value has no room beside the label.
            click.echo(f"{lead[:-2]}{colon}{text[len(lead) - 1 :]}" if label else text)


def _text(cell: object) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, int):
        return format_number(cell)
    if isinstance(cell, Sequence) and not isinstance(cell, str):
        return visible_in_colour(", ".join(map(str, cell)))
    return visible_in_colour(str(cell))


_COLOURS: Final = ("yellow", "blue", "cyan", "green", "magenta", "red")


def _border_colour() -> str:
    """The scheme of the user, or cyan. Seen only on a terminal."""
    chosen = os.environ.get("NATS_COLOR", "")
    context = click.get_current_context(silent=True)
    if context is not None and context.obj is not None:
        chosen = context.obj.settings.colors or chosen
    return chosen if chosen in _COLOURS else "cyan"
