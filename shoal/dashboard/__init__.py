"""A local web page over run folders: reads them, live or years later. Nothing imports it but the command."""
