"""The gate: calls that wait for a person or a browser, the policy, and tools that the browser executes."""
