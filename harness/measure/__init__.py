"""The fidelity benchmark: does the network have the rates, delays, ... of the scenario?

Ordinary sockets and programs at the sites measure every link. `measurement_plan` decides what to
send (pure), `pair` and `foreign` send it, `judge` compares results with settings (pure), `figure`
draws them (pure). `measurement_session` runs in the network's kernel, `self_check` outside of it.
"""
