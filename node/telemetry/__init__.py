"""What the node says of itself. A leaf: anyone may report to it, it imports none of the others."""
