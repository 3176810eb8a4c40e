"""A file with declarations: YAML, or JSON, which is nearly YAML.

Only the nodes of YAML are used, not the values it makes of them: a subject `1.2` is a text here, `no` is one as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from slipstream.declared.nodes import DeclarationError, NodeKind, TextPlace
from slipstream.declared.reading import Declared, read_nodes

__all__ = ["read_declarations"]

_FILE_BYTES_MAX: Final = 8 * 1024 * 1024
_MERGE: Final = "tag:yaml.org,2002:merge"
_NULL: Final = "tag:yaml.org,2002:null"
_KINDS: Final[dict[str, NodeKind]] = {"mapping": "map", "sequence": "list"}


def read_declarations(text: str, file: str) -> Declared:
    """Read a file.

    Raises:
        DeclarationError: it cannot be read; the text names the line.
    """
    import yaml

    if len(text) > _FILE_BYTES_MAX:
        raise DeclarationError(None, f"{file} is longer than {_FILE_BYTES_MAX} bytes")
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON has them between values only, YAML nowhere
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        message = error.problem or str(error)
        if error.problem_mark is None:
            raise DeclarationError(None, f"{file}: {message}") from error
        raise DeclarationError(TextPlace(file, error.problem_mark.line + 1), message) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise DeclarationError(None, f"{file} is not YAML: {error}") from error
    return Declared() if root is None else read_nodes(_YamlNode(root, file), "the file")


class _YamlNode:
    """A node of YAML."""

    is_variable = False

    def __init__(self, node: Any, file: str) -> None:
        self._node = node
        self._file = file

    @property
    def kind(self) -> NodeKind:
        if self._node.tag == _NULL:
            return "null"
        return _KINDS.get(self._node.id, "word")

    @property
    def place(self) -> TextPlace:
        return TextPlace(self._file, self._node.start_mark.line + 1)

    @property
    def text(self) -> str:
        return str(self._node.value)

    def entries(self) -> Iterable[tuple[str | None, TextPlace, _YamlNode]]:
        """The entries of a mapping; what `<<` takes over comes last and yields to the mapping's own."""
        own = [(key, value) for key, value in self._node.value if key.tag != _MERGE]
        names = {key.value for key, _ in own if key.id == "scalar"}
        for key, value in self._node.value:
            if key.tag != _MERGE:
                continue
            for other in value.value if value.id == "sequence" else [value]:
                if other.id != "mapping" or other is self._node:
                    place = TextPlace(self._file, key.start_mark.line + 1)
                    raise DeclarationError(place, "<< takes over the entries of a mapping")
                for more_key, more in other.value:
                    if more_key.id == "scalar" and more_key.tag != _MERGE and more_key.value not in names:
                        names.add(more_key.value)
                        own.append((more_key, more))
        for key, value in own:
            name = key.value if key.id == "scalar" else None
            yield name, TextPlace(self._file, key.start_mark.line + 1), _YamlNode(value, self._file)

    def elements(self) -> Iterable[_YamlNode]:
        return (_YamlNode(each, self._file) for each in self._node.value)
