"""A comparison says when its results depend on processors and these differ."""

import pandas as pd

from trunkline.harness.study.mixed_machines import list_mixed


def trials(processors, reasons):
    return pd.DataFrame({"processor": processors, "processor_matters": reasons})


def test_several_processors_matter_only_where_results_depend_on_them():
    assert list(list_mixed(pd.DataFrame({"processor": ["a", "b"]}), ())) == []
    assert list(list_mixed(trials(["a", "a"], ["the real clock"] * 2), ())) == []
    assert list(
        list_mixed(trials(["a", "b", "a", ""], ["the real clock", None, "", None]), ())
    ) == ["results of several processors are mixed: 2 on a, 1 on b; they matter: the real clock"]
