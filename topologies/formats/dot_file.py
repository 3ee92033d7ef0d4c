"""Networks in DOT, the language of Graphviz (pure).

Statements about nodes and edges, defaults of `node [...]` and `edge [...]`, and subgraphs are read,
ports and HTML are not. Attributes are quoted texts or words: `a -- b [bw="10 Mbit/s", delay=5];`.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import pairwise

from trunkline.topologies.formats.attributes import Attributes
from trunkline.topologies.formats.graph_network import Graph, make_network
from trunkline.topologies.formats.network_file import Network, check_text
from trunkline.topologies.formats.quantities import quote
from trunkline.topologies.links import TopologyError

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | ^\#[^\n]*
    | (?P<text>"(?:[^"\\]|\\.)*")
    | (?P<word>-?[\w.\u0080-\uffff]+)
    | (?P<mark>--|->|[{}\[\];,=:])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_DRAWING = {"weight", "len", "minlen", "label", "constraint", "arrowhead", "dir"}
"""Attributes of edges by which Graphviz draws; `label` is kept as a text."""

_DEEPEST = 50


def read_dot(text: str) -> Network:
    """Read a network from DOT.

    Raises:
        TopologyError: the text is not DOT, or an attribute is impossible; the message has the line.
    """
    check_text(text)
    parser = _Parser(_list_tokens(text))
    parser.read_graph()
    edges = [
        (
            src,
            dst,
            {name: value for name, value in given.items() if name not in _DRAWING - {"label"}},
        )
        for src, dst, given in parser.edges
    ]
    nodes: dict[Hashable, Attributes] = {
        name: {key: value for key, value in given.items() if value != r"\N"}
        for name, given in parser.nodes.items()
    }
    return make_network(Graph(nodes, edges, parser.directed))


def _list_tokens(text: str) -> list[tuple[str, bool, int]]:
    """Each word or mark, whether it is a word, and its line."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            allowed = "expected nodes, edges and attributes; HTML is not read"
            raise TopologyError(f"line {line}: {quote(text[at : at + 20])}: {allowed}")
        if quoted := match["text"]:
            found.append((re.sub(r'\\(["\\])', r"\1", quoted[1:-1]), True, line))
        elif part := match["word"] or match["mark"]:
            found.append((part, bool(match["word"]), line))
        line += match[0].count("\n")
        at = match.end()
    return found


@dataclass
class _Parser:
    """Reads statements from tokens; `nodes` and `edges` are those read so far."""

    tokens: list[tuple[str, bool, int]]
    at: int = 0
    directed: bool = False
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def read_graph(self) -> None:
        words = []
        while self.at < len(self.tokens) and not self._sees("{"):
            words.append(self._word().lower())
        kinds = [word for word in words if word in ("graph", "digraph")]
        if not kinds or not self._take("{"):
            raise TopologyError("expected graph { ... } or digraph { ... }")
        self.directed = kinds[0] == "digraph"
        self._read_statements({}, {}, 0)

    def _read_statements(self, node: dict[str, str], edge: dict[str, str], depth: int) -> list[str]:
        """Read up to the closing brace; returns the names of the nodes that it names."""
        if depth > _DEEPEST:
            raise TopologyError(f"more than {_DEEPEST} subgraphs in each other")
        node, edge, named = dict(node), dict(edge), list[str]()
        while not self._take("}"):
            if self._take(";") or self._take(","):
                continue
            ends = [self._read_end(node, edge, depth)]
            if len(ends[0]) == 1 and ends[0][0].lower() in ("node", "edge", "graph"):
                kind = ends[0][0].lower()
                found = self._read_attributes()
                {"node": node, "edge": edge, "graph": {}}[kind].update(found)
                continue
            if len(ends[0]) == 1 and self._take("="):
                self._word()  # an attribute of the graph
                continue
            while self._take("--") or self._take("->"):
                ends.append(self._read_end(node, edge, depth))
            given = self._read_attributes()
            for name in (each for group in ends for each in group):
                self.nodes.setdefault(name, dict(node))
                named.append(name)
            if len(ends) == 1:
                for name in ends[0]:
                    self.nodes[name].update(given)
            for sources, targets in pairwise(ends):
                self.edges += [(a, b, {**edge, **given}) for a in sources for b in targets]
        return named

    def _read_end(self, node: dict[str, str], edge: dict[str, str], depth: int) -> list[str]:
        """The nodes of one end of an edge: a name, or all that a subgraph names."""
        if self._sees("subgraph", words=True):
            self.at += 1
            if not self._sees("{"):
                self._word()
        if self._take("{"):
            return self._read_statements(node, edge, depth + 1)
        name = self._word()
        while self._take(":"):
            self._word()
        return [name]

    def _read_attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self._take("["):
            while not self._take("]"):
                if self._take(",") or self._take(";"):
                    continue
                name = self._word()
                found[name] = self._word() if self._take("=") else "true"
        return found

    def _sees(self, mark: str, words: bool = False) -> bool:
        if self.at == len(self.tokens):
            raise TopologyError(f"the end of the file: expected {mark}")
        text, is_word, _ = self.tokens[self.at]
        return text == mark and is_word == words

    def _take(self, mark: str) -> bool:
        found = self.at < len(self.tokens) and self._sees(mark)
        if not found and self.at == len(self.tokens) and mark in "}]":
            raise TopologyError(f"the end of the file: expected {mark}")
        self.at += found
        return found

    def _word(self) -> str:
        if self.at == len(self.tokens):
            raise TopologyError("the end of the file: expected a name")
        text, is_word, line = self.tokens[self.at]
        if not is_word:
            raise TopologyError(f"line {line}: {quote(text)}: expected a name or a value")
        self.at += 1
        return text
