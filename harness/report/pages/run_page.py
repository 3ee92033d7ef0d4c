"""The page of one run (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from trunkline.agents.events.fault_events import LinkChanged
from trunkline.harness.checks.verdict import Excuse, Verdict
from trunkline.harness.config.document import flatten
from trunkline.harness.config.units import SIZE_BYTES, TIME_S, count_of, short
from trunkline.harness.network.interface import payload_share
from trunkline.harness.record.warm_up import select_counted
from trunkline.harness.report import manual_actions
from trunkline.harness.report.calls import pace_tiles
from trunkline.harness.report.explanations.costs import run_summary
from trunkline.harness.report.explanations.explained_tasks import explain_latest
from trunkline.harness.report.explanations.told import explanations_section
from trunkline.harness.report.overlay import overlay_section
from trunkline.harness.report.overlay.link_load import compute_counted_loads, compute_loads
from trunkline.harness.report.pages import (
    charts,
    frame,
    programs_section,
    rates_section,
    sites_section,
    tasks_section,
)
from trunkline.harness.report.pages.frame import Section
from trunkline.harness.report.pages.gantt_section import draw_gantt
from trunkline.harness.report.pages.markup import Child, Html, make_table, tag
from trunkline.harness.report.parts.report_parts import list_sections
from trunkline.harness.report.run_data import RunData

MAX_LETTERS = 100_000
"""The longest file that the page shows; for a longer one it only names the file."""

MAX_PRINTED_ROWS, MAX_PRINTED_LETTERS = 30, 4_000
"""The longest folded parts that are printed; paper only names the file of longer ones."""

SHORT_LINES = 30
"""A file with fewer lines is printed on one page."""


LOADED = ("tasks", "steps", "programs")
"""The first table of these that has rows is the one that the page loads as an example."""

MEANINGS = {
    "processor_matters": "on another processor, results may differ, because",
    "instructions.rdtsc": "the instruction rdtsc gives",
    "instructions.cpuid": "the instruction cpuid gives values",
}
"""What values of the environment mean, where the key does not say it."""

FIRST = ("programs", "faults", "calls", "steps")
"""Of programs, how they ended and where their time went stands before the network."""

ASSUMED = (
    "The log has a payload's first and last byte. Between them, its bytes count as sent at one "
    "pace, as far as the rate allows. While the link is cut or the sender is stopped, no bytes "
    "count. Bytes that a repair planned count from the repair on."
)
"""When bytes of agents count as sent."""


def write_page(data: RunData, files: Sequence[str] = ()) -> str:
    """The whole page, with links to `files` beside it. The same data give the same text."""
    scenario = data.scenario
    lead = [
        tag("p", scenario.description, class_="lead") if scenario.description else None,
        tag("p", ", ".join(list_facts(data)), class_="facts"),
        _write_verdict(
            data.verdict, manual_actions.describe_run(data.history), scenario.runs_programs
        ),
    ]
    own = [*list_sections(data)]
    first = [section for section in own if section.name in FIRST and scenario.runs_programs]
    first.sort(key=lambda section: FIRST.index(section.name))
    parts = [
        Section("summary", "Summary", [frame.write_tiles(_list_tiles(data))]),
        *first,
        Section("tasks", "Task times", _write_tasks(data)),
        Section("lost", "Lost time", _explain_lost_time(data)),
        Section("timeline", "Timeline", _draw_timeline(data)),
        Section("network", "Network", _draw_network(data)),
        Section("rates", "Rates", _draw_rates(data)),
        *(section for section in own if section not in first),
        Section("sites", "Sites", sites_section.write_sites(data)),
        Section("checks", "Checks", _write_checks(data.verdict)),
        Section("environment", "Environment", [_write_environment(data.environment)]),
        Section("scenario", "Scenario", _write_scenario(data)),
        Section("files", "Files", _write_files(data, files)),
    ]
    end = tag(
        "p",
        "Made by Trunkline from this run's event log; ",
        tag("code", "trunkline report RUN"),
        " writes it again.",
    )
    return frame.write_page(scenario.name, lead, parts, end)


def list_facts(data: RunData) -> Iterator[str]:
    """What ran where, in a few words each."""
    scenario = data.scenario
    yield f"{len(scenario.topology.sites)} sites, {len(scenario.topology.links)} directed links"
    if scenario.runs_programs:
        yield f"workload {scenario.workload.kind}"
    else:
        yield f"policy {scenario.scheme.policy.kind}"
        yield f"plan {scenario.scheme.plan.kind}"
    if data.history.is_predicted:
        yield "predicted by the fluid model"
    else:
        yield f"{scenario.backend} kernel"
        yield f"{scenario.clock} clock"
    if scenario.warm_up.tasks is not None:
        yield f"warm-up of {count_of(scenario.warm_up.tasks, 'task')}"
    if scenario.warm_up.time_s is not None:
        yield f"warm-up of {short(scenario.warm_up.time_s, TIME_S)}"
    yield f"seed {scenario.seed}"


def _write_verdict(verdict: Verdict, ended: str, programs: bool) -> Html:
    problems = [tag("li", problem) for problem in verdict.problems]
    means = "the run proves nothing; " if verdict.outcome == "unknown" else ""
    words = f": {means}{verdict.counts}."
    if programs:
        words += " What the programs computed was not judged."
    return tag(
        "div",
        tag("strong", "Verdict: ", frame.mark(verdict.outcome)),
        words,
        tag("p", "Why it ended: ", ended) if ended else None,
        tag("ul", problems) if problems else None,
        *(tag("p", remark) for remark in verdict.remarks),
        class_=f"verdict is-{verdict.outcome}",
    )


def _list_tiles(data: RunData) -> Iterator[tuple[str, str, str]]:
    run = data.tables["run"].to_dict("records")[0]
    found, done = select_counted(data.tables["tasks"]), data.completed
    others = len(found) - int(run["tasks"])
    programs = data.tables.get("programs")
    if programs is not None:
        ended = programs_section.count_ended(programs)
        yield "programs ended", f"{programs['end_s'].notna().sum()} of {len(programs)}", ended
        size = short(int(data.links["bytes"].sum()), SIZE_BYTES)
        yield "bytes on links", size, "over all links, headers included"
        yield from pace_tiles.list_tiles(data)
    if programs is None or len(found):
        yield "tasks completed", f"{run['tasks']}", f"{others} not completed" if others else ""
    if pd.notna(run["task_s"]):
        median = f"median {short(float(run['task_median_s']), TIME_S)}"
        yield "mean task time", short(float(run["task_s"]), TIME_S), median
    if pd.notna(run["estimate_s"]):
        expected_s = float(run["estimate_s"] + run["latency_s"])
        ratio = (done["duration_s"] / (done["estimate_s"] + done["latency_s"])).median()
        note = f"median; {short(expected_s, TIME_S)} expected on average"
        if _changes_rates(data):
            note += ", by the rates before any change"
        if _loses_packets(data):
            note += ", without losses"
        yield f"{data.verdict.took} / expected", f"{ratio:.3f}", note
    if pd.notna(run["bound_s"]) and run["task_s"] > 0:
        share = f"{100 * run['bound_s'] / run['task_s']:.0f} % of the task time"
        yield "lower bound", short(float(run["bound_s"]), TIME_S), share
    if not data.scenario.runs_programs:
        slowest = f"when the run was stopped; the slowest {run['rounds_least']}"
        if data.tables["workers"]["rounds_alone"].any():
            slowest += "; without rounds alone"
        yield "rounds per worker", charts.format_value(float(run["rounds"])), slowest
        yield "payload sent", short(int(run["bytes_sent"]), SIZE_BYTES), "over all links"
    if pd.notna(run["accuracy_percent"]):
        at = f"{len(data.tables['accuracy'])} evaluations"
        yield "last accuracy", f"{run['accuracy_percent']:.1f} %", at
    if pd.notna(run["target_reached"]):
        held = "the first of the evaluations in a row that reached it"
        reached = pd.notna(run["target_s"])
        value = short(float(run["target_s"]), TIME_S) if reached else "not held"
        yield "time to the target", value, held if reached else "when the run stopped"
    until = "until the run was stopped"
    yield (
        f"{data.scenario.clock} time",
        short(float(run["window_s"]), TIME_S),
        f"{until}, after a warm-up of {short(float(run['warm_up_s']), TIME_S)}"
        if run["warm_up_s"]
        else until,
    )


def _explain_lost_time(data: RunData) -> list[Child]:
    if data.scenario.runs_programs or data.history.is_predicted:
        return []
    found = explain_latest(data.scenario, data.history, data.tables["tasks"])
    run, faults = run_summary.describe_run(found, data)
    return explanations_section.explain_lost_time(found, data.history, run, faults, data.measured)


def _changes_rates(data: RunData) -> bool:
    """Whether a link had another rate than in the scenario during the run."""
    first_mbps = data.scenario.topology.rates_mbps()
    changes = data.history.all(LinkChanged)
    return any(event.rate_mbps != first_mbps[event.src, event.dst] for event in changes)


def _loses_packets(data: RunData) -> bool:
    """Whether a link loses packets at random, which the estimate does not know."""
    return any(link.loss_percent for link in data.scenario.topology.links)


def _write_tasks(data: RunData) -> list[Child]:
    found = data.tables["tasks"]
    if not len(found):
        return []
    words = "The bound is the least time of any all-reduce of that size."
    if not data.scenario.runs_programs:
        words = (
            "The estimate is the fluid time of a task's plan on the configured links. The latency "
            "is the propagation to add to it. The bound is the least time of any plan."
        )
    if _changes_rates(data):
        words += (
            " Links had other rates during the run. Estimate, latency and bound use the rates at "
            "its start."
        )
    if _loses_packets(data) and not data.scenario.runs_programs:
        words += " Links lose packets at random. The estimate does not count these losses."
    many = f"the first {tasks_section.ROWS} of " if len(found) > tasks_section.ROWS else ""
    plural = "task" if len(found) == 1 else "tasks"
    cold = len(found) - len(select_counted(found))
    plural += f", {cold} of the warm-up" if cold else ""
    numbers = frame.fold(
        f"In numbers: {many}{len(found)} {plural}",
        *tasks_section.list_tasks(found),
        file="tables/tasks.csv" if len(found) > MAX_PRINTED_ROWS else None,
    )
    return [
        tag("p", words),
        tasks_section.draw_times(found, data.verdict.took, data.history.faults),
        numbers,
    ]


def _draw_timeline(data: RunData) -> list[Child]:
    if not data.history.events:
        return []
    scenario = data.scenario
    sites, programs = sites_section.choose_sites(data), scenario.programs
    drawn = draw_gantt(data.history, sites, scenario.clock, data.counted.begin_s, programs)
    return [*sites_section.explain_choice(data), drawn]


def _draw_network(data: RunData) -> list[Child]:
    topology, history, links = data.scenario.topology, data.history, data.links
    shares = (links["utilisation_percent"].fillna(0) / 100).tolist()
    steps = overlay_section.choose_steps(len(topology.links))
    if data.scenario.runs_programs:
        found = compute_counted_loads(history, topology, steps)
        when = "while any site synchronized"
        if not history.syncs:
            least = overlay_section.LEVELS[0]
            when = f"while it was {100 * least:g} % or more"
            shares = found.find_mean_when_used(least)
        kind = f"bytes on the interface as a share of the rate, {when}"
        assumed = "Between two counts of an interface, bytes count as sent evenly."
    else:
        kind = "payload as a share of the link's rate while the link is busy"
        share = payload_share(data.scenario.network.mtu)
        found = compute_loads(history, topology, steps, share)
        assumed = ASSUMED
    of_links = links["bytes"].tolist(), data.scenario.clock, assumed
    strip = overlay_section.draw_strip(found, *of_links, data.counted.begin_s)
    return [
        *overlay_section.draw_overlay(topology, shares, found, history, kind),
        *([] if strip is None else [tag("h3", "Links over time"), strip]),
    ]


def _draw_rates(data: RunData) -> list[Child]:
    probes, scenario = data.tables.get("probes"), data.scenario
    counted, synchronized = scenario.runs_programs, bool(data.history.syncs)
    return rates_section.write_section(data.links, probes, counted, scenario.clock, synchronized)


def _write_checks(verdict: Verdict) -> list[Child]:
    """All checks with their counts, and the objects that they excused; none of a prediction."""
    if not verdict.checks:
        return []
    rows = [
        (check.name, frame.mark(check.outcome), check.counts, check.detail)
        for check in verdict.checks
        if check.outcome != "none"
    ]
    idle = ", ".join(check.name for check in verdict.checks if check.outcome == "none")
    cases = [
        (check.name, excuse.rule, case)
        for check in verdict.checks
        for excuse in check.excuses
        for case in (*excuse.cases, *_count_others(excuse))
    ]
    excused = make_table(("check", "rule", "excused"), cases, "checks")
    summary = f"Excused objects and reasons: {len(cases)} lines"
    file = "verdict.json" if len(cases) > MAX_PRINTED_ROWS else None
    return [
        make_table(("check", "outcome", "counts", "findings"), rows, "checks"),
        tag("p", f"Not applicable, because there was nothing to judge: {idle}.") if idle else None,
        frame.fold(summary, excused, file=file) if cases else None,
    ]


def _count_others(excuse: Excuse) -> Iterator[str]:
    others = excuse.count - len(excuse.cases)
    if others:
        yield f"and {others} more"


def _write_environment(environment: Mapping[str, Any]) -> Html | None:
    """The environment, without the process that carried out the run."""
    for key in ("overrides", "remarks", "processor_matters"):
        if several := environment.get(key):
            environment = {**environment, key: "; ".join(map(str, several))}
    rows = [
        (MEANINGS.get(key, key.replace("_", " ")), value)
        for key, value in flatten(environment)
        if key != "owner"
    ]
    return make_table(("what", "value"), rows, "environment") if rows else None


def _write_scenario(data: RunData) -> list[Child]:
    summary = "With every default and every link filled in"
    file = "resolved.yaml" if len(data.resolved) > MAX_PRINTED_LETTERS else None
    return [
        *((tag("p", "The original file:"), write_text(data.given)) if data.given else ()),
        frame.fold(summary, write_text(data.resolved), file=file),
    ]


def write_text(text: str) -> Html:
    """A file's content, or a note if it is too long for a page."""
    if len(text) > MAX_LETTERS:
        words = (
            f"Too long for this page ({len(text):,} characters): see the file in the run's folder."
        )
        return tag("p", words)
    short = "short" if text.count("\n") < SHORT_LINES else None
    return tag("pre", text, tabindex="0", class_=short)


def _write_files(data: RunData, files: Sequence[str]) -> list[Child]:
    if not files:
        return []
    words = "These files are beside this page. A table loads with "
    table = next((name for name in LOADED if len(data.tables.get(name, ()))), "run")
    code = tag("code", f'pandas.read_csv("tables/{table}.csv")')
    links = [tag("li", tag("a", file, href=file)) for file in files]
    return [tag("p", words, code, "."), tag("ul", links)]
