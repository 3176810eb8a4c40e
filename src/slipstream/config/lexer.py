"""Text of a NATS configuration file to items: keys, values, brackets, includes.

What this is not: a parser. It knows which container it is in, because separators differ by container, but not what
the keys mean; variables and includes are passed on as items.

The language, as nats-server 2.15 reads it:

    file      := entries, or '{' entries '}'            (a JSON object is a configuration)
    entry     := key [ '=' | ':' ] value | include path
    end       := newline | ',' | ';' | comment          (each container adds its own closing bracket)
    value     := map | array | "text" | 'text' | ( block ) | number [unit] | date | boolean | $NAME | text
    comment   := '#' or '//' to the end of the line

Positions are character offsets into the text; `ConfigText` turns them into nats-server's line and column. Regular
expressions use possessive repeats only, so a scan is linear in the text and needs no stack.

Invariants: the scanner raises `ConfigSyntaxError` or nothing; it never reads past the text; it ends with `EOF`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn

from slipstream.config.limits import CONFIG_DEPTH_MAX
from slipstream.config.source import ConfigText

__all__ = ["Item", "scan"]

# Kinds of items. Plain integers: a file of ten thousand lines has fifty thousand of them.
EOF: Final = 0
KEY: Final = 1
STRING: Final = 2
BOOL: Final = 3
INTEGER: Final = 4
FLOAT: Final = 5
DATE: Final = 6
VARIABLE: Final = 7
INCLUDE: Final = 8
MAP_START: Final = 9
MAP_END: Final = 10
ARRAY_START: Final = 11
ARRAY_END: Final = 12

# kind, text, start and end offset
Item = tuple[int, str, int, int]

# Containers. `_BLOCK` is the brace round a whole file.
_TOP: Final = 0
_BLOCK: Final = 1
_MAP: Final = 2
_ARRAY: Final = 3

# Python counts \x1c to \x1f as space, Go does not.
_spaces = re.compile(r"[^\S\x1c-\x1f]*+").match
_blanks = re.compile(r"[ \t]*+").match
_gap = re.compile(r"(?:[^\S\x1c-\x1f]++|(?:#|//)[^\r\n]*+)*+").match  # spaces and comments
_comment = re.compile(r"(?:#|//)[^\r\n]*+").match
_bare_key = re.compile(r".(?:[^\s=:]|[\x1c-\x1f])*+", re.DOTALL).match
_bare_text = re.compile(r"[^\\\n\r;,\]}\t ']*+").match
_quoted_text = re.compile(r'[^"\\]*+').match
_bare_path = re.compile(r"[^\n\r;} \t']*+").match
_digits = re.compile(r"\d++").match
_unit = re.compile(r"[kKmMgGtTpPeE][bBiI]*+").match
_address = re.compile(r"[\d.:-]*+").match
_block_end = re.compile(r"\n\)(?=\n|\Z)").search

_BOOLS = frozenset({"true", "false", "yes", "no", "on", "off"})
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_NUMBER_ENDS = frozenset({"", "\n", "\r", "}", ";", ",", " ", "\t"})
_ENTRY_ENDS = {_TOP: "\n\r;,}", _BLOCK: "\n\r;,", _MAP: "\n\r;,/", _ARRAY: "\n\r,/"}
_CLOSERS = {_TOP: "", _BLOCK: "}", _MAP: "}", _ARRAY: "]"}
_END_EXPECTED = {
    _TOP: "Expected a top-level value to end with a new line, comment or EOF, but got '{}' instead.",
    _BLOCK: "Expected a block-level value to end with a new line, comment or EOF, but got '{}' instead.",
    _MAP: 'Expected a map value terminator "," or a map terminator "}}", but got \'{}\' instead.',
    _ARRAY: 'Expected an array value terminator "," or an array terminator "]", but got \'{}\' instead.',
}


def scan(source: ConfigText) -> Iterator[Item]:
    """Yield the items of a text, ending with `EOF`.

    Raises:
        ConfigSyntaxError: the text is not a configuration.
    """
    scanner = _Scanner(source)
    text, size = source.text, len(source.text)
    containers = [_TOP]
    while True:
        container = containers[-1]
        scanner.pos = pos = _end(_gap, text, scanner.pos)
        if pos == size:
            if container == _MAP:
                scanner.fail("Unexpected EOF processing map.")
            if container == _ARRAY:
                scanner.fail(_END_EXPECTED[_ARRAY].format("EOF"))
            yield EOF, "", pos, pos
            return
        char = text[pos]
        closed = char == _CLOSERS[container]
        if closed:
            scanner.pos += 1
        elif char == "{" and container <= _BLOCK:
            scanner.pos += 1
            _push(containers, _BLOCK, scanner)
            continue
        else:
            if container != _ARRAY:
                key = scanner.key(container)
                yield key
                if key[0] == KEY and not scanner.find_value(container):
                    yield EOF, "", size, size
                    return
                needs_value = key[0] == KEY
            else:
                needs_value = True
                if char in ",/":
                    scanner.pos += 1
                    scanner.fail("Unexpected array value terminator ','.")
            if needs_value:
                item = scanner.value(container)
                yield item
                if item[0] == MAP_START or item[0] == ARRAY_START:
                    _push(containers, _MAP if item[0] == MAP_START else _ARRAY, scanner)
                    continue
            closed = scanner.end_of_entry(container)
        while closed:
            containers.pop()
            if container != _BLOCK:
                yield (MAP_END if container == _MAP else ARRAY_END), "", scanner.pos, scanner.pos
            elif containers[-1] == _TOP:
                break
            container = containers[-1]
            closed = scanner.end_of_entry(container)


def _push(containers: list[int], container: int, scanner: _Scanner) -> None:
    if len(containers) > CONFIG_DEPTH_MAX:
        scanner.fail(f"More than {CONFIG_DEPTH_MAX} maps and arrays inside each other.")
    containers.append(container)


def _end(match: object, text: str, pos: int) -> int:
    found = match(text, pos)  # type: ignore[operator]  # a bound `Pattern.match` that matches the empty text
    end: int = found.end()
    return end


class _Scanner:
    """A place in a text and the reading of one key, one value, or the end of an entry from there."""

    __slots__ = ("pos", "source", "text")

    def __init__(self, source: ConfigText) -> None:
        self.source = source
        self.text = source.text
        self.pos = 0  # next character to read
        nul = source.text.find("\0")
        if nul >= 0:
            self.pos = nul + 1
            self.fail("Unexpected NUL byte.")

    def fail(self, message: str) -> NoReturn:
        """Stop at the characters read so far."""
        line = self.source.line(self.pos)
        raise self.source.error(f"Parse error on line {line}: '{message}'", self.pos, self.pos)

    def fail_at_next(self, message: str) -> NoReturn:
        """Stop at the next character, which replaces `{}` in the message."""
        char = self.text[self.pos : self.pos + 1]
        self.pos += len(char)
        self.fail(message.format({"": "EOF", "\n": "\\n"}.get(char, char)))

    def key(self, container: int) -> Item:
        """Read a key, or `include` with its path."""
        text, start = self.text, self.pos
        char = text[start]
        if char in "=:":
            self.fail(f"Unexpected key separator '{char}'" + ("." if container == _MAP else ""))
        if char == "]" and container == _MAP:
            self.fail("Unexpected array end ']' processing map.")
        if char == "/":
            if container != _MAP:
                self.pos += 1
                self.fail("Unexpected EOF.")
            start += 1  # nats-server drops a lone slash before a key
            if start == len(text):
                self.fail("Unexpected EOF processing map key.")
        if char in "\"'":
            end = text.find(char, start + 1)
            if end < 0:
                self.pos = len(text)
                quote = "double quoted" if char == '"' else "quoted"
                self.fail(f"Unexpected EOF processing {quote} map key." if container == _MAP else "Unexpected EOF.")
            self.pos = end + 1
            return KEY, self.clean(text[start + 1 : end], start, end), start + 1, end
        end = _end(_bare_key, text, start)
        self.pos = end
        if end == len(text):
            if container == _MAP:
                self.fail("Unexpected EOF processing map key.")
        elif text[end] not in "=:" and text[start:end].lower() == "include":
            return self.include()
        return KEY, self.clean(text[start:end], start, end), start, end

    def include(self) -> Item:
        """Read the path after `include`."""
        text = self.text
        self.pos = start = _end(_blanks, text, self.pos)
        char = text[start : start + 1]
        if char and char in "\"'":
            end = text.find(char, start + 1)
            if end < 0:
                self.pos = len(text)
                self.fail("Unexpected EOF in " + ("double quoted" if char == '"' else "quoted") + " include")
            self.pos = end + 1
            return INCLUDE, self.clean(text[start + 1 : end], start, end), start + 1, end
        refused = {"[": "start of an array", "{": "start of a map", "(": "start of a block", "\\": "escape sequence"}
        refused |= {"-": "start of a number", "\n": "new line", "\r": "new line"}
        if char in refused or char.isdecimal():
            self.pos += 1
            self.fail(f"Expected include value but found {refused.get(char, 'start of a number')}")
        self.pos = end = _end(_bare_path, text, start)
        if text.startswith("'", end):
            self.pos += 1
        return INCLUDE, self.clean(text[start:end], start, end), start, end

    def find_value(self, container: int) -> bool:
        """Move over the separator to the value; False if the text of a file ends before it."""
        text = self.text
        self.pos = _end(_spaces, text, self.pos)
        separated = text[self.pos : self.pos + 1] in ("=", ":")
        if separated:
            self.pos += 1
        if container == _MAP:
            self.pos = _end(_spaces, text, self.pos)
            char = text[self.pos : self.pos + 1]
            if char == ",":
                self.fail('Unexpected map value terminator ",".')
            if char == "}":
                self.fail("Expected a value for the key before '}'.")
            return True
        if separated:
            self.pos = _end(_blanks, text, self.pos)
            return True
        return self.pos < len(text)

    def value(self, container: int) -> Item:
        """Read a scalar, or the bracket that opens a map or an array."""
        text, start = self.text, self.pos
        char = text[start : start + 1]
        if char == "{" or char == "[":
            self.pos = start + 1
            return (MAP_START if char == "{" else ARRAY_START), "", start, start + 1
        if char == '"':
            return self.double_quoted(start)
        if char == "'":
            end = text.find("'", start + 1)
            if end < 0:
                self.pos = len(text)
                self.fail("Unexpected EOF.")
            self.pos = end + 1
            return STRING, self.clean(text[start + 1 : end], start, end), start + 1, end
        if char == "(":
            return self.block(start)
        if char == "-":
            self.pos = start + 1
            if not text[self.pos : self.pos + 1].isdecimal():
                self.fail_at_next("Expected a digit but got '{}'.")
            return self.number(start, start + 1, container)
        if char.isdecimal():
            return self.number(start, start, container)
        if char == ".":
            self.pos = start + 1
            self.fail("Floats must start with a digit")
        if char == "\n" or char == "\r":
            self.pos = start + 1
            self.fail("Expected value but found new line")
        return self.bare(start, start)

    def double_quoted(self, start: int) -> Item:
        text, parts = self.text, []
        pos = start + 1
        while True:
            end = _end(_quoted_text, text, pos)
            parts.append(text[pos:end])
            if end == len(text):
                self.pos = end
                self.fail("Unexpected EOF.")
            if text[end] == '"':
                break
            self.pos = end + 1
            parts.append(self.escape())
            pos = self.pos
        self.pos = end + 1
        return STRING, self.clean("".join(parts), start, end), start + 1, end

    def bare(self, start: int, pos: int) -> Item:
        """Read text without quotes that starts at `start`; `pos` is the first character not yet looked at."""
        text, parts = self.text, []
        piece = start
        while True:
            end = _end(_bare_text, text, pos)
            parts.append(text[piece:end])
            if text[end : end + 1] != "\\":
                break
            self.pos = end + 1
            parts.append(self.escape())
            piece = pos = self.pos
        self.pos = end
        if text.startswith("'", end):
            self.pos += 1
        if len(parts) == 1:
            word = parts[0]
            if word.lower() in _BOOLS:
                return BOOL, word, start, end
            if word.startswith("$"):
                return VARIABLE, self.clean(word[1:], start, end), start + 1, end
        return STRING, self.clean("".join(parts), start, end), start, end

    def block(self, start: int) -> Item:
        """Read `( ... )`, closed by a parenthesis alone on its line."""
        found = _block_end(self.text, start + 1)
        if found is None:
            self.pos = len(self.text)
            self.fail("Unexpected EOF processing block.")
        end = found.start() + 1
        self.pos = end + 1
        return STRING, self.clean(self.text[start + 1 : end], start, end), start + 1, end

    def escape(self) -> str:
        """Read what follows a backslash."""
        char = self.text[self.pos : self.pos + 1]
        if char in _ESCAPES:
            self.pos += 1
            return _ESCAPES[char]
        if char != "x":
            self.fail_at_next(
                "Invalid escape character '{}'. Only the following escape characters are allowed: "
                '\\xXX, \\t, \\n, \\r, \\", \\\\.'
            )
        pair = self.text[self.pos + 1 : self.pos + 3]
        self.pos += 1 + len(pair)
        if "\n" in pair or "\r" in pair:
            self.fail("Expected two hexadecimal digits after '\\x', but hit end of line")
        try:
            byte = bytes.fromhex(pair) if len(pair) == 2 else b""
        except ValueError:
            byte = b""
        if len(byte) != 1:
            self.fail(f"Expected two hexadecimal digits after '\\x', but got '{pair}'")
        return byte.decode("utf-8", "surrogateescape")

    def number(self, start: int, first_digit: int, container: int) -> Item:
        """Read an integer with or without unit, a float, a date, an IP address, or text that starts with a digit."""
        text = self.text
        self.pos = end = _end(_digits, text, first_digit)
        char = text[end : end + 1]
        positive = start == first_digit
        if char == "-" and positive:
            return self.date(start, end)
        if char == ".":
            return self.fraction(start, end)
        unit = _unit(text, end)
        if unit is not None:
            if text[unit.end() : unit.end() + 1] in _NUMBER_ENDS:
                self.pos = unit.end()
                return INTEGER, text[start : self.pos], start, self.pos
            return self.bare(start, unit.end())
        # nats-server reads the bracket of "[1]" as part of a text; that is not worth keeping.
        if char in _NUMBER_ENDS or not positive or (char == "]" and container == _ARRAY):
            return INTEGER, text[start:end], start, end
        # The character that made it a text belongs to it, whatever it is.
        return self.bare(start, end + 1)

    def fraction(self, start: int, dot: int) -> Item:
        text = self.text
        self.pos = dot + 1
        if not text[self.pos : self.pos + 1].isdecimal():
            self.fail_at_next("Floats must have a digit after the '.', but got '{}' instead.")
        self.pos = end = _end(_digits, text, self.pos)
        if text.startswith(".", end):
            self.pos = end = _end(_address, text, end)
            return STRING, text[start:end], start, end
        return FLOAT, text[start:end], start, end

    def date(self, start: int, dash: int) -> Item:
        """Read the rest of `YYYY-MM-DDTHH:MM:SSZ`."""
        self.pos = dash + 1
        if dash - start != 4:
            self.fail("All ISO8601 dates must be in full Zulu form.")
        for expected in "00-00T00:00:00Z":
            char = self.text[self.pos : self.pos + 1]
            if expected == "0" and not char.isdecimal():
                self.fail_at_next("Expected digit in ISO8601 datetime, but found '{}' instead.")
            if expected != "0" and char != expected:
                self.fail_at_next(f"Expected '{expected}' in ISO8601 datetime, but found '{{}}' instead.")
            self.pos += 1
        return DATE, self.text[start : self.pos], start, self.pos

    def end_of_entry(self, container: int) -> bool:
        """Move over what separates entries. True if the container's closing bracket was read."""
        text = self.text
        while True:
            self.pos = _end(_blanks, text, self.pos)
            comment = _comment(text, self.pos)
            if comment is not None:
                self.pos = comment.end()
                if container == _TOP:
                    return False
                continue
            char = text[self.pos : self.pos + 1]
            if char == "/" and container <= _BLOCK:
                self.pos += 1  # nats-server drops a lone slash here
                continue
            if char == "":
                if container == _TOP:
                    return False
                self.fail_at_next(_END_EXPECTED[container])
            if char == _CLOSERS[container]:
                self.pos += 1
                return True
            if char in _ENTRY_ENDS[container]:
                self.pos += 1
                return False
            self.fail_at_next(_END_EXPECTED[container])

    def clean(self, text: str, start: int, end: int) -> str:
        """The text with bytes from escapes joined to characters.

        Raises:
            ConfigSyntaxError: the bytes are not UTF-8.
        """
        if text.isascii():
            return text
        try:
            return text.encode("utf-8", "surrogateescape").decode("utf-8")
        except UnicodeError:
            line = self.source.line(end)
            raise self.source.error(f"Parse error on line {line}: 'Text is not valid UTF-8.'", start, end) from None
