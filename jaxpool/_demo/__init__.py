"""``python -m jaxpool demo``: train a digit classifier and examine its pooling layers."""
