"""The controller's side: the tasks that run, their plans, and their ends."""
