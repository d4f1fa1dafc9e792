"""From a recipe to a plan: open the models and decide for every tensor."""
