"""The embedded kernel runs a program like a subprocess and leaves nothing behind."""

import time


def test_the_program_is_root_inside_and_its_output_and_exit_code_come_out(embedded):
    completed = embedded.script("import os; print('uid', os.getuid()); raise SystemExit(7)")
    assert (completed.code, completed.output) == (7, "uid 0\n")


def sleep_for(seconds):
    began_ns = time.monotonic_ns()
    time.sleep(seconds)
    return (time.monotonic_ns() - began_ns) / 1e9


def test_an_hour_of_virtual_sleep_takes_seconds(embedded):
    began_s = time.monotonic()
    assert 3600 <= embedded.call(sleep_for, 3600) < 3600.001
    assert time.monotonic() - began_s < 30
