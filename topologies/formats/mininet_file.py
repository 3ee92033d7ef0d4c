"""Networks of other people's Mininet files: a class of `mininet.topo.Topo` becomes a network.

Hosts are sites, switches are routers, and so is a node whose class is called a router. The file is
one for `mn --custom`, with `topos = {...}`, or has one class. Links have the parameters of
Mininet's `TCLink`, whichever class the file names.
"""

from __future__ import annotations

import ast
import inspect
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from trunkline.topologies.formats.attributes import Values
from trunkline.topologies.formats.network_file import (
    Defaults,
    Edge,
    Network,
    Node,
    Problems,
    check_node_count,
    find_links,
    list_some,
)
from trunkline.topologies.formats.network_links import make_links
from trunkline.topologies.formats.network_notes import list_notes
from trunkline.topologies.formats.node_names import name_sites
from trunkline.topologies.formats.quantities import PERCENT, RATE, TIME, Unit, quote, read_quantity
from trunkline.topologies.links import PACKET_BYTES, TopologyError
from trunkline.topologies.model import Site, Topology
from trunkline.topologies.rates.access import make_routers

DEFAULT_RATE_MBPS = 1000.0
"""The largest `bw` of stock Mininet, for links that it does not shape."""

_SHAPE = ("bw", "delay", "jitter", "loss", "max_queue_size")
_IGNORED = {
    *("node1", "node2", "port1", "port2", "cls", "cls1", "cls2", "intf", "fast", "key"),
    *("intfName1", "intfName2", "addr1", "addr2", "params1", "params2", "use_htb", "use_tbf"),
    *("use_hfsc", "gro", "txo", "rxo", "disable_gro"),
}
"""Parameters of links that do not change what a link does to packets that it carries."""


def check_script(text: str) -> None:
    """Look at a Python file before it is run.

    Raises:
        SyntaxError: the text is not Python.
        TopologyError: the file has no topology, or makes a network of Mininet as soon as it is run.
    """
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    needs = "expected a file with a function build(rng, *, ...), or a class of mininet.topo.Topo"
    if not _may_have_topology(tree, imports):
        uses = any("mininet" in ast.unparse(node) for node in imports)
        hint = f"{_SCRIPT}: it has not been run: " if uses else ""
        raise TopologyError(f"{hint}{needs}")
    starts = _STARTS
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    while more := {each.name for each in functions if _find_call(ast.walk(each), starts)} - starts:
        starts = starts | more
    if call := _find_call(_walk_module(tree.body), starts):
        allowed = 'expected that under `if __name__ == "__main__":`'
        raise TopologyError(f"line {call.lineno}: {_SCRIPT}: it has not been run: {allowed}")


_SCRIPT = "a script of Mininet that makes a network itself"
_STARTS = {"Mininet", "CLI"}
"""What makes a network in this process, or waits for a user."""


def _may_have_topology(tree: ast.Module, imports: Sequence[ast.Import | ast.ImportFrom]) -> bool:
    """Whether running the file may give it `build`, `topos` or a class of `Topo`, by its names."""
    topos = {each.asname or each.name for node in imports for each in node.names
             if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mininet.topo")
            }  # fmt: skip
    for node in _walk_module(tree.body):
        match node:
            case ast.ClassDef(name=name, bases=bases):
                if any(_name(base) in topos or "topo" in _name(base).lower() for base in bases):
                    return True
            case ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                pass
            case ast.alias():
                name = node.asname or node.name
            case _:
                continue
        if name in ("build", "topos", "*"):
            return True
    return False


def _find_call(nodes: Iterable[ast.AST], names: Collection[str]) -> ast.Call | None:
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return next((call for call in calls if _name(call.func) in names), None)


def _name(node: ast.expr) -> str:
    """The last name of `a.b.c`; empty for other expressions."""
    return str(getattr(node, "attr", "") or getattr(node, "id", ""))


def _walk_module(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """What running a file evaluates: not bodies of functions and classes, and not `__main__`."""
    for node in nodes:
        yield node
        if isinstance(node, ast.If) and "'__main__'" in ast.dump(node.test):
            yield from _walk_module(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield from _walk_module(ast.iter_child_nodes(node))


def has_topo(module: ModuleType) -> bool:
    """Whether a module has `topos` or classes of Mininet's `Topo`, and no function `build`."""
    if hasattr(module, "build"):
        return False
    return isinstance(getattr(module, "topos", None), Mapping) or bool(_find_classes(module))


def make_build(module: ModuleType) -> Callable[..., Topology]:
    """The function `build` of a topology for the networks of a Mininet file."""

    def build(
        rng: random.Random,
        *,
        topo: str = "",
        default_rate_mbps: float = DEFAULT_RATE_MBPS,
        default_delay_ms: float = 0.0,
        rate_factor: float = 1.0,
    ) -> Topology:
        """The network of a Mininet file; `rng` is not used.

        Options:
            topo: the name in `topos` and its parameters, as after `mn --topo`: `mytopo,3,k=2`. By
                default the only one, without parameters.
            default_rate_mbps: the rate of links without `bw`.
            default_delay_ms: the delay of links without `delay`.
            rate_factor: multiplies every rate.
        """
        if not 0 < rate_factor < float("inf"):
            allowed = f"rate_factor: {rate_factor}: expected above 0"
            raise TopologyError(allowed, key="rate_factor")
        network = _read_topo(_make_topo(module, topo))
        found = find_links(network, Defaults(default_rate_mbps, default_delay_ms))
        links, origins = make_links(found, rate_factor)
        nodes = tuple(Site(node.name) for node in network.nodes)
        name = topo.partition(",")[0] or "mininet"
        notes = list_notes(network)
        made = Topology(name, nodes, links, notes=notes, origins=origins)
        forwarding = [node.name for node in network.nodes if node.forwards]
        return make_routers(made, forwarding) if forwarding else made

    return build


def _find_classes(module: ModuleType) -> list[type]:
    """The classes of `Topo` that a module defines itself."""
    try:
        base = import_module("mininet.topo").Topo
    except ImportError:
        return []
    return [
        each
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, base) and each.__module__ == module.__name__
    ]


def _make_topo(module: ModuleType, wanted: str) -> Any:
    """The object of `Topo` that is wanted."""
    name, arguments, options = import_module("mininet.util").splitArgs(wanted)
    listed = getattr(module, "topos", None)
    if not isinstance(listed, Mapping) or not listed:
        listed = {each.__name__: each for each in _find_classes(module)}
    if not name and len(listed) == 1:
        name = next(iter(listed))
    if name not in listed:
        given = f"topo: {name!r}: " if name else "topo: "
        raise TopologyError(f"{given}expected one of {', '.join(map(str, listed))}", key="topo")
    try:
        inspect.signature(listed[name]).bind(*arguments, **options)
    except TypeError as reason:
        raise TopologyError(f"topo: {wanted!r}: {reason}", key="topo") from None
    made = listed[name](*arguments, **options)
    if not isinstance(made, import_module("mininet.topo").Topo):
        raise TopologyError(f"topo: {name!r} gave {made!r:.60}: expected a Topo", key="topo")
    return made


def _read_topo(topo: Any) -> Network:
    """The nodes and links of a `Topo`."""
    labels = [*topo.hosts(sort=False), *topo.switches(sort=False)]
    check_node_count(len(labels))
    names = dict(zip(labels, name_sites([str(label) for label in labels]), strict=True))
    nodes = tuple(
        Node(name, label=str(label), forwards=_forwards(topo, label))
        for label, name in names.items()
    )
    if sum(not node.forwards for node in nodes) < 2:
        raise TopologyError("hosts: expected 2 or more, which become sites")
    problems = Problems()
    edges: list[Edge] = []
    for one, other, given in topo.links(sort=False, withInfo=True):
        for src, dst, own in ((one, other, "params1"), (other, one, "params2")):
            with problems.noting(f"link {src} -> {dst}: "):
                values = _read_values({**(given.get(own) or {}), **given})
                if one != other:
                    edges.append(Edge(names[src], names[dst], values))
    problems.refuse()
    return Network(nodes, tuple(edges), remarks=tuple(_note_unshaped(edges)))


def _forwards(topo: Any, label: str) -> bool:
    kind = topo.nodeInfo(label).get("cls")
    return bool(topo.isSwitch(label)) or "router" in getattr(kind, "__name__", "").lower()


def _read_values(given: Mapping[str, Any]) -> Values:
    """What Mininet's parameters of one direction of a link mean."""
    problems = Problems()
    found: dict[str, Any] = {}
    parts: tuple[tuple[str, str, Unit], ...] = (
        ("bw", "rate_mbps", RATE),
        ("delay", "delay_ms", TIME),
        ("jitter", "jitter_ms", TIME),
        ("loss", "loss_percent", PERCENT),
    )
    for name, key, unit in parts:
        if (value := given.get(name)) is not None:
            with problems.noting(f"{name} "):
                if unit is TIME and str(value).replace(".", "", 1).isdigit() and float(value):
                    allowed = f"expected a time with a unit, such as '{value}ms'"
                    raise TopologyError(f"{quote(str(value))}: {allowed}; tc would read it as us")
                found[key] = read_quantity(value, unit)
    if (packets := given.get("max_queue_size")) is not None:
        if isinstance(packets, int) and packets > 0:
            found["queue_bytes"] = packets * PACKET_BYTES
        else:
            allowed = "expected a number of packets, 1 or more"
            problems.texts.append(f"max_queue_size {quote(str(packets))}: {allowed}")
    problems.refuse()
    names = {key: name for name, key, _ in parts} | {"queue_bytes": "max_queue_size"}
    return Values(
        **found, origins={key: names[key] for key in found}, unused=tuple(_list_unused(given))
    )


def _list_unused(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        if name not in _SHAPE and name not in _IGNORED and value not in (None, False, 0):
            yield name, str(value)


def _note_unshaped(edges: list[Edge]) -> Iterator[str]:
    """The links that Mininet would not shape."""
    links = [
        f"{edge.src} - {edge.dst}"
        for edge in edges
        if edge.values.rate_mbps is None and edge.src < edge.dst
    ]
    if links:
        yield f"links without bw have default_rate: {list_some(links)}"
