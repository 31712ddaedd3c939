"""What every dialect shares: the model service, answers, fields, errors, routes."""
