"""What times the calls of `torch.distributed` in programs that do not know it.

`sitecustomize.py` is loaded by Python when a program starts; its folder is on the PYTHONPATH of
programs whose scenario has `time_calls: true`. These files use the standard library only, because a
program may run on a Python that does not have Trunkline.
"""
