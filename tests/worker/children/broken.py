"""An app that cannot be imported."""

raise RuntimeError("no settings for this shop")
