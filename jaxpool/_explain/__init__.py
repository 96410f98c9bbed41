"""Descriptions of a pooling as text and as pictures."""
