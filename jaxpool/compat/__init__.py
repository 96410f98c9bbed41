"""Other systems' pooling in their own words, with their results: one module a system.

Names, order and defaults of the arguments are the system's, and so are the rules of padding, NaN,
indices and rounding. No module imports the system itself.
"""
