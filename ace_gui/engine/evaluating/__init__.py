"""How good models are: data of tasks, answers of models, scores."""
