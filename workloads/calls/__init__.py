"""What times the calls of `torch.distributed`, and lets optimizer steps take time, in programs.

The programs need not know it. `sitecustomize.py` is loaded by Python when a program starts; its
folder is on the PYTHONPATH of programs whose scenario has `time_calls: true` or `compute`. These
files use the standard library only, because a program may run on a Python without Trunkline.
"""
