"""Options become pydantic types once: comparisons read hundreds of scenarios."""

from trunkline.harness.config.options import make_type
from trunkline.harness.scenario.settings import Stop


def test_the_type_of_a_dataclass_is_made_once():
    assert make_type(Stop) is make_type(Stop)
