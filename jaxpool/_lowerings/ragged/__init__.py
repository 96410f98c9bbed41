"""Windows of any start and length: forward, at offsets, and back."""
