"""A YAML file as plain data, with the line of each value and the problems of the file (pure).

The YAML is strict. A key that is given twice is an error. `on`, `no` and `1:30` are text, and keys
are always text. Anchors, tags and second documents are refused. `--set key.path=value` changes the
same data, and a problem of such a value names the command's option instead of a line.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

KeyPath = tuple[str | int, ...]
"""The place of a value: ("topology", "overrides", 0, "rate")."""

MAX_CHARACTERS = 10_000_000
MAX_SHOWN = 60

MOST_NAMES = 40
"""The most names that an error lists as allowed."""

ALIKE = 0.65
"""How much a name resembles what a user gave, at least, if an error offers it."""

NO_TAGS = "expected the value without a tag (!name)"
NO_ALIASES = "anchors (&name) and aliases (*name) are not allowed: write the value out"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a file; its text is `file:line: key.path: value: what is allowed`.

    Line, key path and value may be None or empty; the text then leaves them out.

    Attributes:
        file: the name of the file, or the text of the command's option that gave the value.
    """

    file: str
    line: int | None
    key_path: str
    value: str
    allowed: str

    def __str__(self) -> str:
        file = shorten_words(self.file, 1000)
        place = file if self.line is None else f"{file}:{self.line}"
        parts = (place, self.key_path, self.value, self.allowed)
        return make_printable(": ".join(part for part in parts if part))


MOST_SHOWN = 100
"""The most problems of a scenario that are shown."""


class ScenarioErrors(Exception):  # noqa: N818 (it stands for several errors)
    """All problems of a scenario, in the order of their lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        shown = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        if (more := len(self.problems) - MOST_SHOWN) > 0:
            shown.append(f"and {more} more problems")
        super().__init__("\n".join(shown))


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()
"""The result of `Document.get` where the data has no value."""


@dataclass(slots=True)
class Document:
    """The data of one file, the (file, line) of each key path, and the problems found so far."""

    file: str
    data: Any = None
    places: dict[KeyPath, tuple[str, int | None]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def get(self, path: KeyPath) -> Any:
        """The value at a path, or MISSING if there is none."""
        return _get(self.data, path)

    def refuse(self, path: KeyPath, allowed: str, value: str | None = None) -> None:
        """Add a problem.

        Args:
            path: the key path of the problem.
            allowed: the values that are allowed.
            value: the value to show; by default the one at the path.
        """
        # A missing key has no line, so its closest ancestor gives the line.
        ancestors = (path[:length] for length in range(len(path), -1, -1))
        file, line = next(
            (self.places[known] for known in ancestors if known in self.places), (self.file, None)
        )
        shown = show(self.get(path)) if value is None else value
        where = show_path(tuple(shorten(key) if isinstance(key, str) else key for key in path))
        self.problems.append(Problem(file, line, where, shown, shorten_words(allowed)))

    def is_sound(self, *sections: str) -> bool:
        """Whether none of these top-level sections has a problem so far."""
        return not any(re.split(r"[.\[]", p.key_path)[0] in sections for p in self.problems)

    def is_set(self, path: KeyPath) -> bool:
        """Whether an option of the command gave exactly this value, not the file."""
        return path in self.places and self.places[path][1] is None

    def set(self, assignment: str) -> None:
        """Apply one `key.path=value`, whose value is YAML; problems are added to the document."""
        option = f"--set {shorten(assignment)}"
        keys, equals, text = assignment.partition("=")
        path = parse_path(keys.strip())
        if not equals or path is None:
            form = "expected key.path=value, such as scheme.p=4 or stop.time='50 s'"
            self.problems.append(Problem(option, None, "", "", form))
            return
        value = read(text, option)
        above = [path[:length] for length in range(1, len(path))]
        made = [each for each in above if self.get(each) is MISSING]
        if value.problems:
            self.problems.extend(
                Problem(option, None, "", p.value, shorten_words(p.allowed)) for p in value.problems
            )
        elif not _put(self.data, path, value.data):
            form = "expected a path through the mappings and lists of the file"
            self.problems.append(Problem(option, None, shorten(show_path(path)), "", form))
        else:
            for known in [known for known in self.places if known[: len(path)] == path]:
                del self.places[known]
            self.places |= dict.fromkeys([*made, path], (option, None))


def read(text: str, file: str) -> Document:
    """Read one YAML value; its problems are in the returned document."""
    document = Document(file, places={(): (file, 1)})
    try:
        if len(text) > MAX_CHARACTERS:
            document.refuse((), f"expected {MAX_CHARACTERS} characters or fewer", "too long")
            return document
        root = _compose(text)
        if root is not None:
            document.data = _build(root, (), document)
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        words = ", ".join(part for part in (error.context, error.problem) if part)
        document.problems.append(Problem(file, line, "", "not YAML", words + _advise(error, words)))
    except yaml.YAMLError as error:  # a character that YAML forbids
        words = str(error).partition("\n")[0]
        document.problems.append(Problem(file, None, "", "not YAML", words))
    except RecursionError:
        document.refuse((), "expected less nesting", "too deep")
    return document


_ADVICE = {
    "'\\t'": "indent with spaces, not with tabs",
    "parsing a flow mapping": "the { in line {line} needs its }, as in {a: 1, b: 2}",
    "parsing a flow sequence": "the [ in line {line} needs its ], as in [a, b]",
    "mapping values are not allowed": "keys of one mapping have the same indent, and a text with a "
    "colon needs quotes, as in key: 'a: b'",
    "parsing a block mapping": "keys of one mapping have the same indent",
    "scanning a quoted scalar": "the quote in line {line} needs its end",
}
"""What is right instead, for the usual mistakes and a part of the parser's words for them."""


def _advise(error: yaml.MarkedYAMLError, words: str) -> str:
    """What is right instead, as words to append; nothing if it is not a usual mistake."""
    advice = next((text for part, text in _ADVICE.items() if part in words), "")
    begun = error.context_mark or error.problem_mark
    line = 0 if begun is None else begun.line + 1
    return advice and f"; {advice.replace('{line}', str(line))}"


def write(data: Mapping[str, Any]) -> str:
    """Write YAML that `read` reads as the same data. Innermost collections take one line each."""
    return yaml.dump(
        data, Dumper=_StrictDumper, sort_keys=False, default_flow_style=None, width=1000
    )


def parse_path(text: str) -> KeyPath | None:
    """Parse a text as `show_path` returns it; None if it is not a key path."""
    if not re.fullmatch(r"[\w-]+(\[\d{1,6}\]|\.[\w-]+)*", text):
        return None
    parts = re.findall(r"\[(\d+)\]|([\w-]+)", text)
    return tuple(int(index) if index else key for index, key in parts)


def show_path(path: KeyPath) -> str:
    """Write a key path as text: ("overrides", 0, "rate") is `overrides[0].rate`.

    Keys that cannot be printed are quoted as values are.
    """
    parts = (f"[{k}]" if isinstance(k, int) else f".{show(k)}" for k in path)
    return "".join(parts).removeprefix(".")


def show(value: Any) -> str:
    """Write a value as one short line of YAML."""
    return shorten(show_whole(value))


def show_whole(value: Any) -> str:
    """Write a value as one line of YAML."""
    if value is MISSING:
        return "missing"
    if isinstance(value, str) and value.isprintable() and not _SPECIAL.fullmatch(value):
        return value
    line = _show_in_yaml(value, allow_unicode=True)
    return line if line.isprintable() else _show_in_yaml(value, allow_unicode=False)


def _show_in_yaml(value: Any, allow_unicode: bool) -> str:
    style = '"' if isinstance(value, str) and "\n" in value else None  # in one line
    text = yaml.safe_dump(
        value,
        allow_unicode=allow_unicode,
        default_flow_style=True,
        default_style=style,
        width=math.inf,
        sort_keys=False,
    )
    return text.removesuffix("...\n").strip()


def flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The key path and the text of every value of nested mappings."""
    for key, inner in value.items():
        path = f"{prefix}{key}"
        if isinstance(inner, Mapping) and inner:
            yield from flatten(inner, f"{path}.")
        else:
            yield path, inner if isinstance(inner, str) else show_whole(inner)


def make_printable(text: str) -> str:
    """Write what a terminal might take for a command as an escape sequence, but for line ends."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text
    )


def shorten(text: str, most: int = MAX_SHOWN) -> str:
    """Cut a text of a user to the length that a message may show."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shorten_words(text: str, longest: int = 200) -> str:
    """Cut every word of a message that is longer than this: a user's value may be in it."""
    return re.sub(rf"\S{{{longest},}}?(?=:?(\s|$))", lambda word: shorten(word[0]), text)


def list_choices(names: Iterable[str], value: Any = None) -> str:
    """The phrase `expected one of a, b`, after a hint if the value resembles one of the names."""
    known = list(names)
    if not known:
        return "expected nothing here"
    near = find_near(str(value), known)
    hint = f"did you mean {near}? " if near else ""
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    return (
        f"{hint}expected {'one of ' if len(known) > 1 else ''}{', '.join(known[:MOST_NAMES])}{more}"
    )


def list_keys(names: Iterable[str], key: str) -> str:
    """Like `list_choices`, for a key that is unknown: it may lack its colon, or be a round trip."""
    known = list(names)
    begun = re.match(r"([\w-]+) ?[\[{]", key)
    if begun and begun[1] in known:
        return f"a colon is missing after {begun[1]}: expected {begun[1]}: and then its value"
    meant = {"rtt": "delay", "rtts": "delays"}.get(key)
    if meant in known:
        return f"did you mean {meant}, one-way, half of a round trip? {list_choices(known)}"
    return list_choices(known, key)


def find_near(name: str, known: Iterable[str]) -> str:
    """The known name that resembles this one most, the first of equals; empty if none does."""
    likeness = {each: difflib.SequenceMatcher(None, each, name).ratio() for each in known}
    near = max(likeness, key=likeness.__getitem__, default="")
    return near if near and likeness[near] >= ALIKE else ""


class _Strict(yaml.composer.Composer, yaml.resolver.Resolver):
    """YAML 1.2's core types only, and no anchors."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (as in the class it replaces)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[attr-defined]
        if getattr(event, "anchor", None) is not None:
            raise yaml.composer.ComposerError(None, None, NO_ALIASES, event.start_mark)
        return super().compose_node(parent, index)


class _FastLoader(_Strict, yaml.CSafeLoader):
    """Parses in C, six times as fast."""

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        yaml.composer.Composer.__init__(self)


class _WordyLoader(_Strict, yaml.SafeLoader):
    """Parses in Python, with better error messages."""


class _StrictDumper(yaml.CSafeDumper):
    """Quotes text that YAML 1.1 or the strict loader would read as another type."""

    def represent_text(self, text: str) -> yaml.Node:
        """Write text of several lines as a block of lines."""
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)


_StrictDumper.add_representer(str, _StrictDumper.represent_text)


_EXPONENT = "[eE][-+]?[0-9]{1,3}"
_DIGITS = [*"-0123456789"]
_SCALARS: Mapping[str, tuple[str, list[str], Callable[[str], Any]]] = {
    "null": ("~|null|", ["~", "n", ""], lambda text: None),
    "bool": ("true|false", ["t", "f"], lambda text: text == "true"),
    "int": ("-?(0|[1-9][0-9]{0,18})", _DIGITS, int),
    "float": (rf"-?[0-9]{{1,30}}(\.[0-9]{{1,30}}({_EXPONENT})?|{_EXPONENT})", _DIGITS, float),
    "str": (".*", [], str),
}
"""The types of scalars: name -> (pattern, possible first characters, conversion)."""

_SPECIAL = re.compile("|".join(_SCALARS[kind][0] for kind in ("null", "bool", "int", "float")))
"""Scalars that are text only if they are quoted."""

for _name, (_pattern, _first, _) in _SCALARS.items():
    for _class in (_Strict, _StrictDumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_name}", re.compile(f"^({_pattern})$"), _first
        )


def convert_scalar(text: str) -> Any:
    """The value of a text that is not quoted, by YAML 1.2's core types."""
    if not _SPECIAL.fullmatch(text):
        return text
    kinds = (_SCALARS[kind] for kind in ("null", "bool", "int", "float"))
    return next(convert(text) for pattern, _, convert in kinds if re.fullmatch(pattern, text))


def _compose(text: str) -> yaml.Node | None:
    # The slow loader reads only texts with errors, for its messages.
    try:
        return yaml.compose(text, Loader=_FastLoader)
    except yaml.YAMLError:
        return yaml.compose(text, Loader=_WordyLoader)


def _build(node: yaml.Node, path: KeyPath, document: Document) -> Any:
    """Convert a node to plain data, and note the line of every path and every problem."""
    document.places.setdefault(path, (document.file, node.start_mark.line + 1))
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if isinstance(node, yaml.SequenceNode) and kind == "seq":
        return [_build(item, (*path, i), document) for i, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode) and kind == "map":
        return _build_mapping(node, path, document)
    pattern, _, convert = _SCALARS.get(kind, ("", "", str))
    if isinstance(node, yaml.ScalarNode) and re.fullmatch(pattern, node.value, re.DOTALL):
        return convert(node.value)
    document.refuse(path, NO_TAGS, node.tag.replace("tag:yaml.org,2002:", "!!"))
    return None


def _build_mapping(node: yaml.MappingNode, path: KeyPath, document: Document) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
            where = show_path(path)
            document.problems.append(
                Problem(document.file, line, where, "not a key", "expected text before the colon")
            )
            continue
        inner = (*path, key_node.value)
        if key_node.value in mapping:
            allowed = f"expected once (first in line {document.places[inner][1]})"
            where = show_path((*path, shorten(key_node.value)))
            document.problems.append(Problem(document.file, line, where, "given again", allowed))
            continue
        document.places[inner] = (document.file, line)
        mapping[key_node.value] = _build(value_node, inner, document)
    return mapping


def _get(data: Any, path: KeyPath) -> Any:
    for key in path:
        in_mapping = isinstance(data, dict) and key in data
        in_list = isinstance(data, list) and isinstance(key, int) and key < len(data)
        if not in_mapping and not in_list:
            return MISSING
        data = data[key]
    return data


def _put(data: Any, path: KeyPath, value: Any) -> bool:
    """Set the value at a path and make the mappings above it; returns False if that fails."""
    for key, following in itertools.pairwise(path):
        if isinstance(data, dict) and isinstance(key, str) and isinstance(following, str):
            data.setdefault(key, {})
        data = _get(data, (key,))
    *_, last = path
    if (isinstance(data, dict) and isinstance(last, str)) or _get(data, (last,)) is not MISSING:
        data[last] = value
        return True
    return False
