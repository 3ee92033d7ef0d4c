"""The calls of `torch.distributed` in programs: how long each took, where and when."""
