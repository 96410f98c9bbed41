"""What a pooling does, in print and in pictures."""
