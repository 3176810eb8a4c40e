"""Many messages at once: chosen, copied, turned to Arrow and back."""
