"""Makes graphs of what was recorded: of a call, of a trace, of a segment of one, and of the gradients of these."""
