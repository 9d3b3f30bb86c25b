"""One benchmark a file: a module with a `ROW`."""
