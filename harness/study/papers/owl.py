"""Figures of OWL: a fluid model of one step (`rack_step.py`), and smaller measured ones."""

from __future__ import annotations

from collections.abc import Mapping

from trunkline.harness.study.papers import Figure, ModelFigure
from trunkline.harness.study.rack_step import Setting, predict

_BOTH = "workload.model=dfn,inception-v4"
_ALL = "scheme.plan=owl,naive,overlap,ipart,oos"
_PLANS = "scheme.plan=owl,naive,overlap,ipart"
_MEASURED = {"update_s": "step_s", "waiting_percent": "stall_percent"}
"""The value of the fluid model -> the column of a run that is the same."""


def _make_figure(
    claim: str, vary: tuple[str, ...], runs: tuple[str, ...], metric: str = "update_s"
) -> ModelFigure:
    """A figure with what varies in the fluid model, and in measured runs."""
    measured = Figure(claim, "paper/owl/racks.yaml", runs, _MEASURED[metric])
    return ModelFigure(claim, vary, metric, Setting, predict, measured)


FIGURES: Mapping[str, ModelFigure] = {
    "7": _make_figure(
        "100 workers in 50 racks: OWL is faster than Naive by 63 to 69 %, than Overlap by 27 to 30 "
        "%, than IPart by 20 to 24 %; within 10 % of OOS",
        (_ALL, _BOTH),
        (_PLANS,),
    ),
    "8": _make_figure(
        "communication that is not hidden: 12 % of the time with OWL, more with the others",
        (_ALL, _BOTH),
        (_PLANS,),
        "waiting_percent",
    ),
    "9": _make_figure(
        "OWL against IPart: faster at every alpha, the more the smaller alpha is; 19 % at 1, 29 % "
        "at 0.2 (Inception-V4)",
        ("scheme.plan=owl,ipart", _BOTH, "topology.alpha=1.0,0.8,0.6,0.4,0.2"),
        ("scheme.plan=owl,ipart", "topology.alpha=1.0,0.6,0.2"),
    ),
    "10a": _make_figure(
        "OWL is faster than Naive by 58 % in 10 racks of 8 workers, by 43 % in 20 racks of 4",
        (
            "scheme.plan=owl,naive,overlap,ipart",
            _BOTH,
            "topology={racks: 10, sites_per_rack: 8},{racks: 20, sites_per_rack: 4}",
        ),
        ("scheme.plan=owl,naive", "topology.sites_per_rack=8,4"),
    ),
    "10b": _make_figure(
        "without the deploying algorithm (OWL-A) 1.09 times OWL's time, without the grouping "
        "algorithm (OWL-B) 1.14 times (Inception-V4)",
        ("scheme.plan=owl,owl-a,owl-b", _BOTH),
        ("scheme.deploy=centralized,unbalanced", "scheme.grouping=even,random"),
    ),
    "11": _make_figure(
        "no racks, 50 to 100 workers: OWL takes 0.60 to 0.63 of Naive's time (Inception-V4), and "
        "is 15 to 21 % faster than IPart",
        (
            "scheme.plan=naive,owl,overlap,ipart",
            _BOTH,
            "topology={racks: 1, alpha: 1.0}",
            "topology.sites_per_rack=50,75,100",
        ),
        (
            "scheme.plan=naive,owl,overlap,ipart",
            "topology.racks=1",
            "topology.alpha=1.0",
            "topology.sites_per_rack=8,16",
        ),
    ),
}
