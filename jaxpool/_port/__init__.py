"""Translation of the pooling operations in model files to calls of the library."""
