"""Branches that workers computed as they arrived: their table and their section of the page."""
