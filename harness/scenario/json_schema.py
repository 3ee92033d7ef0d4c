"""The JSON Schema of scenario files, for editors: completion, hover texts, red underlines (pure).

It describes the form of a file and the options of every extension. Rules over several keys, such as
the largest group for a number of sites, are checked by `harness.scenario.loading.load` only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Union

from pydantic import Field, WithJsonSchema

from trunkline.harness.config.options import REQUIRED, Option, make_model, read_options
from trunkline.harness.scenario.extensions import Extensions, discover, summarize
from trunkline.harness.scenario.named_schemes import DEFAULT_SCHEME, SCHEMES
from trunkline.harness.scenario.sections.scheme_section import SCHEME
from trunkline.harness.scenario.sections.section_reading import NETWORK, choose, merge
from trunkline.harness.scenario.settings import Basics, TimelineEntry
from trunkline.harness.scenario.user_code import SUFFIX, TRAINING
from trunkline.topologies.links import Link

FILE = f"{re.escape(SUFFIX)}$"
"""A pattern for the name of a user's file."""


def json_schema(extensions: Extensions | None = None) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of scenarios with these extensions; by default all."""
    known = extensions or discover()
    options = (
        *read_options(Basics),
        Option("topology", "topology", None, _topology(known), REQUIRED),
        Option("workload", "workload", None, _workload(known), REQUIRED),
        Option("scheme", "scheme", None, _scheme(known), {}),
        Option("timeline", "timeline", None, list[TimelineEntry], ()),
    )
    model = make_model("Trunkline scenario", options)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


def _topology(known: Extensions) -> Any:
    return _either(
        {
            name: make_model(
                f"topology {name}",
                (choose("builder", name), *_read_topology(module.build), *NETWORK),
                summarize(module),
            )
            for name, module in known.topologies.items()
        },
        Annotated[str, Field(pattern=FILE)],
        _own_file("builder"),
    )


def _read_topology(build: Callable[..., Any]) -> Iterator[Option]:
    """The options of a builder. A list of links may also be a table, a text of several lines."""
    for option in read_options(build):
        is_list = option.annotation == list[Link]
        table = list[Link] | Annotated[str, Field(pattern="\\n")]
        yield replace(option, annotation=table) if is_list else option


def _workload(known: Extensions) -> Any:
    return _either(
        {
            name: make_model(
                f"workload {name}",
                (choose("kind", name), *read_options(module.build)),
                summarize(module),
            )
            for name, module in known.workloads.items()
        },
        Annotated[str, Field(pattern=FILE)],
        _own_file("kind"),
        _own_file("model", kind={"const": TRAINING}),
    )


def _scheme(known: Extensions) -> Any:
    """The union of a model for each pair of policy and plan and for each scheme's name.

    Each of them has other options.
    """
    models = {
        name: make_model(f"scheme {name}", (choose("name", name), *_options(known, parts)))
        for name, parts in SCHEMES.items()
    }
    for policy, policy_module in known.policies.items():
        for plan, plan_module in known.plans.items():
            options = (
                choose("policy", policy, _default("policy", policy)),
                choose("plan", plan, _default("plan", plan)),
                *_options(known, {"policy": policy, "plan": plan}),
            )
            text = f"{summarize(policy_module)}. {summarize(plan_module)}"
            models[f"{policy} {plan}"] = make_model(f"scheme {policy} {plan}", options, text)
    return Union[
        (Literal[tuple(SCHEMES)], _own_file("policy"), _own_file("plan"), *models.values())
    ]


def _options(known: Extensions, parts: Mapping[str, Any]) -> tuple[Option, ...]:
    policy, plan = known.policies[parts["policy"]], known.plans[parts["plan"]]
    return merge(*SCHEME, *read_options(policy.create), *read_options(plan.build))


def _default(key: str, name: str) -> Any:
    return name if DEFAULT_SCHEME[key] == name else REQUIRED


def _own_file(key: str, **others: Any) -> Any:
    """A mapping that names a user's file. Its options are unknown before the file is read.

    `others` are forms of other keys that it must have.
    """
    form = {
        "type": "object",
        "properties": {key: {"type": "string", "pattern": FILE}, **others},
        "required": [key, *others],
    }
    return Annotated[dict[str, Any], WithJsonSchema(form)]


def _either(models: Mapping[str, Any], *others: Any) -> Any:
    """A component, either by its name or as a mapping."""
    return Union[(Literal[tuple(models)], *models.values(), *others)]
