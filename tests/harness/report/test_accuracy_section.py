"""What the page of a run says of its evaluations."""

import re

from finished_runs import make_agents_run


def test_the_page_says_from_where_evaluations_and_the_timeline_count(tmp_path):
    folder = make_agents_run(tmp_path / "run")
    text = " ".join(re.sub(r"<[^>]+>", "", (folder / "report.html").read_text()).split())
    words = re.search(r"Times count from the start of the run; [^.]*\.\d+ s later\.", text)
    assert words is not None
    assert words[0] == (
        "Times count from the start of the run; the timeline counts from the start of the first "
        "task, 0.210 s later."
    )
