"""Images: reading, holding and drawing them; without torch."""
