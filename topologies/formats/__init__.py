"""Networks in the formats of other programs: a reader per format, and what files may say (pure).

A reader turns a text into a `Network` of nodes and edges, which `network_file` has. All readers
share the words of `attributes`, the units of `quantities` and the names of `node_names`.
"""
