"""The tables of cold connections, from what was measured."""

from cold_paths import Row, make_table


def measured(path: str, flow: str, variant: str, full_s: float | None, share: float) -> Row:
    """A measurement whose slow start ended at twice the bandwidth-delay product."""
    return Row(path, flow, variant, full_s, share, 1.0, "loss", 2.0, 0.0, 0.0, 0)


def test_several_paths_of_one_flow_have_a_row_each_with_the_window_by_default() -> None:
    rows = [
        measured("121/1", "one-way", "default", 0.0, 0.996),
        measured("121/1", "one-way", "bbr", 0.1, 0.5),
        measured("10/30", "one-way", "default", None, 0.25),
        measured("10/30", "one-way", "bbr", 1.257, 0.125),
    ]
    assert make_table(rows).splitlines() == [
        "| Mbit/s / ms | window | `default` | `bbr` |",
        "| --- | --- | --- | --- |",
        "| 121/1 | 2.00 | 0.00 s, 100% | 0.10 s, 50% |",
        "| 10/30 | 2.00 | never, 25% | 1.26 s, 12% |",
    ]


def test_without_the_default_there_is_no_window() -> None:
    rows = [measured(path, "returned", "bbr", 1.0, 0.5) for path in ("121/1", "10/30")]
    assert make_table(rows).splitlines()[0] == "| Mbit/s / ms | `bbr` |"


def test_one_path_has_a_row_for_each_variant_and_a_column_for_each_flow() -> None:
    rows = [
        measured("121/118", flow, variant, full_s, 0.5)
        for flow, full_s in (("one-way", 1.0), ("returned", 2.0))
        for variant in ("default", "reno")
    ]
    assert make_table(rows).splitlines()[2:] == [
        "| `default` | 1.00 s, 50% | 2.00 s, 50% |",
        "| `reno` | 1.00 s, 50% | 2.00 s, 50% |",
    ]
