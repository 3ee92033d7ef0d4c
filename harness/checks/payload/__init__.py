"""The checks of bytes: how many crossed links, and when they arrived."""
