"""How well a trained policy follows its targets."""
