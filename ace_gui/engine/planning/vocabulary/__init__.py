"""Vocabularies: whose tokens a merged model has, and which rows of embeddings are theirs."""
