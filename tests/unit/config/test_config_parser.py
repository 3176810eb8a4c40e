"""The configuration language: values, places, variables, includes, and texts that are not configurations."""

from __future__ import annotations

import pytest

from slipstream.config.limits import CONFIG_DEPTH_MAX, CONFIG_INCLUDES_MAX
from slipstream.config.parser import parse_file, parse_text
from slipstream.config.source import ConfigSyntaxError
from slipstream.errors import ConfigError


def _plain(text: str, **environment: str) -> object:
    return parse_text(text, name="t.conf", environment=environment).plain()


def _error(text: str, **environment: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        _plain(text, **environment)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb = 2\nc 3", {"a": 1, "b": 2, "c": 3}),
        ("a: 1; b: 2, c: 3", {"a": 1, "b": 2, "c": 3}),
        ("a {b: 1}\nc: {d 2}", {"a": {"b": 1}, "c": {"d": 2}}),
        ("a\n{\nb\n1\n}", {"a": {"b": 1}}),
        ('{"a": [1, 2, {"b": null}]}', {"a": [1, 2, {"b": "null"}]}),
        ("a: [x\ny, z]", {"a": ["x", "y", "z"]}),
        ("a: [x, y,]", {"a": ["x", "y"]}),
        ("a: 1 # c\n// d\nb: x//y", {"a": 1, "b": "x//y"}),
        ("'a b': \"c d\"\n\"e\": 'f\\n'", {"a b": "c d", "e": "f\\n"}),
        (r'a: "\t\n\r\"\\\x41\xc3\xa9"', {"a": '\t\n\r"\\Aé'}),
        (r"a: b\nc", {"a": "b\nc"}),
        ("a: (\n x\n y)\n)\nb: 1", {"a": "\n x\n y)\n", "b": 1}),
        ("a: yes, b: OFF, c: True, d: 'true'", {"a": True, "b": False, "c": True, "d": "true"}),
        ("a: 1k, b: 1kb, c: 2MiB, d: -3g, e: 1Ti", {"a": 1000, "b": 1024, "c": 2 << 20, "d": -3 * 10**9, "e": 1 << 40}),
        ("a: 1.5, b: -2.25, c: 1.2.3.4:5, d: 127.0.0.1", {"a": 1.5, "b": -2.25, "c": "1.2.3.4:5", "d": "127.0.0.1"}),
        ("a: 1x, b: 5mbx, c: 1e5, d: 12'34", {"a": "1x", "b": "5mbx", "c": "1e5", "d": "12'34"}),
        ("a: $2a$10$x", {"a": "$2a$10$x"}),
        ("a: 1 }", {"a": 1}),
        ("a: 1\na: 2", {"a": 2}),
        ("\u2003a\u00a0: b", {"a": "b"}),
        ("", {}),
        ("a =", {"a": ""}),
    ],
)
def test_values(text: str, expected: object) -> None:
    assert _plain(text) == expected


def test_date() -> None:
    assert str(_plain("a: 2016-05-04T18:53:41Z")) == str(_plain("b: 2016-05-04T18:53:41Z")).replace("'b'", "'a'")
    assert "expected Zulu formatted DateTime" in str(_error("a: 2016-13-04T18:53:41Z"))


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a:\n1", 2, "Expected value but found new line"),
        ("a: 1 2", 1, "but got '2' instead"),
        ("a: 1\n: 2", 2, "Unexpected key separator ':'"),
        ("a { b: 1\n", 2, "Unexpected EOF processing map."),
        ("a { b: 1 c: 2 }", 1, 'Expected a map value terminator ","'),
        ("a {\n b: ,\n}", 2, 'Unexpected map value terminator ","'),
        ("a { ] }", 1, "Unexpected array end ']' processing map."),
        ("a {\n b\n}", 3, "Expected a value for the key"),
        ("a: [b c]", 1, 'Expected an array value terminator ","'),
        ("a: [,b]", 1, "Unexpected array value terminator ','"),
        ("a: [b", 1, "Expected an array value terminator"),
        ('a: "b', 1, "Unexpected EOF."),
        ("a: 'b\n\n", 3, "Unexpected EOF."),
        ('"a', 1, "Unexpected EOF."),
        ('a {"b', 1, "Unexpected EOF processing double quoted map key."),
        ("a: (\nb", 2, "Unexpected EOF processing block."),
        (r'a: "\q"', 1, "Invalid escape character 'q'"),
        (r'a: "\x4"', 1, "Expected two hexadecimal digits"),
        ('a: "\\x4\n"', 2, "hit end of line"),
        (r'a: "\xff"', 1, "Text is not valid UTF-8."),
        ("a: -b", 1, "Expected a digit but got 'b'."),
        ("a: .5", 1, "Floats must start with a digit"),
        ("a: 1.b", 1, "Floats must have a digit after the '.'"),
        ("a: 12-3", 1, "All ISO8601 dates must be in full Zulu form."),
        ("a: 2016-1", 1, "Expected digit in ISO8601 datetime, but found 'EOF' instead."),
        ("include [", 1, "start of an array"),
        ("include\n", 2, "found new line"),
        ("include 'a", 1, "Unexpected EOF in quoted include"),
        ("a: \0", 1, "Unexpected NUL byte."),
        ("/a: 1", 1, "Unexpected EOF."),
    ],
)
def test_syntax_errors_name_their_line(text: str, line: int, part: str) -> None:
    error = _error(text)
    assert isinstance(error, ConfigSyntaxError)
    assert error.line == line
    assert part in str(error)
    assert str(error).startswith(f"Parse error on line {line}: '")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 99999999999999999999", "integer '99999999999999999999' is out of the range"),
        ("a: 10e", "integer '10e' is out of the range"),
        ("a: " + "9" * 5000, f"integer '{'9' * 5000}' is out of the range"),
        ("a: 1kbb", "expected integer, but got '1kbb'"),
        ("a: ٣", "expected integer, but got '٣'"),
        ("a: 1." + "9" * 4000 + "\nb: " + "9" * 400 + ".0", f"float '{'9' * 400}.0' is out of the range"),
        ("a", "config is invalid (t.conf:1:1)"),
        ("\na\n", "config is invalid (t.conf:3:1)"),
    ],
)
def test_other_errors(text: str, message: str) -> None:
    assert str(_error(text)) == message


def test_bytes_that_are_no_text_are_an_error_only_in_values() -> None:
    broken = b"a: 1 # \xff\n".decode("utf-8", "surrogateescape")
    assert _plain(broken) == {"a": 1}
    error = _error(b"a: 1\nb: x\xff\n".decode("utf-8", "surrogateescape"))
    assert (error.line, str(error)) == (2, "Parse error on line 2: 'Text is not valid UTF-8.'")


def test_places_are_those_of_the_keys() -> None:
    root = parse_text('a: 1\n  b {\n\tc: [x]\n}\n"ü" { "d": 1 }', name="f.conf")
    assert isinstance(root.data, dict)
    b = root.data["b"]
    assert isinstance(b.data, dict)
    u = root.data["ü"]
    assert isinstance(u.data, dict)
    places = [(value.position.line, value.position.column) for value in (root.data["a"], b, b.data["c"], u.data["d"])]
    # Columns are bytes, from 0 in the first line and from 1 in the others; ü is two bytes.
    assert places == [(1, 0), (2, 3), (3, 2), (5, 9)]
    assert root.data["a"].position.file == "f.conf"


def test_nesting_is_bounded() -> None:
    deep = CONFIG_DEPTH_MAX - 1
    assert _plain("a: " + "[" * deep + "]" * deep)
    assert "inside each other" in str(_error("a: " + "[" * 100_000))
    assert "inside each other" in str(_error("a {" * 100_000))
    assert "inside each other" in str(_error("{" * 100_000))


class TestVariables:
    def test_nearest_map_wins_over_outer_and_environment(self) -> None:
        text = "x: 1\na { x: 2, b: $x, c { d: $x } }\ne: $x"
        assert _plain(text, x="3") == {"x": 1, "a": {"x": 2, "b": 2, "c": {"d": 2}}, "e": 1}

    def test_environment_values_are_parsed(self) -> None:
        assert _plain("a: $N, b: $L, c: $S", N="5k", L="[x, $N]", S="text") == {
            "a": 5000,
            "b": ["x", 5000],
            "c": "text",
        }

    def test_use_is_remembered(self) -> None:
        root = parse_text("x: 1\ny: 2\na: $x")
        assert isinstance(root.data, dict)
        assert [value.used_as_variable for value in root.data.values()] == [True, False, False]

    def test_unknown(self) -> None:
        error = _error("a: 1\nb: $nope")
        assert str(error) == "variable reference for 'nope' on line 2 can not be found"
        assert error.line == 2

    def test_cycles(self) -> None:
        message = str(_error("a: $X", X="$Y", Y="$X"))
        assert message.startswith("variable reference for 'X' on line 1 could not be parsed: ")
        assert message.endswith("variable reference cycle for 'X'")

    def test_long_chain(self) -> None:
        chain = {f"V{number}": f"$V{number + 1}" for number in range(5000)}
        assert "variables refer to each other" in str(_error("a: $V0", **chain))

    def test_broken_environment(self) -> None:
        assert "could not be parsed: Parse error on line 1" in str(_error("a: $X", X='"open'))


class TestIncludes:
    def _parse(self, files: dict[str, str]) -> object:
        def read(path: str) -> bytes:
            try:
                return files[path].encode()
            except KeyError:
                raise FileNotFoundError(2, "No such file or directory", path) from None

        return parse_file("etc/main.conf", read=read, environment={}).plain()

    def test_relative_to_the_including_file_in_any_map(self) -> None:
        files = {
            "etc/main.conf": "include a.conf\nm { include 'sub/b.conf'\n x: 1 }",
            "etc/a.conf": "a: 1",
            "etc/sub/b.conf": 'include "../c.conf"; b: 2',
            "etc/c.conf": "c: 3",
        }
        assert self._parse(files) == {"a": 1, "m": {"c": 3, "b": 2, "x": 1}}

    def test_variables_of_an_included_file_can_be_used(self) -> None:
        files = {"etc/main.conf": "include a.conf\nb: $a", "etc/a.conf": "a: 1"}
        assert self._parse(files) == {"a": 1, "b": 1}

    def test_an_included_file_does_not_see_outer_variables(self) -> None:
        with pytest.raises(ConfigError, match="variable reference for 'x' on line 1 can not be found"):
            self._parse({"etc/main.conf": "x: 1\ninclude a.conf", "etc/a.conf": "a: $x"})

    def test_missing(self) -> None:
        with pytest.raises(ConfigError) as caught:
            self._parse({"etc/main.conf": "a: 1\ninclude nope.conf"})
        assert (
            str(caught.value) == "error parsing include file 'nope.conf', open etc/nope.conf: no such file or directory"
        )
        assert (caught.value.file, caught.value.line) == ("etc/main.conf", 2)

    def test_error_names_the_included_file(self) -> None:
        with pytest.raises(ConfigError) as caught:
            self._parse({"etc/main.conf": "include a.conf", "etc/a.conf": "a: 1\nb: [1 2]"})
        assert (caught.value.file, caught.value.line) == ("etc/a.conf", 2)

    def test_a_file_that_includes_itself(self) -> None:
        with pytest.raises(ConfigError, match="files include each other"):
            self._parse({"etc/main.conf": "include main.conf"})

    def test_a_variable_that_includes_its_file(self) -> None:
        def read(_path: str) -> bytes:
            return b"a: $V"

        with pytest.raises(ConfigError, match="files include each other"):
            parse_file("main.conf", read=read, environment={"V": "1\ninclude main.conf"})

    def test_too_many(self) -> None:
        with pytest.raises(ConfigError, match=f"more than {CONFIG_INCLUDES_MAX} includes"):
            self._parse({"etc/main.conf": "include a.conf\n" * (CONFIG_INCLUDES_MAX + 1), "etc/a.conf": "a: 1"})

    def test_file_that_cannot_be_read(self) -> None:
        with pytest.raises(ConfigError, match=r"^open etc/main.conf: no such file or directory$"):
            self._parse({})


def test_ten_thousand_lines_are_linear_work() -> None:
    # Not timed: a scan that is quadratic in the text would run into the test's timeout.
    users = "\n".join(f'    {{user: "u{number}", password: "p{number}"}} # {number}' for number in range(10_000))
    plain = _plain(f"authorization {{\n  users: [\n{users}\n  ]\n}}")
    assert isinstance(plain, dict)
    assert len(plain["authorization"]["users"]) == 10_000
