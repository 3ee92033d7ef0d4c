"""Any command at each site, instead of Trunkline's agents.

Such a run has no policy, no plan and no controller: the programs decide what the sites send. A
program learns its rank and site from its environment (`docs/programs.md`). It may report events,
line by line, so that its synchronizations appear in the same tables as those of Trunkline.
"""

from __future__ import annotations

import importlib
import itertools
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, TypeAlias

from trunkline.workloads import compute_time, site_time
from trunkline.workloads.compute_time import Compute, ComputeTime, Slowdown
from trunkline.workloads.option_rules import OptionError, Sites, reject
from trunkline.workloads.shared_state import list_shared
from trunkline.workloads.site_time import Charge, SiteTime

EVALUATES = False
PROGRAMS = True
"""Sites run commands, so a scenario of this kind has no scheme."""

Word: TypeAlias = str | int | float
Words: TypeAlias = tuple[Word, ...]
"""A program and its arguments; numbers become text as in Python."""

OURS = "TRUNKLINE_"
"""The prefix of environment variables that a scenario may not set."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program of one site.

    Attributes:
        command: the program and its arguments.
        folder: the working folder.
        env: environment variables besides those that every program gets.
        preload: modules that the process which starts the programs has imported already.
        time_calls: whether its calls of `torch.distributed` are timed.
        step_times: what each step of its optimizer takes; None for no time.
        optimizers: the classes whose steps take it; by default that of the first step.
        time: what takes virtual time at its site.
    """

    command: tuple[str, ...]
    folder: Path
    env: Mapping[str, str]
    preload: tuple[str, ...]
    time_calls: bool = False
    step_times: ComputeTime | None = None
    optimizers: tuple[str, ...] = ()
    time: SiteTime = field(default_factory=SiteTime)


def build(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    command: Words | Mapping[str, Words],
    folder: str = ".",
    env: Mapping[str, Word] = {},
    preload: tuple[str, ...] = (),
    time_calls: bool = False,
    compute_s: Compute | None = None,
    slowdown: Slowdown | None = None,
    optimizers: tuple[str, ...] = (),
    charge: Mapping[str, Charge] = {},
    poll_s: float | None = None,
) -> Program | None:
    """Return the program of the site `rank`, None if it has none. Raises OptionError.

    Options:
        command: a program and its arguments, for every site, or site -> command.
        folder: the working folder, relative to the scenario's file.
        env: environment variables: name -> value.
        preload: Python modules to import once instead of at every site; allowed if every command
            runs a Python file.
        time_calls: whether the programs' calls of `torch.distributed` are timed and logged.
        compute_s: the time of each step of a PyTorch optimizer, on the run's clock: one time, [low,
            high] (uniform), t1, t2, {lognormal: ...}, measured times ({csv: FILE}), or one of these
            for each site. By default computing takes no virtual time.
        slowdown: multiplies the times of some sites: site -> factor.
        optimizers: the classes of optimizers whose steps take that time, such as [AdamW]; by
            default only the optimizer that takes the first step. Steps inside others never do.
        charge: if given, computing takes virtual time: its processor time times `factor` (1), on
            `cores` processors (1) of every site; a site's name -> its own values. `record`: whether
            the run keeps its charges; `replay`: the folder of a run whose charges are used again.
        poll_s: what a poll takes that waits for nothing and finds nothing; 0: no time. By default
            20 us, from the hundredth in a row on.
    """
    given = {"command": command, "folder": folder, "env": env, "preload": preload}
    timed: dict[str, Any] = {"time_calls": time_calls, "charge": charge, "poll_s": poll_s}
    steps: dict[str, Any] = {"slowdown": slowdown, "optimizers": optimizers}
    steps |= {} if compute_s is None else {"compute_s": compute_s}
    reject(problems(sites, **given, **timed, **steps))
    names = _names(sites)
    words = command.get(names[rank]) if isinstance(command, Mapping) else command
    if words is None:
        return None
    variables = {name: str(value) for name, value in env.items()}
    times = None
    if compute_s is not None:
        times = compute_time.for_site(rank, sites, seed, compute_s, 1.0, slowdown)
    return Program(
        tuple(map(str, words)),
        Path(folder),
        variables,
        tuple(preload),
        time_calls,
        times,
        tuple(optimizers),
        site_time.place(names[rank], charge, poll_s),
    )


def place_programs(
    sites: Sequence[str], options: Mapping[str, Any], seed: int = 0
) -> dict[str, Program]:
    """Return the program of each site that has one, by site, in the order of ranks."""
    every = {site: build(rank, sites, seed, **options) for rank, site in enumerate(sites)}
    return {site: program for site, program in every.items() if program is not None}


def model_bytes(**_: Any) -> int:
    """Return 0: Trunkline does not know what a program sends."""
    return 0


def problems(sites: Sites, **options: Any) -> list[OptionError]:
    """Return everything that is wrong with the given options; absent ones have their defaults."""
    found = []
    command, preload = options.get("command", ("true",)), options.get("preload", ())
    by_site = command if isinstance(command, Mapping) else {"": command}
    if not by_site:
        found.append(OptionError("command", {}, "a command, or one for at least one site"))
    for site, words in by_site.items():
        key = f"command.{site}".rstrip(".")
        if site and site not in _names(sites):
            allowed = f"a command for one of the sites {', '.join(_names(sites))}"
            found.append(OptionError(key, words, allowed))
        elif not words or not words[0] or any("\0" in str(word) for word in words):
            found.append(OptionError(key, words, "a program and its arguments, without NUL"))
        elif preload and not is_python([*map(str, words)]):
            allowed = "python3 FILE.py, because preload needs that of every command"
            found.append(OptionError(key, words, allowed))
    for name, value in options.get("env", {}).items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name.startswith(OURS):
            allowed = f"letters, digits and '_', the first no digit; {OURS} names are taken"
            found.append(OptionError(f"env.{name}", name, allowed))
        elif "\0" in str(value):
            found.append(OptionError(f"env.{name}", value, "text without NUL"))
    for name in preload:
        if not all(part.isidentifier() for part in name.split(".")):
            found.append(OptionError("preload", name, f"names of Python modules, not {name!r}"))
    if options.get("time_calls") and any(map(_is_isolated, by_site.values())):
        allowed = "false with python3 -E, -I or -S, which would not load what times the calls"
        found.append(OptionError("time_calls", True, allowed))
    found += site_time.problems(_names(sites), options.get("charge", {}), options.get("poll_s"))
    return found + _find_wrong_steps(sites, by_site, options)


def _find_wrong_steps(
    sites: Sites, commands: Mapping[str, Words], options: Mapping[str, Any]
) -> list[OptionError]:
    """What is wrong with the options of steps that take time."""
    compute_s = options.get("compute_s")
    given = {key: value for key, value in options.items() if value is not None}
    found = compute_time.problems(sites, given)
    if compute_s is None:
        for key in ("slowdown", "optimizers"):
            if options.get(key):
                found.append(OptionError(key, options[key], "this only with compute"))
    elif any(map(_is_isolated, commands.values())):
        allowed = "none with python3 -E, -I or -S, which would not load what lets steps take time"
        found.append(OptionError("compute", compute_s, allowed))
    for name in options.get("optimizers", ()):
        if not name.isidentifier():
            found.append(OptionError("optimizers", name, "names of classes, such as AdamW"))
    return found


def missing_files(**options: Any) -> list[OptionError]:
    """Return what this machine lacks: the folder, programs, and the files that Python is to run."""
    command, folder = options["command"], Path(options.get("folder", "."))
    if not folder.is_dir():
        return [OptionError("folder", str(folder), "a folder that exists")]
    found = []
    for site, words in (command if isinstance(command, Mapping) else {"": command}).items():
        program, *rest = map(str, words)
        key = f"command.{site}".rstrip(".")
        if locate(program, folder, options.get("env", {}).get("PATH", search_path())) is None:
            found.append(OptionError(key, program, f"a program in PATH, or a path from {folder}"))
        elif is_python((program, *rest)) and not _is_file(folder / rest[0]):
            found.append(OptionError(key, rest[0], f"a file in {folder}"))
    for name in options.get("preload", ()):
        if not _is_module(name):
            found.append(
                OptionError("preload", name, f"what can be imported: No module named {name!r}")
            )
    return found


def preload(**options: Any) -> None:
    """Find every command and import the modules of `preload`.

    Raises OptionError, also for a module that makes something which all sites would share.
    """
    reject(missing_files(**options))
    for name in options.get("preload", ()):
        before = list_shared()
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise OptionError("preload", name, f"what can be imported: {error}") from error
        if made := sorted(list_shared() - before):
            text = f"a module that makes nothing which all sites would share, not {', '.join(made)}"
            raise OptionError("preload", name, f"{text}; without it, each site imports its own")


def files(**options: Any) -> list[Path]:
    """Return the files that a run depends on: those in the folder that commands name.

    With a Python file also the Python files beside it, which it may import.
    """
    command, folder = options["command"], Path(options.get("folder", "."))
    every = command.values() if isinstance(command, Mapping) else (command,)
    named = {folder / str(word) for words in every for word in words}
    beside = {each for path in named if path.suffix == ".py" for each in path.parent.glob("*.py")}
    return sorted(path for path in named | beside if _is_file(path))


def search_path() -> str:
    """Return the search path of commands: the folder of Trunkline's own Python, then PATH."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))


def locate(program: str, folder: Path, path: str) -> str | None:
    """Find a program in the search path `path`, or from `folder` if it has a /; None if missing."""
    return shutil.which(str(folder / program) if "/" in program else program, path=path)


def is_python(command: Sequence[str]) -> bool:
    """Whether the command runs a Python file."""
    interpreter = Path(command[0]).name if command else ""
    is_file = len(command) > 1 and command[1].endswith(".py")
    return re.fullmatch(r"python3?(\.\d+)?", interpreter) is not None and is_file


def _is_isolated(words: Words) -> bool:
    """Whether the command is a Python that ignores PYTHONPATH or `sitecustomize`."""
    first, *rest = map(str, words or ("",))
    if re.fullmatch(r"python3?(\.\d+)?", Path(first).name) is None:
        return False
    flags = itertools.takewhile(lambda word: re.fullmatch(r"-[A-Za-z]+", word), rest)
    return any(set(flag) & set("EIS") for flag in flags)


def _is_module(name: str) -> bool:
    """Whether a module seems to exist; no module is imported, unless it seems not to."""
    spec = PathFinder.find_spec(name.partition(".")[0])
    for length in range(2, name.count(".") + 2):
        if spec is None or spec.submodule_search_locations is None:
            break
        part = ".".join(name.split(".")[:length])
        spec = PathFinder.find_spec(part, spec.submodule_search_locations)
    if spec is not None:
        return True
    try:  # built in, or made by its package
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _is_file(path: Path) -> bool:
    """Whether there is such a file; a long script in a command is no name of a file."""
    try:
        return path.is_file()
    except OSError:
        return False


def _names(sites: Sites) -> Sequence[str]:
    return [str(rank) for rank in range(sites)] if isinstance(sites, int) else sites
