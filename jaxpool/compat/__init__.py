"""Other systems' pooling, in their own words: one file a system.

A front end translates names, defaults, layouts and rules into calls of the ops. None imports the
system it stands for.
"""
