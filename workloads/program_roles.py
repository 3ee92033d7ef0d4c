"""Programs of roles: what a scenario says of them, and the program of each role at each site."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from trunkline.workloads import site_time
from trunkline.workloads.compute_time import ComputeTime, for_site
from trunkline.workloads.option_rules import OptionError
from trunkline.workloads.site_time import SiteTime

Word: TypeAlias = str | int | float
Words: TypeAlias = tuple[Word, ...]
"""A program and its arguments; numbers become text as in Python."""

Exit: TypeAlias = Literal["any"] | tuple[int | str, ...]
"""The exit codes and the names of signals with which a program may end."""

OURS = "TRUNKLINE_"
"""The prefix of environment variables that a scenario may not set."""

MASTER_PORT = 29500
"""Where rank 0 of the first role listens for torch.distributed; each role has the next port."""

FIRST_RESTART_S, LONGEST_RESTART_S = 1.0, 10.0
"""A program without a time of its own is started again after the first, at last after the other."""

LEAST_RESTART_S = 0.01
"""The shortest time after which a scenario may have a program started again."""

PROCESSES = 1 << 22
"""More than the process ids of a program: those of a site's next one are counted from here on."""

_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PORTS = range(1, 65536)
_CODES = range(256)


@dataclass(frozen=True, slots=True)
class Readiness:
    """When a program counts as ready: a port of its site listens, or it has written a line.

    Options:
        port: a TCP port at which a process of its site listens.
        line: a regular expression for a line of its output or its errors.
        within_s: how long this may take after each start of the program; then the run fails.
    """

    port: int | None = None
    line: str | None = None
    within_s: float = 60.0

    def __str__(self) -> str:
        if self.port is not None:
            return f"to listen at port {self.port}"
        return f"to write a line like {self.line!r}"


@dataclass(frozen=True, slots=True)
class RestartRule:
    """When a program that ends by itself is started again.

    Options:
        on: `failure` after any exit but exit code 0, `any` after every exit.
        after_s: how long after its exit, 10 ms or more; by default 1 s, and twice as long after
            each restart, up to 10 s.
        at_most: how often, for each site; then `exit` decides.
    """

    on: Literal["failure", "any"] = "failure"
    after_s: float | None = None
    at_most: int = 10

    def delay_s(self, before: int) -> float:
        """How long after an exit it is started again, if it was so often before.

        A program that fails at once takes no virtual time: without a delay the clock would hardly
        move.
        """
        if self.after_s is not None:
            return self.after_s
        doublings = math.ceil(math.log2(LONGEST_RESTART_S / FIRST_RESTART_S))
        return min(FIRST_RESTART_S * 2.0 ** min(before, doublings), LONGEST_RESTART_S)


@dataclass(frozen=True, slots=True)
class Role:
    """The programs of one role, one at each of its sites.

    Options:
        command: a program and its arguments, for every site, or site -> command.
        sites: the sites, if the role does not run at all of them.
        arguments: site -> arguments that follow those of the command.
        folder: the working folder, below that of the workload.
        env: environment variables: name -> value, or name -> site -> value.
        start_s: when it starts, in time of the run; or site -> time.
        after: the roles whose programs all have to be ready before it starts.
        ready: when its programs count as ready: by a `port` or a `line`; else as soon as they have
            started.
        exit: the exit codes that are allowed, such as `[0, 1]`, and signals, such as `SIGTERM`; or
            `any`.
        restart: when it is started again after it has ended by itself.
    """

    command: Words | Mapping[str, Words]
    sites: Literal["all"] | tuple[str, ...] = "all"
    arguments: Mapping[str, Words] | None = None
    folder: str = "."
    env: Mapping[str, Word | Mapping[str, Word]] | None = None
    start_s: float | Mapping[str, float] = 0.0
    after: tuple[str, ...] = ()
    ready: Readiness | None = None
    exit: Exit = (0,)
    restart: RestartRule | None = None

    def list_sites(self, sites: Sequence[str]) -> list[str]:
        """The sites of the role, in the order of the network's sites."""
        chosen = sites if self.sites == "all" else self.sites
        runs = self.command if isinstance(self.command, Mapping) else sites
        return [site for site in sites if site in chosen and site in runs]

    def commands(self) -> Mapping[str, Words]:
        """The commands by site; one for all sites is that of the site `""`."""
        return self.command if isinstance(self.command, Mapping) else {"": self.command}


@dataclass(frozen=True, slots=True)
class Program:
    """The program of one role at one site.

    Attributes:
        site: its site.
        role: its role; empty if the scenario has no roles.
        command: the program and its arguments.
        folder: the working folder.
        env: environment variables besides those that every program gets.
        preload: modules that the process which starts the programs has imported already.
        time_calls: whether its calls of `torch.distributed` are timed.
        sites: the sites of its role, by rank.
        site_rank: the rank of its site among all sites.
        master_port: where rank 0 of its role may listen.
        start_s: when it starts at the earliest.
        after: the roles that have to be ready before.
        ready: when it counts as ready; None if as soon as it has started.
        exits: exit codes and minus signals with which it may end; None if with any.
        restart: when it is started again.
        step_times: what each step of its optimizer takes; None for no time.
        optimizers: the classes whose steps take it; by default that of the first step.
        time: what takes virtual time at its site.
    """

    site: str
    role: str
    command: tuple[str, ...]
    folder: Path
    env: Mapping[str, str]
    preload: tuple[str, ...] = ()
    time_calls: bool = False
    sites: tuple[str, ...] = ()
    site_rank: int = 0
    master_port: int = MASTER_PORT
    start_s: float = 0.0
    after: tuple[str, ...] = ()
    ready: Readiness | None = None
    exits: frozenset[int] | None = frozenset({0})
    restart: RestartRule | None = None
    step_times: ComputeTime | None = None
    optimizers: tuple[str, ...] = ()
    time: SiteTime = field(default_factory=SiteTime)

    @property
    def name(self) -> str:
        """Its name in logs, tables and faults: `n1.trainer`, or `n1` without roles."""
        return f"{self.site}.{self.role}" if self.role else self.site

    def may_end_with(self, code: int) -> bool:
        """Whether an exit code, or minus a signal, is allowed."""
        return self.exits is None or code in self.exits

    def comes_back(self, code: int, before: int) -> bool:
        """Whether it is started again after its own exit, if it was so often before."""
        rule = self.restart
        return rule is not None and before < rule.at_most and self._asks_for_restart(code)

    def is_given_up(self, code: int, before: int) -> bool:
        """Whether it stays away after its own exit only because it was started again so often."""
        rule = self.restart
        return rule is not None and before >= rule.at_most and self._asks_for_restart(code)

    @property
    def last_restart(self) -> str:
        """Its last restart in words, for one that is given up."""
        most = 0 if self.restart is None else self.restart.at_most
        return f"after restart {most} of {most} (restart.at_most)"

    def _asks_for_restart(self, code: int) -> bool:
        return self.restart is not None and (self.restart.on == "any" or code != 0)


def site_of(name: str) -> str:
    """The site of a program, by the program's name."""
    return name.partition(".")[0]


def is_of(name: str, site: str) -> bool:
    """Whether a program is at this site, or is the one with this name."""
    return site in (name, site_of(name))


def first_process(programs: Sequence[str], name: str, attempt: int) -> int:
    """From which number on the processes of a program are counted at its site, in this attempt.

    `programs` are the site's.
    """
    return (attempt * len(programs) + programs.index(name)) * PROCESSES


def find_owner(programs: Sequence[str], process: int | None) -> str:
    """Which of a site's programs has the process with this number; the site if that is not known.

    The number counts from `first_process` on.
    """
    if len(programs) == 1:
        return programs[0]
    if process is None:
        return site_of(programs[0])
    return programs[process // PROCESSES % len(programs)]


def list_roles(options: Mapping[str, Any]) -> dict[str, Role]:
    """The roles of a workload's options by name; that without a name is the empty one."""
    named: Mapping[str, Role] = options.get("programs") or {}
    if options.get("command") is None:
        return dict(named)
    keys = ("arguments", "env", "start_s", "exit", "restart")
    given = {key: options[key] for key in keys if key in options}
    return {"": Role(options["command"], **given), **named}


def list_programs(
    sites: Sequence[str], options: Mapping[str, Any], seed: int = 0
) -> dict[str, Program]:
    """The programs of all sites by name: role by role, and by rank in each role.

    The scenario's `seed` draws the times of their steps.
    """
    preload = tuple(options.get("preload", ()))
    time_calls = bool(options.get("time_calls"))
    found = {}
    for number, (name, role) in enumerate(list_roles(options).items()):
        placed = role.list_sites(sites)
        shared = {} if name == "" else options.get("env") or {}
        for site in placed:
            words = role.commands().get(site, role.commands().get("", ()))
            start_s = role.start_s
            program = Program(
                site,
                name,
                tuple(map(str, (*words, *(role.arguments or {}).get(site, ())))),
                Path(options.get("folder", "."), role.folder),
                _choose({**shared, **(role.env or {})}, site),
                preload,
                time_calls,
                tuple(placed),
                sites.index(site),
                MASTER_PORT + number,
                start_s.get(site, 0.0) if isinstance(start_s, Mapping) else start_s,
                role.after,
                role.ready,
                _read_exits(role.exit),
                role.restart,
                _place_step_times(sites, site, options, seed),
                tuple(options.get("optimizers", ())),
                site_time.place(site, options.get("charge") or {}, options.get("poll_s")),
            )
            found[program.name] = program
    return found


def _place_step_times(
    sites: Sequence[str], site: str, options: Mapping[str, Any], seed: int
) -> ComputeTime | None:
    """What the steps of a site's programs take."""
    if options.get("compute_s") is None:
        return None
    rank = sites.index(site)
    return for_site(rank, sites, seed, options["compute_s"], 1.0, options.get("slowdown"))


def find_programs(programs: Mapping[str, Program], name: str) -> tuple[str, ...]:
    """The programs that a name means: one, those of a site, or those of a role."""
    if name in programs:
        return (name,)
    return tuple(each.name for each in programs.values() if name in (each.site, each.role))


def list_targets(programs: Mapping[str, Program]) -> dict[str, tuple[str, ...]]:
    """What faults may name, sites and programs, and the programs that each name means."""
    found = {each.site: find_programs(programs, each.site) for each in programs.values()}
    return {**found, **{name: (name,) for name in programs}}


def role_problems(sites: Sequence[str], options: Mapping[str, Any]) -> Iterator[OptionError]:
    """Everything that is wrong with the roles, apart from their commands and variables."""
    roles = list_roles(options)
    for name, role in roles.items():
        key = f"programs.{name}." if name else ""
        if name and (not _ROLE.fullmatch(name) or name in sites):
            allowed = "a role: up to 32 letters, digits, '_' and '-', a letter first, and no site"
            yield OptionError(key.rstrip("."), name, allowed)
        yield from _site_problems(key, role, sites)
        yield from _rule_problems(key, role)
        for other in role.after:
            if other not in roles or other == name:
                others = ", ".join(each for each in roles if each not in ("", name)) or "none here"
                yield OptionError(f"{key}after", other, f"other roles ({others}), not {other}")
            elif not roles[other].list_sites(sites):
                yield OptionError(f"{key}after", other, f"roles that run at a site, not {other}")
    for circle in _find_circles(roles):
        text = " -> ".join(circle)
        yield OptionError(f"programs.{circle[0]}.after", text, f"no circle, not {text}")


def variable_problems(
    key: str, env: Mapping[str, Any], sites: Sequence[str]
) -> Iterator[OptionError]:
    """What is wrong with environment variables."""
    for name, value in env.items():
        values = value if isinstance(value, Mapping) else {"": value}
        if not _VARIABLE.fullmatch(name) or name.startswith(OURS):
            allowed = f"letters, digits and '_', the first no digit; {OURS} names are taken"
            yield OptionError(f"{key}env.{name}", name, allowed)
        elif any("\0" in str(each) for each in values.values()):
            yield OptionError(f"{key}env.{name}", value, "text without NUL")
        elif isinstance(value, Mapping):
            yield from _unknown_sites(f"{key}env.{name}", value, sites)


def _site_problems(key: str, role: Role, sites: Sequence[str]) -> Iterator[OptionError]:
    if role.sites != "all":
        for place, site in enumerate(role.sites):
            if site not in sites:
                yield OptionError(f"{key}sites", site, f"some of {', '.join(sites)}, not {site}")
            elif site in role.sites[:place]:
                yield OptionError(f"{key}sites", site, f"each site once, not {site} twice")
        if not role.sites:
            yield OptionError(f"{key}sites", role.sites, "all, or at least one site")
    own = [site for site in role.list_sites(sites) if site in sites] or sites
    yield from _unknown_sites(f"{key}arguments", role.arguments or {}, own)
    for site, words in (role.arguments or {}).items():
        if any("\0" in str(word) for word in words):
            yield OptionError(f"{key}arguments.{site}", words, "text without NUL")
    if isinstance(role.start_s, Mapping):
        yield from _unknown_sites(f"{key}start", role.start_s, own)


def _unknown_sites(
    key: str, by_site: Mapping[str, Any], sites: Sequence[str]
) -> Iterator[OptionError]:
    for site, value in by_site.items():
        if site not in sites:
            yield OptionError(f"{key}.{site}", value, f"one of the sites {', '.join(sites)}")


def _rule_problems(key: str, role: Role) -> Iterator[OptionError]:
    folder = Path(role.folder)
    if folder.is_absolute() or ".." in folder.parts:
        yield OptionError(f"{key}folder", role.folder, "a folder below workload.folder")
    starts_s = role.start_s if isinstance(role.start_s, Mapping) else {"": role.start_s}
    for site, start_s in starts_s.items():
        if not 0 <= start_s < math.inf:
            yield OptionError(f"{key}start.{site}".rstrip("."), start_s, "a time of 0 or more")
    if role.exit != "any":
        for each in role.exit:
            if _read_exit(each) is None:
                allowed = f"any, or exit codes from 0 to {_CODES[-1]} and signals such as SIGTERM"
                yield OptionError(f"{key}exit", each, f"{allowed}, not {each}")
        if not role.exit:
            yield OptionError(f"{key}exit", role.exit, "any, or at least one exit code")
    if role.restart is not None:
        yield from _restart_problems(f"{key}restart", role.restart)
    if role.ready is not None:
        yield from _readiness_problems(f"{key}ready", role.ready)


def _restart_problems(key: str, rule: RestartRule) -> Iterator[OptionError]:
    if rule.at_most < 1:
        yield OptionError(f"{key}.at_most", rule.at_most, "1 or more")
    if rule.after_s is not None and not LEAST_RESTART_S <= rule.after_s < math.inf:
        allowed = "10 ms or more: a program that fails at once would stop the clock"
        yield OptionError(f"{key}.after", rule.after_s, allowed)


def _readiness_problems(key: str, ready: Readiness) -> Iterator[OptionError]:
    if (ready.port is None) == (ready.line is None):
        yield OptionError(key, "", "either port or line")
    if ready.port is not None and ready.port not in _PORTS:
        yield OptionError(f"{key}.port", ready.port, f"a port from 1 to {_PORTS[-1]}")
    if ready.within_s <= 0:
        yield OptionError(f"{key}.within", ready.within_s, "a time above 0")
    if ready.line is not None:
        try:
            re.compile(ready.line)
        except re.error as error:
            yield OptionError(f"{key}.line", ready.line, f"a regular expression: {error}")


def _find_circles(roles: Mapping[str, Role]) -> Iterator[list[str]]:
    """The roles that wait for each other: each circle once, from its first role."""
    for first in roles:
        ways = [[first]]
        while ways:
            way = ways.pop()
            for other in roles[way[-1]].after:
                if other == first and len(way) > 1 and first == min(way):
                    yield [*way, first]
                elif other in roles and other not in way:
                    ways.append([*way, other])


def _choose(env: Mapping[str, Any], site: str) -> dict[str, str]:
    """The variables of a site."""
    values = {
        name: value.get(site) if isinstance(value, Mapping) else value
        for name, value in env.items()
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _read_exits(given: Exit) -> frozenset[int] | None:
    if given == "any":
        return None
    return frozenset(code for each in given if (code := _read_exit(each)) is not None)


def _read_exit(given: int | str) -> int | None:
    """An exit code, or minus the number of a signal; None if it is neither."""
    if isinstance(given, int):
        return given if given in _CODES else None
    return -signal.Signals[given] if given in signal.Signals.__members__ else None
