"""The agent that `adkwire serve` runs when no other is named, with an offline model that needs no network."""
