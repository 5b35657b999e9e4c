"""Pictures of comparisons and studies, drawn by matplotlib."""
