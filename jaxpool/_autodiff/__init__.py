"""Linear maps between windows and elements, and the derivative rules made of them."""
