"""Any command at each site, instead of Trunkline's agents.

Such a run has no policy, no plan and no controller: the programs decide what the sites send. A
program learns its rank and site from its environment (`docs/programs.md`). It may report events,
line by line, so that its synchronizations appear in the same tables as those of Trunkline.
"""

from __future__ import annotations

import difflib
import importlib
import itertools
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from trunkline.workloads import compute_time, site_time
from trunkline.workloads.compute_time import Compute, Slowdown
from trunkline.workloads.option_rules import OptionError, Sites, reject
from trunkline.workloads.program_roles import (
    Exit,
    Program,
    RestartRule,
    Role,
    Word,
    Words,
    list_programs,
    list_roles,
    role_problems,
    variable_problems,
)
from trunkline.workloads.shared_state import list_shared
from trunkline.workloads.site_time import KEPT, Charge

EVALUATES = False
PROGRAMS = True
"""Sites run commands, so a scenario of this kind has no scheme."""


def build(
    rank: int,
    sites: Sites,
    seed: int,
    *,
    command: Words | Mapping[str, Words] | None = None,
    folder: str = ".",
    arguments: Mapping[str, Words] = {},
    env: Mapping[str, Word | Mapping[str, Word]] = {},
    start_s: float | Mapping[str, float] = 0.0,
    exit: Exit = (0,),  # noqa: A002
    restart: RestartRule | None = None,
    programs: Mapping[str, Role] = {},
    preload: tuple[str, ...] = (),
    time_calls: bool = False,
    compute_s: Compute | None = None,
    slowdown: Slowdown | None = None,
    optimizers: tuple[str, ...] = (),
    charge: Mapping[str, Charge] = {},
    poll_s: float | None = None,
) -> tuple[Program, ...]:
    """Return the programs of the site `rank`, one per role. Raises OptionError.

    Options:
        command: a program and its arguments, for every site, or site -> command; not with
            `programs`.
        folder: the working folder, relative to the scenario's file.
        arguments: site -> arguments that follow those of `command`.
        env: environment variables: name -> value, or name -> site -> value.
        start_s: when `command` starts, in time of the run; or site -> time.
        exit: the exit codes of `command` that are allowed, and signals, such as `SIGTERM`; or
            `any`.
        restart: when `command` is started again after it has ended by itself.
        programs: several programs per site: role -> its commands and rules.
        preload: Python modules to import once instead of at every site; allowed if a command runs a
            Python file, and without `programs` every one.
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
    given = {
        "command": command,
        "folder": folder,
        "arguments": arguments,
        "env": env,
        "start_s": start_s,
        "exit": exit,
        "restart": restart,
        "programs": programs,
        "preload": preload,
        "time_calls": time_calls,
        "compute_s": compute_s,
        "slowdown": slowdown,
        "optimizers": optimizers,
        "charge": charge,
        "poll_s": poll_s,
    }
    reject(problems(sites, **given))
    names = _names(sites)
    every = list_programs(names, given, seed).values()
    return tuple(program for program in every if program.site == names[rank])


def place_programs(
    sites: Sequence[str], options: Mapping[str, Any], seed: int = 0
) -> dict[str, Program]:
    """Return the programs by name: role by role, in the order of ranks. Raises OptionError."""
    reject(problems(sites, **options))
    return list_programs(sites, options, seed)


def model_bytes(**_: Any) -> int:
    """Return 0: Trunkline does not know what a program sends."""
    return 0


def problems(sites: Sites, **options: Any) -> list[OptionError]:
    """Return everything that is wrong with the given options; absent ones have their defaults."""
    names, roles = _names(sites), list_roles(options)
    if not options.keys() & {"command", "programs"}:
        return []
    found = [*_shape_problems(options)]
    for name, role in roles.items():
        found += _command_problems(name, role, names, bool(options.get("preload")))
        placed = [site for site in role.list_sites(names) if site in names] or names
        found += variable_problems(f"programs.{name}." if name else "", role.env or {}, placed)
    found += role_problems(names, options)
    if "" not in roles:
        used = {site for role in roles.values() for site in role.list_sites(names)}
        placed = [site for site in names if site in used] or [*names]
        found += variable_problems("", options.get("env") or {}, placed)
    for name in options.get("preload", ()):
        if not all(part.isidentifier() for part in name.split(".")):
            found.append(OptionError("preload", name, f"names of Python modules, not {name!r}"))
    commands = [words for role in roles.values() for words in role.commands().values()]
    if options.get("preload") and "" not in roles and not any(map(_is_file_of_python, commands)):
        found.append(OptionError("preload", options["preload"], "a command python3 FILE.py"))
    if options.get("time_calls") and any(map(_is_isolated, commands)):
        allowed = "false with python3 -E, -I or -S, which would not load what times the calls"
        found.append(OptionError("time_calls", True, allowed))
    found += site_time.problems(_names(sites), options.get("charge", {}), options.get("poll_s"))
    return found + _find_wrong_steps(sites, commands, options)


def _find_wrong_steps(
    sites: Sites, commands: Sequence[Words], options: Mapping[str, Any]
) -> list[OptionError]:
    """What is wrong with the options of steps that take time."""
    compute_s = options.get("compute_s")
    given = {key: value for key, value in options.items() if value is not None}
    found = compute_time.problems(sites, given)
    if compute_s is None:
        for key in ("slowdown", "optimizers"):
            if options.get(key):
                found.append(OptionError(key, options[key], "this only with compute"))
    elif any(map(_is_isolated, commands)):
        allowed = "none with python3 -E, -I or -S, which would not load what lets steps take time"
        found.append(OptionError("compute", compute_s, allowed))
    for name in options.get("optimizers", ()):
        if not name.isidentifier():
            found.append(OptionError("optimizers", name, "names of classes, such as AdamW"))
    return found


def _shape_problems(options: Mapping[str, Any]) -> Iterator[OptionError]:
    """Keys that contradict each other: those of one program per site, and those of roles."""
    if not options.get("programs"):
        if options.get("command") is None:
            yield OptionError("command", None, "a command, or programs with roles")
        return
    of_one: Mapping[str, Any] = {
        "command": None,
        "arguments": {},
        "start_s": 0.0,
        "exit": (0,),
        "restart": None,
    }
    for key, default in of_one.items():
        if options.get(key, default) != default:
            allowed = f"no {key.removesuffix('_s')} beside programs: every role has its own"
            yield OptionError(key.removesuffix("_s"), options[key], allowed)


def _command_problems(
    name: str, role: Role, sites: Sequence[str], preloads: bool
) -> Iterator[OptionError]:
    start = f"programs.{name}.command" if name else "command"
    if not role.commands():
        yield OptionError(start, {}, "a command, or one for at least one site")
    for site, words in role.commands().items():
        key = f"{start}.{site}".rstrip(".")
        if site and site not in sites:
            allowed = f"a command for one of the sites {', '.join(sites)}"
            yield OptionError(key, words, allowed)
        elif not words or not words[0] or any("\0" in str(word) for word in words):
            yield OptionError(key, words, "a program and its arguments, without NUL")
        elif preloads and not name and not _is_file_of_python(words):
            allowed = "python3 FILE.py, because preload needs that of every command"
            allowed += _hint_python(str(words[0]))
            yield OptionError(key, words, allowed)
        elif not site and len(role.list_sites(sites)) > 1 and _numbers_its_node(words):
            allowed = "no --node-rank, the same at all sites: each has its own by default"
            yield OptionError(key, words, allowed)


def missing_files(**options: Any) -> list[OptionError]:
    """Return what this machine lacks: folders, programs, and the files that Python is to run."""
    found = []
    top = Path(options.get("folder", "."))
    if not top.is_dir():
        return [OptionError("folder", str(top), "a folder that exists")]
    for name, role in list_roles(options).items():
        start, folder = f"programs.{name}." if name else "", top / role.folder
        if not folder.is_dir():
            found.append(OptionError(f"{start}folder", str(folder), "a folder that exists"))
            continue
        variables = {**(options.get("env") or {}), **(role.env or {})}
        path = variables.get("PATH", search_path())
        for site, words in role.commands().items():
            key = f"{start}command.{site}".rstrip(".")
            found += missing_words(key, words, folder, path if isinstance(path, str) else None)
    for name in options.get("preload", ()):
        if not _is_module(name):
            found.append(
                OptionError("preload", name, f"what can be imported: No module named {name!r}")
            )
    return found


def missing_charges(**options: Any) -> Iterator[OptionError]:
    """What is wrong if charges are to be replayed that no run has kept.

    A session does not ask: it has a copy of them, and may not see the folder.
    """
    charge = options.get("charge") or {}
    if (run := charge.get("replay")) and not (Path(run) / KEPT).is_file():
        allowed = f"the folder of a run with charge: {{record: true}}, which has {KEPT}"
        yield OptionError("charge.replay", run, allowed)


def missing_words(
    key: str, words: Iterable[object], folder: Path, path: str | None
) -> Iterator[OptionError]:
    """Yield the program of a command if it is neither in `path` nor in `folder`, or its file."""
    program, *rest = map(str, words)
    if path is not None and locate(program, folder, path) is None:
        yield OptionError(
            key, program, f"a program in PATH, or a path from {folder}{_hint_python(program)}"
        )
    elif is_python((program, *rest)) and not _is_file(folder / rest[0]):
        yield OptionError(key, rest[0], f"a file in {folder}")


def _hint_python(program: str) -> str:
    """Words to append if this seems to be `python3` with wrong letters."""
    near = difflib.get_close_matches(Path(program).name, ["python3"], cutoff=0.8)
    return " (did you mean python3?)" if near and not program.endswith("python3") else ""


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
    """Return the files that a run depends on: those in the folders that commands name.

    With a Python file also the Python files beside it, which it may import.
    """
    named = {
        Path(options.get("folder", "."), role.folder, str(word))
        for role in list_roles(options).values()
        for words in (*role.commands().values(), *(role.arguments or {}).values())
        for word in words
    }
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


def _is_file_of_python(words: Words) -> bool:
    return is_python([*map(str, words)])


def _numbers_its_node(words: Words) -> bool:
    """Whether the command is torchrun with an option that says which node it is."""
    launchers = {"torchrun", "torch.distributed.run", "torch.distributed.launch"}
    own = [*itertools.takewhile(lambda word: not word.endswith(".py"), map(str, words))]
    names = {word.partition("=")[0].replace("_", "-") for word in own}
    return bool(launchers & {Path(word).name for word in own}) and "--node-rank" in names


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
