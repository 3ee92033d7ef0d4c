"""Builds the network, runs the scenario, keeps and judges the results."""
