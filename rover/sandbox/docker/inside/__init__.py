"""What runs in the container: standard library and rover.sandbox.inside only."""
