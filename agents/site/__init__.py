"""The worker's side: what one site does for every task."""
