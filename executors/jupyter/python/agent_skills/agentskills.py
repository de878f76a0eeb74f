"""All skills under one name (V0 §6.5)."""

__all__ = []
