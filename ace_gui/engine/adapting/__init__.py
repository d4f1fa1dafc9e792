"""Learns a method's values on the merged model, with data of the tasks."""
