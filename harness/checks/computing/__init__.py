"""Checks of what sites compute, as iterations and as branches of models in layers (pure)."""
