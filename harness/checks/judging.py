"""All checks of a run, and the verdict that they give together (pure)."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

from trunkline.agents.planning.plan import Directed
from trunkline.harness.checks import (
    causality_checks,
    evaluation_checks,
    model_checks,
    outcome_checks,
    result_checks,
    waiting_checks,
)
from trunkline.harness.checks.computing import branch_checks, compute_checks
from trunkline.harness.checks.expectations import expectation_checks
from trunkline.harness.checks.expectations.remarks import find_remarks
from trunkline.harness.checks.expectations.user_check import UserCheck
from trunkline.harness.checks.frame import fault_checks, run_checks, stop_checks
from trunkline.harness.checks.network import (
    altered_links,
    background_checks,
    capture_checks,
    counter_checks,
    network_checks,
)
from trunkline.harness.checks.payload import arrival_checks, byte_checks, timing_checks
from trunkline.harness.checks.programs import (
    call_checks,
    charge_checks,
    lifecycle_checks,
    program_checks,
)
from trunkline.harness.checks.protocol import (
    cause_checks,
    connection_checks,
    controller_checks,
    hearing_checks,
    plan_checks,
    policy_checks,
    repair_checks,
    worker_checks,
)
from trunkline.harness.checks.rules import Rules
from trunkline.harness.checks.verdict import (
    PREDICTION,
    Check,
    Checker,
    Finding,
    Verdict,
    fail,
)
from trunkline.harness.record.history import History
from trunkline.harness.scenario.settings import Scenario

PLANS = "every plan is valid"
CAPTURES = "captures match the interface counters"
"""The check that only runs with captures have."""

ALTERED = "only the run changed links"

CHECKS: Mapping[str, tuple[str, Checker]] = {
    PLANS: ("plans", plan_checks.plans_are_valid),
    "the log is complete": ("events", run_checks.log_is_whole),
    "the run matches the scenario": ("values", run_checks.header_agrees),
    "the host kept up": ("runs", network_checks.host_kept_up),
    "faults match the timeline": ("steps", fault_checks.faults_as_written),
    "only faults changed agents": ("changes", fault_checks.kills_are_faults),
    "every agent exited cleanly": ("exits", run_checks.exits_follow_the_protocol),
    ALTERED: ("links", altered_links.links_unaltered),
    "links kept their rates": ("payloads", network_checks.rates_kept),
    "links kept their delays": ("payloads", network_checks.delays_kept),
    "interface counters match the payload": ("links", counter_checks.interfaces_agree),
    CAPTURES: ("links", capture_checks.captures_agree),
    "background traffic matches its schedule": ("flows", background_checks.background_follows),
    "every lost connection has a cause": ("losses", fault_checks.losses_have_causes),
    "connections join two live agents": ("messages", connection_checks.connections_have_two_ends),
    "computing took the modelled time": ("iterations", compute_checks.computing_takes_time),
    "branches were computed in order": ("branches", branch_checks.branches_follow),
    "messages came after their causes": ("messages", causality_checks.messages_take_time),
    "payload arrived after it was sent": ("payloads", timing_checks.payload_takes_time),
    "every byte arrived": ("links of tasks", byte_checks.bytes_arrived),
    "workers followed the protocol": ("steps", worker_checks.workers_follow),
    "controllers followed the protocol": ("terms", controller_checks.controllers_follow),
    "policy decisions match their replay": ("answers", policy_checks.decisions_follow),
    "plans match the scenario": ("plans", plan_checks.plans_are_the_scenarios),
    "every repair has a cause": ("causes", cause_checks.causes_hold),
    "repairs followed each other": ("repairs", repair_checks.repairs_follow),
    "every repair was heard": ("messages", hearing_checks.repairs_are_heard),
    "results came after contributions": ("results", causality_checks.results_follow),
    "results came after their bytes": ("results", arrival_checks.results_follow_bytes),
    "every task ended once": ("tasks", outcome_checks.tasks_ended),
    "all members agreed on the outcome": ("members", outcome_checks.members_decide_alike),
    "no site was left blocked": ("waits", waiting_checks.no_site_is_blocked),
    "every task stayed within its budget": ("tasks", waiting_checks.budgets_kept),
    "every contribution is exact": ("contributions", result_checks.inputs_are_exact),
    "all members hold the same result": ("results", result_checks.results_are_one),
    "every result is the weighted sum": ("results", result_checks.results_are_sums),
    "every result is exact to the byte": ("results", result_checks.results_are_exact),
    "server versions form a chain": ("versions", model_checks.server_versions_follow),
    "models follow from results": ("models", model_checks.models_follow),
    "abandoned tasks left models unchanged": ("members", outcome_checks.giving_up_changes_nothing),
    "every contribution counts once": ("contributions", result_checks.contributions_count_once),
    "the run ended as specified": ("stops", stop_checks.run_ends_as_written),
    "evaluations are of the sites' models": ("evaluations", evaluation_checks.evaluations_follow),
    "the run stopped by its evaluations": ("stops", evaluation_checks.evaluations_end_runs),
}
"""The checks of a run of agents: what each one counts, and its function.

A name says what is true if the check passes. Causes come before their consequences: the log, the
host, faults and the network, then what agents do, what tasks give, and how the run ends.
"""

PROGRAM_CHECKS: Mapping[str, tuple[str, Checker]] = {
    "the log is complete": ("events", run_checks.log_is_whole),
    "the run matches the scenario": ("values", run_checks.header_agrees),
    "the host kept up": ("runs", network_checks.host_kept_up),
    "faults match the timeline": ("steps", fault_checks.faults_as_written),
    "only faults changed agents": ("changes", fault_checks.kills_are_faults),
    "programs lived as written": ("steps", lifecycle_checks.programs_lived_as_written),
    "every program exited cleanly": ("programs", program_checks.programs_exited),
    ALTERED: ("links", altered_links.links_unaltered),
    "links kept their rates": ("links", counter_checks.interfaces_agree),
    CAPTURES: ("links", capture_checks.captures_agree),
    "background traffic matches its schedule": ("flows", background_checks.background_follows),
    "every site took part": ("sites", program_checks.sites_took_part),
    "computing was charged": ("sites", charge_checks.computing_is_charged),
    "programs reported in order": ("reports", program_checks.programs_follow_the_protocol),
    "calls followed each other": ("calls", call_checks.calls_follow_each_other),
    "calls ended after all had begun": ("calls", call_checks.collectives_take_time),
    "results came after contributions": ("members", causality_checks.allreduces_take_time),
    "every reported task ended": ("members", program_checks.syncs_ended),
    "the run ended as specified": ("stops", stop_checks.run_ends_as_written),
}
"""The checks of a run of programs: only their own reports are known."""


def judge(
    history: History,
    rules: Rules,
    digests: Mapping[Directed, str] | None = None,
    carried_out: Mapping[int, UserCheck] | None = None,
) -> Verdict:
    """Run every check on one run. Of a prediction, nothing is judged.

    Args:
        history: the run.
        rules: what its scenario says.
        digests: those of the capture files, if there are any.
        carried_out: the user's own checks, by their place in `expect:`.
    """
    if history.is_predicted:
        return Verdict(PREDICTION, (), tuple(_describe_prediction(rules.scenario)))
    of_files = [capture_checks.check_files(history, digests)] if digests else []
    expected = [
        _carry_out(*check, history, rules)
        for check in expectation_checks.list_checks(rules, carried_out or {})
    ]
    checks = (*judge_each(history, rules), *of_files, *expected)
    charged = charge_checks.find_remarks(history, rules)
    return Verdict.of(checks, (*charged, *find_remarks(history, rules)))


def _describe_prediction(scenario: Scenario) -> Iterator[str]:
    """What the model of a prediction leaves out."""
    yield (
        "This is a prediction by the fluid model, not a run: no packets, no TCP, no processes. "
        "Nothing is judged (docs/predict.md)."
    )
    if any(link.loss_percent or link.jitter_ms for link in scenario.topology.links):
        yield "Links of the scenario lose or delay packets at random; in the model they do not."
    if scenario.stop.is_evaluated:
        yield "The model trains nothing, so no evaluation stops it."
    if scenario.background:
        yield "Background traffic takes its mean rate from the links."
    if scenario.expect:
        yield "The expectations of the scenario are not judged."


def judge_each(history: History, rules: Rules) -> Iterator[Check]:
    """Run one check after the other. If a plan is not valid, the others cannot judge anything."""
    checks = CHECKS if rules.programs is None else PROGRAM_CHECKS
    for name, (objects, check) in checks.items():
        if name == CAPTURES and not rules.scenario.capture.ends:
            continue
        found = _carry_out(name, objects, check, history, rules)
        yield found
        if name == PLANS and found.outcome == "fail":
            return


def _carry_out(name: str, objects: str, check: Checker, history: History, rules: Rules) -> Check:
    """The outcome of a check. One that raises an exception has failed: the log is not of a run.

    The reader of the log refuses malformed events; this catches all other contradictions.
    """
    findings: list[Finding] = []
    try:
        findings.extend(check(history, rules))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        findings.append(
            fail(f"the log cannot be judged: {type(error).__name__}: {error} ({where})")
        )
    return Check.of(name, objects, findings)
