"""In-place replacement of the pools of installed libraries."""
