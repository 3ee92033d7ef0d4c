"""Why a task took as long as it did."""
