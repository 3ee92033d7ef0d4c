"""Modules that are loaded when they are used, not when they are imported."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


class _Unused(ModuleType):
    """A module of which nothing was asked for yet: it has no attributes but those of its spec.

    `importlib.util.LazyLoader` loads a module when a second file imports it.
    """

    def __getattr__(self, attribute: str) -> Any:
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        self.__class__ = ModuleType  # type: ignore[assignment]
        if spec.submodule_search_locations is not None:
            self.__path__ = spec.submodule_search_locations
        try:
            spec.loader.exec_module(self)
        except BaseException:
            del sys.modules[self.__name__]
            raise
        return getattr(self, attribute)


def load_at_first_use(name: str) -> None:
    """Let each later `import NAME` load the module when one of its attributes is asked for.

    Importing one of its submodules asks for one, too. A command that needs nothing of numpy, but
    imports files that import it, thus does a seventh less. Nothing happens if the module is loaded
    already, or is not installed.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    module.__class__ = _Unused
    vars(module).pop("__path__", None)
    sys.modules[name] = module
