"""The controller's side: which tasks run, by which plans, and how they end."""
