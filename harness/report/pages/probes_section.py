"""The section on link rates that sites measured, beside the set rates (pure)."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from trunkline.harness.report.pages import charts
from trunkline.harness.report.pages.charts import WIDTH, Frame, Scale
from trunkline.harness.report.pages.markup import Html, tag

MAX_DOTS = 2000
"""The most measurements that are drawn; of more, every second, third, ... is."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One link's measurements in Mbit/s: the median, and the range of the middle 90 %."""

    median: float
    low: float
    high: float


def compute_spreads(probes: pd.DataFrame) -> dict[tuple[str, str], Spread]:
    """The spread of each link's measurements; `probes` is the table of that name."""
    return {
        (str(src), str(dst)): Spread(*(float(found.quantile(share)) for share in (0.5, 0.05, 0.95)))
        for (src, dst), found in probes.groupby(["src", "dst"])["estimate_mbps"]
    }


def draw_probes(probes: pd.DataFrame, clock: str) -> Html:
    """Draw every measurement as a share of the rate that was set at that time."""
    shown = probes.iloc[:: -(-len(probes) // MAX_DOTS)]
    shares = 100 * shown["estimate_mbps"] / shown["rate_mbps"]
    expected = 100 * shown["formula_mbps"] / shown["rate_mbps"]
    x = Scale(0.0, float(probes["t_s"].max()) * 1.02 or 1.0, 64, WIDTH - 8)
    frame = Frame(x, charts.fit_scale([*shares, *expected, 100.0], 250, 24))
    error = probes["error_percent"]
    words = (
        f"{len(probes)} measurements of {len(compute_spreads(probes))} links; error: median "
        f"{error.median():+.1f} %, the middle 90 % from {error.quantile(0.05):+.1f} % to "
        f"{error.quantile(0.95):+.1f} %. Expected is the formula's result without queues; it "
        "includes some propagation."
    )
    if len(shown) < len(probes):
        words += f" Shown: one of {-(-len(probes) // MAX_DOTS)}."
    truth = f"M{x.start:.2f} {frame.y(100.0):.2f}H{x.end:.2f}"

    def dots(values: pd.Series[float], class_: str) -> Html:
        points = zip(shown["t_s"], values, strict=True)
        return charts.draw_dots(((x(t), frame.y(value)) for t, value in points), class_)

    picture = charts.draw_picture(
        296,
        f"Measured rates over time as a share of the set rate. {words}",
        frame.draw_axes(f"{clock} time (s)", "measured rate (% of the set rate)"),
        tag("path", d=truth, class_="line stroke-grey"),
        dots(expected, "small stroke-orange"),
        dots(shares, "small stroke-blue"),
        fits=True,
    )
    entries = [
        ("stroke-blue", "measured"),
        ("stroke-orange", "expected from the formula"),
        ("stroke-grey", "set rate"),
    ]
    return charts.make_figure(picture, words, charts.make_legend(entries, "dot"))
