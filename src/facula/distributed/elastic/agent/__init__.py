"""Agents: who starts and watches the workers of a machine (`server`)."""
