"""`report.html`: the results of one or several runs as one self-contained page (pure).

`run_page` and `comparison_page` assemble a page; the other modules draw its parts. Pictures are
SVG; the style sheet sets their colours, so one picture serves light mode, dark mode and paper.
"""
