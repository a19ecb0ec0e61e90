"""Small games with known answers: rules in Python, played from a table, thousands of copies at once."""
