"""Who may ask: keys now; scopes, limits and the usage ledger beside them later."""
