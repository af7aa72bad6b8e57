"""The folder of a run: its record, its state, its edits and what is made of them; without torch."""
