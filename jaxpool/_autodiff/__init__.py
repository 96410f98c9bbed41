"""Linear maps between windows and elements, and the derivative rules built from them."""
