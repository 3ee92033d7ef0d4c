"""Many runs: grids, comparisons, soaks, figures of papers."""
