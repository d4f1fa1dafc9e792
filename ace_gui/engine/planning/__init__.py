"""From a recipe to a plan: open the models, decide for every tensor."""
