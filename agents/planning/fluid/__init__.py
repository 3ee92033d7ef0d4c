"""The time that tasks should take: a fluid model of the overlay, chunk by chunk (pure).

The model has the executor's rules and no TCP. Every directed link serves one chunk at a time, at
its rate, in the order of the discipline. A chunk is added as soon as all of it has arrived. It is
sent on then or, if its block is not pipelined, when all of the block is there. Additions take no
time. With auxiliary paths, sites choose a path as the executor does.
"""
