"""Faults and their texts within sentences (pure)."""

from __future__ import annotations

from trunkline.harness.record.history import History
from trunkline.harness.report.faults.fault_layout import LETTERS, shorten


def name_fault(number: int | None, history: History) -> str:
    """A fault in brackets; an empty text without one."""
    found = (each.started for each in history.faults if each.started.fault == number)
    fault = next(found, None)
    return "" if fault is None else f" (fault {fault.fault}: {shorten(fault.text, LETTERS)})"


def name_subject(number: int, history: History) -> str:
    """A fault as a subject, with its text in brackets."""
    found = (each.started.text for each in history.faults if each.started.fault == number)
    text = next(found, "")
    return f"Fault {number} ({shorten(text, LETTERS)})" if text else f"Fault {number}"
