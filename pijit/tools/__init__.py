"""Tools that look at what pijit did, over the same introspection as the public views."""
