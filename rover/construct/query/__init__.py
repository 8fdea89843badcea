"""Two engines that evaluate the queries of a contract, and their comparison. They share no code but the record."""
