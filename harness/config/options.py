"""Options from signatures: the parameters of a function are the keys that a file may have (pure).

Builders, policies, plans and workloads declare their options as typed keyword-only parameters. The
fixed parts of a scenario are dataclasses. Both become pydantic models by one rule: in Python the
name has the unit, in the file the value has it (`rate_mbps=50.0` is `rate: 50 Mbit/s`). The rule
also holds inside lists, mappings and unions. Each wrong value gives one sentence, also in a union.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import shlex
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from trunkline.harness.config import units
from trunkline.harness.config.document import KeyPath, list_choices, list_keys, shorten
from trunkline.harness.config.units import Dimension, QuantityError

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a function or dataclass.

    Attributes:
        name: its Python name.
        key: its key in a file.
        dimension: the physical quantity; None for an option without a unit.
        annotation: its Python type.
        default: its default value, or REQUIRED.
        meaning: its description in the docstring, empty if there is none.
    """

    name: str
    key: str
    dimension: Dimension | None
    annotation: Any
    default: Any
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of the value at a path; `text` says what is allowed."""

    path: KeyPath
    text: str


GIVEN = ("rng", "servers", "read")
"""Keyword-only parameters that are not options: two of policies, and `read` of builders."""


@functools.lru_cache(maxsize=512)
def read_options(function: Callable[..., Any]) -> tuple[Option, ...]:
    """Read the options of a function (keyword-only parameters) or of a dataclass (fields).

    Their meanings are in the docstring, under `Options:`, in the form of Google's style. A
    keyword-only `rng`, `servers` or `read` is not an option: Trunkline gives its value.
    """
    hints = get_type_hints(function, include_extras=True)
    meanings = _read_meanings(inspect.getdoc(function) or "")
    found = []
    for parameter in inspect.signature(function).parameters.values():
        is_keyword = parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in GIVEN
        if inspect.isclass(function) or is_keyword:
            key, dimension = units.split_name(parameter.name)
            hint = hints.get(parameter.name, Any)
            meaning = meanings.get(parameter.name, "")
            found.append(Option(parameter.name, key, dimension, hint, parameter.default, meaning))
    return tuple(found)


def make_model(name: str, options: Sequence[Option], description: str = "") -> type[BaseModel]:
    """Make a pydantic model of a mapping with these options.

    Its fields are called `option_NAME`, because pydantic reserves some names. Editors show the
    description.
    """
    fields: dict[str, Any] = {}
    for option in options:
        about = option.meaning or None
        field = Field(..., alias=option.key, description=about)
        if option.default is not REQUIRED:
            default = render(option.default, option.dimension)
            field = Field(
                option.default,
                alias=option.key,
                description=about,
                json_schema_extra={"default": default},
            )
        fields[f"option_{option.name}"] = (make_type(option.annotation, option.dimension), field)
    keys = [option.key for option in options]
    validators: dict[str, Any] = {"keys": model_validator(mode="wrap")(_name_known_keys(keys))}
    extra: dict[str, Any] = {"description": description} if description else {}
    config = ConfigDict(extra="forbid", title=name, json_schema_extra=extra)
    return create_model(name, __config__=config, __validators__=validators, **fields)


def read_values(model: BaseModel, options: Sequence[Option]) -> dict[str, Any]:
    """Read the values of options from a model, by Python name. Lists become tuples."""
    return {option.name: freeze(getattr(model, f"option_{option.name}")) for option in options}


def check(annotation: Any, value: Any) -> tuple[Any, list[Refusal]]:
    """Read a value as a type from `make_type` or `make_model`.

    Returns the value and the refusals; a refused value is None.
    """
    return make_check(annotation)(value)


def make_check(annotation: Any) -> Callable[[Any], tuple[Any, list[Refusal]]]:
    """The `check` of one type for many values: pydantic takes a millisecond to prepare it."""
    adapter = TypeAdapter(annotation)

    def check_value(value: Any) -> tuple[Any, list[Refusal]]:
        try:
            return adapter.validate_python(value), []
        except ValidationError as error:
            return None, [_make_refusal(details) for details in error.errors()]

    return check_value


def make_type(annotation: Any, dimension: Dimension | None = None) -> Any:
    """Convert a Python type into the pydantic type of its values in a file.

    The type is strict. With a dimension, numbers are quantities with a unit. In a form, such as
    `Annotated[str, "*.csv"]`, `*` is any text.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated and isinstance(arguments[1], str):
        return _make_pattern(arguments[1])
    if origin is Annotated:
        return Annotated[(make_type(arguments[0], dimension), *arguments[1:])]
    if annotation in (int, float):
        if dimension is not None:
            return _make_quantity(dimension)
        finite = () if annotation is int else (Field(allow_inf_nan=False),)
        return Annotated[(annotation, Strict(), *finite)]
    if annotation is str and dimension is not None:
        return Annotated[str, Strict(), AfterValidator(_refuse_quantity(dimension))]
    if annotation in (bool, str):
        return Annotated[annotation, Strict()]
    if annotation is Any and dimension is not None:
        return Annotated[Any, BeforeValidator(_convert_deeply(dimension))]
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _make_dataclass(annotation)
    if origin in (Union, types.UnionType):
        return _make_union(arguments, dimension)
    if origin is Literal:
        return Annotated[annotation, BeforeValidator(_check_word(arguments))]
    if not arguments:
        return annotation
    keys = 1 if issubclass(origin, Mapping) else 0  # the keys of a mapping have no unit
    inner = [make_type(each) for each in arguments[:keys]]
    inner += [each if each is ... else make_type(each, dimension) for each in arguments[keys:]]
    return origin[tuple(inner)]


def render(value: Any, dimension: Dimension | None) -> Any:
    """Convert a Python value into the data of a file, where numbers have units.

    A dataclass may leave out a field with a certain value, by the field's metadata `omit`.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        omitted = {
            each.name
            for each in dataclasses.fields(value)
            if "omit" in each.metadata and getattr(value, each.name) == each.metadata["omit"]
        }
        return {
            option.key: render(getattr(value, option.name), option.dimension)
            for option in read_options(type(value))
            if option.name not in omitted
        }
    if isinstance(value, Mapping):
        return {key: render(item, dimension) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [render(item, dimension) for item in value]
    if dimension is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return units.render(value, dimension)
    return value


def freeze(value: Any) -> Any:
    """Convert lists to tuples on all levels, so that equal options compare equal."""
    if isinstance(value, dict):
        return {key: freeze(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


def _read_meanings(text: str) -> dict[str, str]:
    """Read the section `Options:` of a docstring. Names on the same line get the same meaning."""
    _, _, section = text.partition("Options:\n")
    found: dict[str, str] = {}
    for names, words in re.findall(r"^ {4}(\w[\w, ]*): (.+(?:\n {5,}.+)*)", section, re.MULTILINE):
        found |= dict.fromkeys(names.split(", "), " ".join(words.split()))
    return found


def _make_quantity(dimension: Dimension) -> Any:
    def read(value: Any) -> units.Number:
        try:
            return units.parse(value, dimension)
        except QuantityError as error:
            raise _error(str(error)) from None

    pattern = {"type": "string", "pattern": dimension.pattern, "examples": [dimension.example]}
    schema = {"anyOf": [pattern, {"const": 0}]}
    kind = int if dimension.whole else float
    return Annotated[kind, BeforeValidator(read), WithJsonSchema(schema)]


def _make_pattern(form: str) -> Any:
    pattern = re.escape(form).replace(r"\*", ".+")

    def read(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise _error(f"expected {form}")
        return value

    schema = {"type": "string", "pattern": f"^{pattern}$"}
    return Annotated[str, BeforeValidator(read), WithJsonSchema(schema)]


def _check_word(words: Sequence[Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in words:
            raise _error(list_choices(map(str, words), value))
        return value

    return read


def _refuse_quantity(dimension: Dimension) -> Callable[[str], str]:
    """Refuse a quantity with a wrong unit in a place where any word is allowed."""

    def read(value: str) -> str:
        if value[:1].isdigit():
            raise _error("expected a word")
        return value

    return read


def _convert_deeply(dimension: Dimension) -> Callable[[Any], Any]:
    """Read every number inside an untyped value as a quantity."""

    def read(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: read(item) for key, item in value.items()}
        if isinstance(value, list):
            return [read(item) for item in value]
        if isinstance(value, bool) or not (
            isinstance(value, int | float) or (isinstance(value, str) and value[:1].isdigit())
        ):
            return value
        try:
            return units.parse(value, dimension)
        except QuantityError as error:
            raise _error(f"{value}: {error}") from None

    return read


@functools.cache
def _make_dataclass(cls: Any) -> Any:
    """The type of a dataclass that is read from a mapping of its fields.

    The cache is for comparisons, which read hundreds of scenarios: pydantic takes milliseconds.
    """
    options = read_options(cls)

    def construct(model: BaseModel) -> Any:
        return cls(**read_values(model, options))

    summary = (cls.__doc__ or "").partition("\n")[0]
    return Annotated[make_model(cls.__name__, options, summary), AfterValidator(construct)]


def _make_union(members: Sequence[Any], dimension: Dimension | None) -> Any:
    """The type of a union: the first member that accepts the value, quantities before words."""
    literals = [word for each in members if get_origin(each) is Literal for word in get_args(each)]
    distinct = [each for each in members if get_origin(each) is not Literal]
    distinct += [Literal[tuple(literals)]] if literals else []
    distinct.sort(key=lambda member: member not in (int, float))
    read = [make_type(member, dimension) for member in distinct if member is not types.NoneType]
    if len(read) == 1:
        either = read[0]
    else:
        joined: Any = Annotated[Union[tuple(read)], Field(union_mode="left_to_right")]  # noqa: UP007
        either = Annotated[joined, WrapValidator(_keep_closest)]
    return either | None if types.NoneType in distinct else either


def _keep_closest(value: Any, handler: Callable[[Any], Any]) -> Any:
    """Keep the refusals of the union's member that understood most of the value.

    That is the first member with the deepest path. The first part of each path is pydantic's name
    of the member; it is removed.
    """
    try:
        return handler(value)
    except ValidationError as error:
        found = [_make_refusal(details) for details in error.errors()]
        deepest = max(len(refusal.path) for refusal in found)
        kept = [refusal for refusal in found if len(refusal.path) == deepest]
        if deepest == 1:
            raise _error(_join([refusal.text for refusal in kept])) from None
        kept = [refusal for refusal in kept if refusal.path[0] == kept[0].path[0]]
        raise _errors([Refusal(refusal.path[1:], refusal.text) for refusal in kept]) from None


def _name_known_keys(keys: Sequence[str]) -> Callable[..., Any]:
    """Let a model list its keys when it refuses an unknown key."""

    def read(cls: type, value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            raise _errors(list(_name_keys(error, keys))) from None

    return read


def _name_keys(error: ValidationError, keys: Sequence[str]) -> Iterator[Refusal]:
    for details in error.errors():
        refusal = _make_refusal(details)
        if details["type"] == "extra_forbidden" and len(refusal.path) == 1:
            key = refusal.path[0]
            yield Refusal(refusal.path, f"{UNKNOWN_KEY}: {list_keys(keys, str(key))}")
        elif details["type"] == "model_type" and not refusal.path:
            word = details["input"] if details["input"] in keys else keys[0]
            yield Refusal((), f"{refusal.text} such as {{{word}: ...}} (keys: {', '.join(keys)})")
        else:
            yield refusal


UNKNOWN_KEY = "unknown key"
"""How the refusal of a key begins."""

_PHRASES = {
    "refused": "{text}",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "bool_type": "expected true or false",
    "string_type": "expected text",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping",
    "mapping_type": "expected a mapping",
    "model_type": "expected a mapping",
    "missing": "a value is required here",
    "multiple_of": "expected a multiple of {multiple_of}",
    "too_long": "expected a list of {max_length}",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected {ge} or more",
    "less_than": "expected less than {lt}",
    "less_than_equal": "expected {le} or less",
}
"""The kinds of pydantic errors, and the sentences for them."""


_WORDS = re.compile(r"\s*[A-Za-z_./]\S*\s+\S")
"""A command with arguments: no quantity, no single word."""


def _list_words(command: str) -> str:
    """The words of a command as a list in YAML, quoted where a shell or YAML needs it."""
    try:
        words = shlex.split(command)
    except ValueError:  # a quotation mark without its end
        words = command.split()
    shown = (word if re.fullmatch(r"[A-Za-z_./][\w./=+-]*", word) else repr(word) for word in words)
    return shorten(f"[{', '.join(shown)}]")


def _make_refusal(details: ErrorDetails) -> Refusal:
    if details["type"] == "value_error":  # the message of one of our validators
        return Refusal(details["loc"], str(details["ctx"]["error"]))
    phrase, given = _PHRASES.get(details["type"], details["msg"]), details.get("input")
    if phrase == "expected a list" and isinstance(given, str) and _WORDS.match(given):
        return Refusal(details["loc"], f"{phrase} such as {_list_words(given)}")
    said = {
        name: f"{bound:.7g}" if isinstance(bound, float) else bound
        for name, bound in details.get("ctx", {}).items()
    }
    return Refusal(details["loc"], phrase.format(**said))


def _join(texts: Sequence[str]) -> str:
    """Join sentences: `x: expected a` and `expected b` become `x: expected a or b`."""
    notes, allowed = [], []
    for text in texts:
        note, _, what = text.partition("expected ")
        notes += [note] if note not in notes else []
        allowed += [what] if what not in allowed else []
    *others, last = allowed
    return f"{''.join(notes)}expected {', '.join(others)}{' or ' if others else ''}{last}"


def _error(text: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{text}", {"text": text})


def _errors(refusals: Sequence[Refusal]) -> ValidationError:
    details = [
        InitErrorDetails(type=_error(refusal.text), loc=refusal.path, input=None)
        for refusal in refusals
    ]
    return ValidationError.from_exception_data("refused", details)
