"""Programs in other languages than Python see virtual time, and repeat."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from trunkline.harness.kernel.probes import has_cpuid_faulting

HERE = Path(__file__).parent
NODE = """
const crypto = require('crypto');
console.log(crypto.randomBytes(8).toString('hex'), Math.random(), Date.now());
for (let i = 0; i < 5; i++) setTimeout(() => console.log(i, process.hrtime.bigint()), i * 3 % 7);
crypto.pbkdf2('a', 'b', 1000, 16, 'sha1', () => console.log(process.hrtime.bigint()));
"""
RANDOM_DEVICE = "#include <random>\n#include <cstdio>\nint main() { std::random_device r; " + (
    'printf("%u %u\\n", r(), r()); }\n'
)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The programs that can be made here, by language."""
    folder = tmp_path_factory.mktemp("languages")
    made = {"C": [str(folder / "c")]}
    subprocess.run(["gcc", "-O1", "-o", *made["C"], HERE / "instructions.c"], check=True)
    if shutil.which("g++") is not None:
        source, made["C++"] = folder / "random.cc", [str(folder / "cc")]
        source.write_text(RANDOM_DEVICE)
        subprocess.run(["g++", "-O1", "-o", *made["C++"], source], check=True)
    if (go := shutil.which("go")) is not None:
        made["Go"] = [str(folder / "go")]
        build = [go, "build", "-o", *made["Go"], HERE / "languages.go"]
        environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "GO111MODULE": "off"}
        subprocess.run(build, check=True, env=environment)
    if (node := shutil.which("node")) is not None:
        made["Node"] = [node, "-e", NODE]
    return made


@pytest.fixture(scope="module")
def outputs(commands: dict[str, list[str]], embedded) -> list[dict[str, str]]:
    """What the programs say in each of two guests."""
    source = (
        "import json, subprocess, sys\n"
        "said = {name: subprocess.run(command, capture_output=True, text=True).stdout\n"
        "        for name, command in json.loads(sys.argv[1]).items()}\n"
        "print(json.dumps(said))\n"
    )
    visible = [Path(commands["C"][0]).parent]
    said = [embedded.script(source, json.dumps(commands), visible=visible) for _ in range(2)]
    assert [each.code for each in said] == [0, 0], said
    return [json.loads(each.output) for each in said]


def test_the_time_stamp_counter_tells_virtual_time(outputs: list[dict[str, str]]) -> None:
    seen = json.loads(outputs[0]["C"])
    before, first, second, after = seen["times"]
    assert (first - before, second - first, after - second) == (256, 256, 256)
    assert seen["processor"] == 0


def test_random_numbers_of_the_processor_are_hidden_where_it_can_be_asked_to(
    outputs: list[dict[str, str]],
) -> None:
    if not has_cpuid_faulting():
        pytest.skip("this processor has no CPUID faulting")
    seen = json.loads(outputs[0]["C"])
    assert (seen["rdrand"], seen["rdseed"]) == (0, 0)


@pytest.mark.parametrize("language", ["C", "C++", "Go", "Node"])
def test_two_guests_give_the_same_output(language: str, outputs: list[dict[str, str]]) -> None:
    if language not in outputs[0]:
        pytest.skip(f"{language}: not installed here")
    if language == "C++" and not has_cpuid_faulting():
        pytest.skip("std::random_device uses RDRAND, which this processor cannot hide")
    assert outputs[0][language]
    assert outputs[0][language] == outputs[1][language]
