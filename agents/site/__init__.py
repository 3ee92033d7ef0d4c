"""The worker's side: one site's share of every task."""
