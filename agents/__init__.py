"""What runs at each site: plans, policies, messages, links, executor, worker, controller."""
