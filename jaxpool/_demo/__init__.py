"""``python -m jaxpool demo``: train a digit classifier, then look at its pooling layers."""
