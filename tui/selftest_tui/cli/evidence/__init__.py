"""Commands about what agents did: recordings and reports."""
