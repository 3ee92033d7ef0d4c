"""The script of a job array, and the lines that submit it."""

from pathlib import Path

from trunkline.harness.runs.cluster import job_array
from trunkline.harness.runs.cluster.cluster_file import Slurm

SPEC = Slurm(5400.0, 10, 4, 2 * 10**9, "normal", "me", "ib0", ("--qos=low",), ("module load x",))
COMMAND = ("python", "trunkline", "compare", "a.yaml", "--vary", "scheme.p=2,3 ")


def test_each_task_of_the_array_carries_out_its_share():
    text = job_array.write_script(SPEC, COMMAND, Path("/home/me"), Path("/home/me/array.sh"))
    assert text == (
        "#!/bin/bash\n"
        "#SBATCH --array=1-10\n"
        "#SBATCH --output=/home/me/array.sh-%A-%a.log\n"
        "#SBATCH --job-name=trunkline\n"
        "#SBATCH --cpus-per-task=4\n"
        "#SBATCH --mem=8000M\n"
        "#SBATCH --time=01:30:00\n"
        "#SBATCH --partition=normal\n"
        "#SBATCH --account=me\n"
        "#SBATCH --qos=low\n"
        "set -e\n"
        "module load x\n"
        "cd /home/me\n"
        "exec python trunkline compare a.yaml --vary 'scheme.p=2,3 ' --jobs 4 "
        "--share $SLURM_ARRAY_TASK_ID/10\n"
    )


def test_the_command_without_a_share_follows_the_array():
    spec = Slurm(60.0)
    said = job_array.describe_submission(spec, Path("/a b/c.sh"), COMMAND[:4], Path("/home/me"))
    assert said == (
        "array=$(sbatch --parsable '/a b/c.sh')\n"
        "sbatch --dependency=afterany:$array --job-name=trunkline --cpus-per-task=1 --mem=2000M "
        "--time=00:01:00 '--output=/a b/c.sh-%j.log' --wrap "
        "'cd /home/me && python trunkline compare a.yaml'"
    )


def test_paths_and_values_with_blanks_and_percent_signs_reach_slurm_whole():
    spec = Slurm(60.0, directives=("--comment='a b'", "-C fast"))
    text = job_array.write_script(spec, COMMAND, Path("/a b"), Path("/a b/50%.sh"))
    assert "#SBATCH '--output=/a b/50%%.sh-%A-%a.log'\n" in text
    assert "#SBATCH --comment='a b'\n#SBATCH -C fast\n" in text
    said = job_array.describe_submission(spec, Path("/a b/50%.sh"), COMMAND, Path("/a b"))
    assert " '--comment=a b' -C fast '--output=/a b/50%%.sh-%j.log' --wrap " in said
