"""Modules are found by the text of their files: just those that have the function."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from trunkline.named_modules import NamedModules

FORMS = {
    "defined": "def build(rng):\n    pass\n",
    "imported": "from os.path import join as build\n",
    "imported_in_lines": "from os.path import (\n    exists,\n    join as build,\n)\n",
    "assigned": "build = print\n",
    "annotated": "build: object = print\n",
    "method": "class Factory:\n    def build(self):\n        pass\n",
    "called": "from os.path import join\njoin('build', 'x')\n",
    "builder": "def builder():\n    pass\n",
}


@pytest.mark.parametrize(
    ("package", "function"),
    [
        ("trunkline.topologies", "build"),
        ("trunkline.workloads", "build"),
        ("trunkline.agents.plans", "build"),
        ("trunkline.agents.policies", "create"),
    ],
)
def test_all_modules_with_the_function_are_found(package, function):
    folders = importlib.import_module(package).__path__
    names = sorted(info.name for info in pkgutil.iter_modules(folders))
    modules = {name: importlib.import_module(f"{package}.{name}") for name in names}
    having = {name: module for name, module in modules.items() if hasattr(module, function)}
    assert dict(NamedModules(package, folders, function)) == having


def test_a_function_may_be_defined_imported_or_assigned(tmp_path):
    for name, text in FORMS.items():
        (tmp_path / f"{name}.py").write_text(text)
    found = NamedModules("nowhere", [str(tmp_path)], "build")
    assert list(found) == ["annotated", "assigned", "defined", "imported", "imported_in_lines"]
    assert "method" not in found
    with pytest.raises(KeyError):
        found["method"]
