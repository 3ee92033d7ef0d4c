"""The fluid model of a whole run: policy, plans and compute times of the run, and no packets."""
