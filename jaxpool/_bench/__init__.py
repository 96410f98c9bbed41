"""One pool against ``lax.reduce_window``, measured on the user's own device."""
