"""What a policy decides on literal events, in words."""

from trunkline.agents.policies.policy import Ended, Ready


class Answers:
    """A policy and its state; `tell` puts a decision into words; `servers` are in every task."""

    def __init__(self, policy, tell, servers=()):
        self.policy, self.state = policy, policy.initial
        self.tell, self.servers = tell, servers

    def give(self, *events):
        """What the policy decides on these events."""
        found = []
        for event in events:
            self.state, decisions = self.policy.step(self.state, event)
            found += map(self.tell, decisions)
        return found

    def ready(self, sites, iteration, at_s=0.0, given=False):
        return self.give(*(Ready(site, iteration, at_s, given) for site in sites))

    def end(self, sites, at_s=0.0, took_s=None, completed=True):
        """The end of a task, which says how long it took if that is known."""
        report = {} if took_s is None else {"duration_s": took_s}
        return self.give(Ended(0, (*sites, *self.servers), completed, at_s, report))

    def turn(self, site, at_s, push_s, pull_s):
        """The end of the push and then of the pull of a site whose turn starts at `at_s`."""
        done = self.end(site, at_s + push_s, push_s)
        return done + self.end(site, at_s + push_s + pull_s, pull_s)
