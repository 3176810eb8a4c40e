"""Modules of the standard library that asyncio and uvloop import, and that no start needs.

`inspect` alone brings `ast` and `dis` and takes 8 % of the processor time of a start. A stand-in takes its place among
the loaded modules. The first attribute that somebody asks it for loads the module itself, which every later import then
gets; whoever holds the stand-in gets all attributes through it. Only the program does this: a server inside another one
leaves modules as they are.

See docs/adr/0123-modules-that-a-start-does-without.md.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, Final

__all__ = ["PUT_OFF", "StandIn", "load_put_off", "put_off"]

PUT_OFF: Final = ("inspect", "locale", "textwrap", "tokenize")
_IS_COROUTINE: Final = 0x80  # CO_COROUTINE of a function's code


class StandIn(ModuleType):
    """Stands for a module until somebody needs it."""

    def __getattr__(self, name: str) -> Any:
        """What the module has under this name."""
        if name.startswith("__"):  # the import system asks whether it is a package, and the like
            raise AttributeError(name)
        return getattr(self.loaded(), name)

    def loaded(self) -> ModuleType:
        """The module itself; threads that come here together wait for one import."""
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        return import_module(name)


class _Inspect(StandIn):
    """Knows what uvloop takes at once, and what it asks about every handler of a signal."""

    @staticmethod
    def isgenerator(value: object) -> bool:
        """Whether it is a generator."""
        return isinstance(value, GeneratorType)

    def iscoroutinefunction(self, value: Any) -> bool:
        """Whether it is a function whose calls are awaited."""
        function = value.__func__ if type(value) is MethodType else value
        if type(function) is FunctionType and not vars(function):  # there is no mark that says otherwise
            return bool(function.__code__.co_flags & _IS_COROUTINE)
        return bool(self.loaded().iscoroutinefunction(value))


def put_off() -> None:
    """Load the modules of `PUT_OFF` when they are needed; those that are there already stay."""
    for name in PUT_OFF:
        if name not in sys.modules:
            sys.modules[name] = (_Inspect if name == "inspect" else StandIn)(name)


def load_put_off() -> None:
    """Load now what nobody has needed yet."""
    for name in PUT_OFF:
        module = sys.modules[name]
        if isinstance(module, StandIn):
            module.loaded()
