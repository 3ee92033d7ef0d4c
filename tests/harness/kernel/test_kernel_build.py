"""The kernel is built once into a cache, in one piece or not at all.

Except for the first test, the build tools here are stand-ins, each a few lines of shell.
"""

import platform
import subprocess
import threading

import pytest

from trunkline.harness.kernel import KernelError, boot, build

TOOLS = {
    "tar": "cp $0 source",
    "patch": "true",
    "make": """
        case "$*" in
            *allnoconfig*) cp {config} .config ;;
            *) echo "  CC      init/main.o"; echo "  AS      arch/x86/um/checksum.o"
               echo "  LINK    linux"
               printf '#!/bin/sh\\necho 6.12.1\\n' > linux
               chmod +x linux ;;
        esac
    """,
    "strip": "true",
}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with stand-in tools and an empty cache; a function that replaces one tool."""
    source = tmp_path / "linux-source.tar.xz"
    source.touch()
    monkeypatch.setattr(build, "SOURCE", source)
    monkeypatch.setattr(build, "CONFIG", tmp_path / "um.config")
    monkeypatch.setattr(build.prebuilt, "find", lambda: None)
    build.CONFIG.write_text("CONFIG_NET=y\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def install(name, script):
        (tmp_path / name).write_text("#!/bin/sh\nset -e\n" + script)
        (tmp_path / name).chmod(0o755)

    for name, script in TOOLS.items():
        install(name, script.replace("{config}", str(build.CONFIG)))
    return install


def trusted(kernel):
    """Takes a stand-in for a kernel that boots."""


def cached_files():
    folder = build.path().parent
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


def test_the_real_kernel_is_built_or_cached_and_names_its_version(embedded):
    status = build.status()
    assert status.path == build.ensure(trusted)
    assert status.version is not None
    assert status.version.startswith("6.12.")


def test_a_build_lands_in_the_cache_and_the_next_one_has_nothing_to_do(machine):
    assert build.status().problem == "not built"
    kernel = build.ensure(trusted)
    assert kernel == build.path()
    assert build.status().version == "6.12.1"
    assert cached_files() == ["linux", "linux.sha256", "lock"]
    machine("make", "exit 1")
    assert build.ensure(trusted) == kernel


def test_the_checksum_is_the_one_that_sha256sum_checks(machine):
    folder = build.ensure(trusted).parent
    subprocess.run(["sha256sum", "--check", "linux.sha256"], cwd=folder, check=True)


DAMAGED = "damaged: it differs from its checksum"


@pytest.mark.parametrize(
    ("file", "replace", "problem"),
    [
        ("linux", lambda whole: whole.replace("6.12.1", "6.12.2"), DAMAGED),  # of the right size
        ("linux", lambda whole: whole[:-1], DAMAGED),
        ("linux", lambda whole: "", DAMAGED),
        ("linux.sha256", lambda whole: "", DAMAGED),
        ("linux.sha256", None, "without a checksum, because an older version built it"),
        ("linux", None, "not built"),
    ],
)
def test_an_unusable_kernel_is_named_with_its_remedy_and_built_again(
    machine, file, replace, problem
):
    kernel = build.ensure(trusted)
    changed = kernel.with_name(file)
    whole = changed.read_text()
    if replace is None:
        changed.unlink()
    else:
        changed.write_text(replace(whole))
    status = build.status()
    assert (status.version, status.problem) == (None, problem)
    with pytest.raises(
        KernelError, match=f"{kernel}: the embedded kernel is {problem}; remedy: trunkline ker"
    ):
        boot.run(["true"])
    assert build.ensure(trusted) == kernel
    assert changed.read_text() == whole
    assert build.status().problem is None


def test_a_kernel_that_cannot_be_executed_is_named_and_built_again(machine):
    kernel = build.ensure(trusted)
    kernel.chmod(0o644)
    assert build.status().problem == "not executable here"
    build.ensure(trusted)
    assert build.status().problem is None


def test_progress_goes_from_0_to_100_percent_and_says_what_is_done(machine):
    steps = []
    build.ensure(trusted, steps.append)
    assert [step.doing for step in steps] == [
        "unpacking linux-source.tar.xz",
        "configuring",
        "compiling init/main.o",
        "compiling arch/x86/um/checksum.o",
        "booting it once",
        "done",
    ]
    percents = [step.percent for step in steps]
    assert (percents[0], percents[-1]) == (0, 100)
    assert percents == sorted(percents)


def test_other_options_are_another_kernel(machine):
    first = build.path()
    build.CONFIG.write_text("CONFIG_NET=y\nCONFIG_VETH=y\n")
    assert build.path() != first


def test_missing_tools_and_source_are_named_with_the_command_that_installs_them(
    machine, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    build.SOURCE.unlink()
    with pytest.raises(KernelError) as error:
        build.ensure(trusted)
    assert str(error.value) == (
        "cannot build the embedded kernel: missing bc bison flex gcc xz-utils linux-source-6.12; "
        "remedy: sudo apt-get install bc bison flex gcc xz-utils linux-source-6.12"
    )


def test_an_option_that_the_source_does_not_take_is_an_error(machine):
    machine("make", "echo CONFIG_OTHER=y > .config")
    with pytest.raises(KernelError, match="does not take CONFIG_NET=y"):
        build.ensure(trusted)
    assert cached_files() == ["lock"]


def test_an_option_that_the_source_turns_on_although_it_must_be_off_is_an_error(machine):
    build.CONFIG.write_text("# CONFIG_IO_URING is not set\nCONFIG_NET=y\n")
    machine("make", "printf 'CONFIG_IO_URING=y\\nCONFIG_NET=y\\n' > .config")
    with pytest.raises(KernelError, match=r"does not take # CONFIG_IO_URING is not set$"):
        build.ensure(trusted)


def test_a_kernel_that_does_not_boot_is_not_put_in_place(machine):
    tried = []

    def refuse(kernel):
        tried.append((kernel.name, kernel.parent.name.startswith("build-"), kernel.exists()))
        raise KernelError("it does not boot")

    with pytest.raises(KernelError, match="it does not boot"):
        build.ensure(refuse)
    assert tried == [("linux", True, True)]
    assert cached_files() == ["lock"]


def test_on_other_processors_nothing_is_built_and_the_other_backend_is_named(machine, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    told = (
        "processor: aarch64: the embedded kernel exists for x86_64 only; remedy: backend: host, "
        "which needs root, with the network of this machine's own kernel"
    )
    for attempt in (lambda: build.ensure(trusted), lambda: boot.run(["true"])):
        with pytest.raises(KernelError) as error:
            attempt()
        assert str(error.value) == told
    assert cached_files() == []


def test_a_failing_step_is_an_error_with_its_last_lines_and_leaves_nothing(machine):
    machine("tar", "echo 'No space left on device'; exit 2")
    with pytest.raises(KernelError, match=r"tar .* ended with code 2:\nNo space left on device"):
        build.ensure(trusted)
    assert cached_files() == ["lock"]


def test_what_a_killed_builder_left_is_removed(machine):
    abandoned = build.path().parent / "build-killed"
    abandoned.mkdir(parents=True)
    build.ensure(trusted)
    assert not abandoned.exists()


def test_two_builders_at_once_build_once(machine, tmp_path):
    """The first builder's tar waits until the second one says that it waits."""
    second_waits = tmp_path / "second-waits"
    machine("tar", f"while [ ! -e {second_waits} ]; do sleep 0.01; done; echo >> {tmp_path}/built")

    def second_progress(progress):
        if progress.doing.startswith("waiting"):
            second_waits.touch()

    started = threading.Event()
    first = threading.Thread(target=build.ensure, args=(trusted, lambda _: started.set()))
    first.start()
    started.wait(timeout=10)
    build.ensure(trusted, second_progress)
    first.join()
    assert (tmp_path / "built").read_text() == "\n"


def test_a_cache_that_cannot_be_written_is_an_error(machine, tmp_path):
    (tmp_path / "cache").write_text("not a folder")
    with pytest.raises(KernelError, match=r"cannot build the embedded kernel: .*Not a directory"):
        build.ensure(trusted)
