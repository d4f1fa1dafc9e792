"""Vocabularies: the tokens of a merged model, and their rows in the embeddings."""
