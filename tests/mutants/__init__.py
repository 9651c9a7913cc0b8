"""One mutant breaks one rule of the source; a test must notice it. `python -m tests.mutants` tries them."""
