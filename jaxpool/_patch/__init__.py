"""Pools of installed libraries, replaced in place."""
