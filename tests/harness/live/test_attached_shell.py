"""`trunkline attach` to a run on this machine: a prompt from another terminal."""

from command_line import command

SMALL = """
topology: {builder: full_mesh, sites: 3, rates: n2, delays: 20 ms}
workload: {kind: synthetic, model: 200 kB, compute: 0.1 s}
scheme: {name: allreduce, chunk: 64 KiB}
stop: {time: 30 s}
outputs: {plots: false}
"""


def attach(folder, lines: str) -> tuple[int, str, str]:
    with command(folder, "attach", "small") as process:
        out, err = process.communicate(lines, timeout=120)
    return process.returncode, out, err


def test_lines_from_another_terminal_take_effect_and_leave_the_run_as_it_is(embedded, tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    with command(tmp_path, "shell", "small.yaml", "--quiet") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("step 1 s\nstatus\n")
        process.stdin.flush()
        shown = [process.stdout.readline() for _ in range(3)]
        code, out, err = attach(tmp_path, "outage n1 n2\n\nbogus\nhelp step\nstatus\n")
        assert code == 0
        answer = "outage n1 n2 both blackhole\ndone at 1.000 s\n"
        assert f"trunkline> outage n1 n2\n{answer}" in out
        assert out.count("done at ") == 1  # status says the time itself
        assert "trunkline> help step\nLets a virtual clock run" in out
        assert "fault 0   outage n1 n2 both blackhole, typed, active for 0.0 s\n" in out
        assert err == "bogus: unknown: expected a verb (see: help) or a site: n1, n2, n3\n"
        assert process.poll() is None  # the end of the lines is not the end of the run
        code, out, err = attach(tmp_path, "exit\nstatus\n")
        assert code == 0
        assert out.startswith("time      1.000 s since the first task began (virtual clock)\ndone ")
        before, _, then = out.partition("trunkline> ")
        assert "fault 0   outage n1 n2 both blackhole, typed, active for 0.0 s\n" in before
        assert "(over the last 1.0 s)" in before  # no time has passed since the status before
        assert then.splitlines()[:2] == ["exit", "the run was told to end at 1.000 s"]
        said, _ = process.communicate("", timeout=120)
    assert process.returncode == 0
    assert shown[0] == "0 s> step 1 s\n"
    assert "the run is ending: a stop was requested" in said
    assert said.count("typed elsewhere at 1.000 s: outage n1 n2 both blackhole\n") == 1
    code, _, err = attach(tmp_path, "status\n")
    assert code == 64
    assert "none is running" in err


def test_each_prompt_hears_of_faults_that_were_typed_at_the_other(embedded, tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    with command(tmp_path, "shell", "small.yaml", "--quiet") as own:
        assert own.stdin is not None
        assert own.stdout is not None
        own.stdin.write("step 1 s\n")
        own.stdin.flush()
        own.stdout.readline()
        with command(tmp_path, "attach", "small") as other:
            assert other.stdin is not None
            assert other.stdout is not None
            while "Mbit/s" not in other.stdout.readline():  # the last line of the status
                pass
            own.stdin.write("kill n3\n")
            own.stdin.flush()
            assert own.stdout.readline() == "1 s> kill n3\n"
            assert other.stdout.readline() == "typed elsewhere at 1.000 s: kill n3\n"
            out, err = other.communicate(
                "outage n1 n2 for 1 s\nstep 2 s\nsetlink n9 n1 rate=3\n", timeout=120
            )
        assert "typed elsewhere" not in out + err  # its own fault is no news
        assert err.startswith("setlink n9 n1 rate=3: n9: expected one of ")
        said, _ = own.communicate("links\n", timeout=120)
    assert said.splitlines()[:2] == [
        "kill n3", "typed elsewhere at 1.000 s: outage n1 n2 both blackhole for 1 s"
    ]  # fmt: skip
    assert said.splitlines()[2] == (
        "stepped elsewhere to 3.000 s; fault 1 ended: outage n1 n2 both blackhole for 1 s"
    )
    assert said.splitlines()[3] == "3 s> links"
