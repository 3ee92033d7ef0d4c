"""Explanations in sentences, for the terminal and the page."""
