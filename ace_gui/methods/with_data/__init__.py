"""Methods that want data of the experts, in closed form."""
