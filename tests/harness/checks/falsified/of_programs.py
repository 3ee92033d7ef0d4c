"""Falsifications of what starts, restarts, stops and ends programs."""

from __future__ import annotations

from falsified.falsifying import (
    MS,
    Log,
    NotHereError,
    copy_of,
    every,
    falsification,
    first,
    last,
    without,
)


def _change(log: Log, line: dict, **values: object) -> Log:
    line.update(values)
    return log


@falsification
def a_program_starts_too_late(log: Log) -> Log:
    line = last(log, "program_started")
    return _change(log, line, t_ns=line["t_ns"] + 50 * MS)


@falsification
def a_program_starts_before_it_may(log: Log) -> Log:
    line = last(log, "program_started")
    return _change(log, line, t_ns=line["t_ns"] - 5 * MS)


@falsification
def a_program_is_numbered_wrongly(log: Log) -> Log:
    return _change(log, last(log, "program_started"), attempt=7)


@falsification
def another_program_starts(log: Log) -> Log:
    line = last(log, "program_started")
    return [*log, copy_of(line, who=f"{line['who']}x")]


@falsification
def a_program_is_ready_later(log: Log) -> Log:
    line = first(log, "program_ready")
    return _change(log, line, t_ns=line["t_ns"] + 50 * MS)


@falsification
def a_program_was_not_restarted_after_its_exit(log: Log) -> Log:
    """Neither its second process nor that one's exit is in the log."""
    started = _find_restart(log)
    gone = every(log, "agent_exited", who=started["who"])[-1]
    return without(log, [started, gone])


@falsification
def a_program_is_restarted_after_an_exit_that_needs_no_restart(log: Log) -> Log:
    started = _find_restart(log)
    return _change(log, every(log, "agent_exited", who=started["who"])[0], code=0)


@falsification
def the_last_exit_is_one_that_is_not_allowed(log: Log) -> Log:
    started = _find_restart(log)
    return _change(log, every(log, "agent_exited", who=started["who"])[-1], code=77, signal=0)


@falsification
def a_killed_program_exits_with_a_code(log: Log) -> Log:
    return _change(log, _find_exit(log, "kill"), code=1, signal=0)


@falsification
def a_killed_program_exits_by_another_fault(log: Log) -> Log:
    return _change(log, _find_exit(log, "kill"), fault=99)


@falsification
def a_killed_program_exits_by_itself(log: Log) -> Log:
    line = _find_exit(log, "kill")
    del line["fault"]
    return log


@falsification
def a_killed_program_exits_late(log: Log) -> Log:
    line = _find_exit(log, "kill")
    return _change(log, line, t_ns=line["t_ns"] + 150 * MS)


@falsification
def a_killed_program_was_told_to_end(log: Log) -> Log:
    return _change(log, _find_exit(log, "kill"), asked=True)


@falsification
def a_program_that_left_was_not_told_to_end(log: Log) -> Log:
    return _change(log, _find_exit(log, "leave"), asked=False)


@falsification
def a_program_is_killed_instead_of_asked_to_leave(log: Log) -> Log:
    return _change(log, first(log, "agent_changed", do="leave"), do="kill")


@falsification
def a_program_reports_while_it_is_dead(log: Log) -> Log:
    kill = first(log, "agent_changed", do="kill")
    if "." not in kill["who"]:
        raise NotHereError("a program with a role")
    site = kill["who"].partition(".")[0]
    end_ns = max(each["t_ns"] for each in every(log, "agent_exited") if site in each["who"])
    said = first(log, "sync_started", site=site)
    return [*log, copy_of(said, t_ns=end_ns + 1, task=said["task"] + 100)]


def _datagrams(log: Log) -> list[dict]:
    counted = last(log, "run_finished").get("datagrams")
    if not counted:
        raise NotHereError("datagrams")
    return counted


@falsification
def datagrams_of_a_site_are_not_counted(log: Log) -> Log:
    _datagrams(log).pop()
    return log


@falsification
def datagrams_of_a_site_are_counted_twice(log: Log) -> Log:
    counted = _datagrams(log)
    counted.append(copy_of(counted[-1]))
    return log


@falsification
def a_site_got_fewer_datagrams_than_of_background_traffic(log: Log) -> Log:
    most = max(_datagrams(log), key=lambda each: each["received"])
    most["received"] //= 2
    return log


@falsification
def a_site_sent_fewer_datagrams_than_of_background_traffic(log: Log) -> Log:
    most = max(_datagrams(log), key=lambda each: each["sent"])
    most["sent"] //= 2
    return log


@falsification
def a_site_with_data_is_none_of_the_run(log: Log) -> Log:
    if not _datagrams(log):
        raise NotHereError("with_data")
    last(log, "run_finished")["with_data"].append("n77")
    return log


def _find_restart(log: Log) -> dict:
    """The start of a program that had ended by itself."""
    for line in every(log, "program_started"):
        exits = [
            each
            for each in every(log, "agent_exited", who=line["who"])
            if each["t_ns"] < line["t_ns"] and "fault" not in each
        ]
        if exits:
            return line
    raise NotHereError("a restart")


def _find_exit(log: Log, do: str) -> dict:
    """The exit of a program by a kill, or by a request to leave."""
    change = first(log, "agent_changed", do=do)
    found = every(log, "agent_exited", who=change["who"], fault=change["fault"])[0]
    if found.get("asked") is None:
        raise NotHereError("a program")
    return found
