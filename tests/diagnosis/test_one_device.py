"""The command of a training on one device."""

import pytest

from dpscale.diagnosis.launcher import on_one_device


@pytest.mark.parametrize(
    ("command", "on_one"),
    [
        ("torchrun --nproc-per-node 2 train.py --nproc 3", "torchrun --nproc-per-node=1 train.py --nproc 3"),
        ("torchrun --nproc_per_node=gpu train.py", "torchrun --nproc_per_node=1 train.py"),
        ("accelerate launch --num_processes 4 train.py", "accelerate launch --num_processes=1 train.py"),
        (
            "accelerate launch --multi_gpu --num_processes 2 --multi_gpu train.py --multi_gpu",
            "accelerate launch --num_processes=1 train.py --multi_gpu",
        ),
        ("torchrun --nproc-per-node 1 train.py", None),
        ("python train.py", None),
    ],
)
def test_a_launcher_s_number_of_processes_is_set_to_one(command: str, on_one: str | None) -> None:
    """It still sees all GPUs: a script of several looks whether there are."""
    variables = {"OMP_NUM_THREADS": "3", "CUDA_VISIBLE_DEVICES": "0,1"}
    if on_one:
        assert on_one_device(command.split(), True, variables) == (on_one.split(), {"OMP_NUM_THREADS": "3"})
    assert on_one_device(command.split(), False, variables) == (on_one and (on_one.split(), {"OMP_NUM_THREADS": "3"}))


@pytest.mark.parametrize(
    ("visible", "first"),
    [({}, "0"), ({"CUDA_VISIBLE_DEVICES": "3,1"}, "3"), ({"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}, "GPU-b")],
)
def test_other_commands_see_their_first_gpu_alone(visible: dict[str, str], first: str) -> None:
    command = ["accelerate", "launch", "train.py"]
    assert on_one_device(command, True, visible) == (command, {"CUDA_VISIBLE_DEVICES": first})
