"""`report.html`: what came of a run, or of several, as one page that needs nothing else (pure).

`run.page` and `comparison.page` put a page together; the other modules draw its parts. Pictures are
SVG whose colours the style sheet gives, so that one picture serves light, dark and paper.
"""
