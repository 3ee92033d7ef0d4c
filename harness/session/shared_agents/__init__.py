"""Agents of several sites in one process: `agent_group` outside of it, `agent_turns` inside."""
