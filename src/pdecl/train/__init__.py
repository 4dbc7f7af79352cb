"""Training a basis through the layer: losses, steps, checkpoints, history."""
